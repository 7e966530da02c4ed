"""What pydantic refuses, in one line for a person."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from stretto.foundation.arguments import looks_like_key, reason, safe_repr, unknown_names
from stretto.values.errors import InvalidRequestError, SettingsError, StrettoError

Value = TypeVar("Value")


class CheckedModel(BaseModel):
    """A value that callers make. What cannot be used is one of the library's errors.

    As a part of another value, or read by ``model_validate``, it raises pydantic's error, which has the path to it.
    """

    if not TYPE_CHECKING:  # a type checker reads the names of the arguments from the fields

        def __init__(self, /, *values: Any, **given: Any) -> None:
            if values:
                fields = ", ".join(f"{name}=" for name in type(self).model_fields)
                raise TypeError(f"{type(self).__name__} takes its fields by name: {fields}.")
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise type(self)._refused(error) from None

        # Without this mark, pydantic calls the constructor for parts of other values, too, and the path is lost.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def _refused(cls, error: ValidationError) -> StrettoError:
        """The error for what a caller gave."""
        first = error.errors()[0]
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            wrong = unknown_names([str(first["loc"][0])], cls.model_fields, cls.__name__)
            return InvalidRequestError(wrong or explained(error))
        return InvalidRequestError(explained(error, f"{cls.__name__}."))


def explained(error: ValidationError, within: str = "") -> str:
    """The first thing that was found, without keys; ``within`` stands before the name."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), StrettoError):
        return str(cause)
    parts = (str(part) for part in first["loc"])
    name = within + (".".join("[hidden]" if looks_like_key(part) else part for part in parts) or "request")
    if first["type"] == "missing":
        return f"{name} is missing. Give it."
    return f"{name}={safe_repr(first.get('input'))} cannot be used: {reason(first)}."


def read_table(file: Path, read: Callable[[Any], Value], what: str, page: str) -> Value:
    """Read a TOML file of a caller's. Raises `SettingsError`, which says what it is and which page shows its form."""
    try:
        return read(tomllib.loads(file.expanduser().read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}={safe_repr(first.get('input'))}: {reason(first)}"
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
    except ValueError as error:
        problem = str(error)
    raise SettingsError(f"The {what} in {str(file)!r} cannot be used: {problem}. {page} shows the form.")
