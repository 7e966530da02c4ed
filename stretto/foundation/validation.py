"""Pydantic's validation errors in one line for people."""

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
    """A model that callers create. Invalid values raise one of the library's errors.

    As part of another model, or with ``model_validate``, it raises pydantic's error, which includes the path.
    """

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, /, *values: Any, **given: Any) -> None:
            if values:
                fields = ", ".join(f"{name}=" for name in type(self).model_fields)
                raise TypeError(f"{type(self).__name__} takes its fields by name: {fields}.")
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise type(self)._refused(error) from None

        # Without this mark, pydantic also calls the constructor for nested models, and the path is lost.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def _refused(cls, error: ValidationError) -> StrettoError:
        """Return the error for a caller's arguments."""
        first = error.errors()[0]
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            wrong = unknown_names([str(first["loc"][0])], cls.model_fields, cls.__name__)
            return InvalidRequestError(wrong or explained(error))
        return InvalidRequestError(explained(error, f"{cls.__name__}."))


def explained(error: ValidationError, within: str = "") -> str:
    """Describe the first error, without API keys; ``within`` precedes the name."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), StrettoError):
        return str(cause)
    parts = (str(part) for part in first["loc"])
    name = within + (".".join("[hidden]" if looks_like_key(part) else part for part in parts) or "request")
    if first["type"] == "missing":
        return f"{name} is missing. Give it."
    return f"{name}={safe_repr(first.get('input'))} cannot be used: {reason(first)}."


def read_table(file: Path, read: Callable[[Any], Value], what: str, page: str) -> Value:
    """Read a caller's TOML file. Raises `SettingsError`, which names the file and the page with its format."""
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
