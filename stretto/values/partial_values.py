"""The value of an answer with a ``response_format`` while it is written: the caller's class with what has arrived."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from stretto.foundation.json_schema import is_deeper
from stretto.values.events import BranchDelta, BranchFinished, BranchStarted, Event, TextDelta

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(r"\.?([^\W\d]\w*)|\[(\d{1,6})\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_MOST_ELEMENTS = 10_000
_WHOLE = ("direct", "fields")  # kinds of branches that write an object from its root
_IN_IT = ("field", "element")
_MOST_TURNS = 8  # references followed in a row
_NOTHING: Any = object()


def path_name(path: Iterable[str | int]) -> str:
    """Format a path as in ``chapters[1].text``; names with other characters are put in brackets, ``["a b"]``."""
    name = ""
    for each in path:
        if isinstance(each, int):
            name += f"[{each}]"
        else:
            name += f"{'.' if name else ''}{each}" if each.isidentifier() else f"[{json.dumps(each)}]"
    return name


def path_of(name: str) -> Path:
    """Parse a path that `path_name` formatted."""
    steps = (found.groups() for found in _STEP.finditer(name))
    return tuple(
        word if word is not None else int(number) if number is not None else json.loads(quoted)
        for word, number, quoted in steps
    )


class PartialValue:
    """Builds the partial value of an answer from its events.

    Args:
        form: the ``response_format``. For a class, the value is an instance; for a schema, it is the decoded JSON.
    """

    def __init__(self, form: Any) -> None:
        self._form = form
        self._paths: dict[str, Path | None] = {}
        self._texts: dict[str, str] = {}
        self._values: dict[Path | None, Any] = {}
        self._shown = ""

    def feed(self, event: Event) -> bool:
        """Process an event; return whether the value may have changed."""
        if not isinstance(self._form, type | Mapping):
            return False
        match event:
            case BranchStarted(kind=kind) if kind in _WHOLE or kind in _IN_IT:
                path = None if kind in _WHOLE else path_of(event.title)
                self._paths[event.branch_id] = path if kind != "field" or not path else path[:-1]
                self._texts[event.branch_id] = ""
                if kind == "direct":
                    self._values.clear()
            case BranchDelta(branch_id=branch) if branch in self._paths:
                self._texts[branch] += event.text
                return self._take(branch, self._texts[branch])
            case BranchFinished() if event.branch.id in self._paths and not event.branch.discarded:
                return self._take(event.branch.id, event.branch.text)
            case TextDelta():
                self._shown += event.text
                if not self._paths:  # a strategy of another kind is writing it
                    found = _read(self._shown)
                    self._values |= {} if found is _NOTHING else {None: found}
                    return found is not _NOTHING
            case _:
                pass
        return False

    @property
    def value(self) -> Any:
        """The value so far; ``None`` before any of it has arrived."""
        if not self._values:
            return None
        whole: Any = self._values.get(None, {})
        for path, value in self._values.items():
            if path is not None:
                whole = _with(whole, path, value)
        return typed(whole, self._form) if isinstance(self._form, type) else whole

    def _take(self, branch: str, text: str) -> bool:
        path, value = self._paths[branch], _read(text)
        if value is _NOTHING:
            return False
        if path is not None and isinstance(value, dict):
            self._values |= {(*path, name): each for name, each in value.items()}
        elif path is None:
            names = _names(self._form)  # a call can write more than the record, for the writers of other fields
            if names and isinstance(value, dict):
                value = {name: each for name, each in value.items() if name in names}
            self._values[None] = value
        return True


def _names(form: Any) -> Iterable[str]:
    """Return the fields at the root of a schema that takes no others; empty for any other form."""
    schema, turns = form, 0
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str) and turns < _MOST_TURNS:
        steps, schema, turns = schema["$ref"].split("/")[1:], form, turns + 1
        for step in steps:
            schema = schema.get(step) if isinstance(schema, Mapping) else None
    named = schema.get("properties") if isinstance(schema, Mapping) else None
    return named if isinstance(named, Mapping) else ()


def _read(text: str) -> Any:
    """Parse incomplete JSON, even after other text; `_NOTHING` where none begins."""
    begin = min((at for mark in "{[" if (at := text.find(mark)) >= 0), default=-1)
    if begin < 0:
        return _NOTHING
    try:
        return from_json(text[begin:], allow_partial="trailing-strings")
    except ValueError:
        pass
    try:
        value = json.JSONDecoder(strict=False).raw_decode(text, begin)[0]
    except (ValueError, RecursionError):
        return _NOTHING
    return _NOTHING if is_deeper(value) else value


def _with(whole: Any, path: Path, value: Any) -> Any:
    """Return a value with another one set at a path; missing containers are created, conflicting values are kept."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        found = list(whole) if isinstance(whole, list) else []
        if step >= _MOST_ELEMENTS:
            return whole
        found += [{} for _ in range(step + 1 - len(found))]
        found[step] = _with(found[step], tuple(rest), value)
        return found
    known = whole if isinstance(whole, dict) else {}
    return {**known, step: _with(known.get(step), tuple(rest), value)}


def typed(value: Any, annotation: Any) -> Any:
    """Convert a partial value to its class; fields that are missing, or not valid yet, are ``None``.

    No code of the class runs: neither its validators nor its post-init hooks.
    """
    origin = get_origin(annotation)
    of = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _instance(value, annotation)
    if origin in (Union, UnionType):
        return _first_of(value, of)
    if of and origin is list and isinstance(value, list):
        return [typed(each, of[0]) for each in value]
    if of and origin is dict and isinstance(value, Mapping):
        return {key: typed(each, of[-1]) for key, each in value.items()}
    try:
        return _adapter(annotation).validate_python(value)
    except Exception as error:  # noqa: BLE001 - a type of the caller without a pydantic adapter, or custom code
        return None if isinstance(error, ValidationError) else value


def _first_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        if kind is not type(None) and (found := typed(value, kind)) is not None:
            return found
    return None


def _instance(value: Any, model: type[BaseModel]) -> Any:
    is_root = issubclass(model, RootModel)
    if not is_root and not isinstance(value, Mapping):
        return None
    there = {"root": value} if is_root else value
    made = model.__new__(model)
    fields: dict[str, Any] = {}
    present: set[str] = set()
    for name, field in model.model_fields.items():
        key = _key(name, field)
        fields[name] = typed(there[key], field.annotation) if key in there else None
        if key in there:
            present.add(name)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", present)
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _key(name: str, field: FieldInfo) -> str:
    """Return the name of a field in JSON."""
    alias = field.validation_alias or field.alias
    if isinstance(alias, AliasChoices):
        alias = next((each for each in alias.choices if isinstance(each, str)), None)
    return alias if isinstance(alias, str) else name


@lru_cache(maxsize=512)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
