"""Schemas of real programs, and a model that fits them value by value, and now and then does not.

The schemas are those of the types of OpenAI's and Anthropic's SDKs, as they are installed: objects with three fields or
more, one of all that have the same names. Collections of others, such as JSONSchemaBench's, are read from files:

    python benchmarks/record_schemas.py FOLDER ...      schemas in .json and, one a line, in .jsonl files
    python benchmarks/record_schemas.py FOLDER --each   and a line on each of them
    python benchmarks/record_schemas.py FOLDER --keep   and keep the counts with the words on which schemas they were

A file may give a record that fits: ``{"schema": ..., "tests": [{"valid": true, "data": ...}]}``, as MaskBench's do. It
is what the model then writes, whole or by the parts that it is asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import pkgutil
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from measuring import RESULTS
from pydantic import BaseModel

from stretto import AsyncStretto
from stretto.backends.base import Capabilities, ModelRequest
from stretto.foundation.json_schema import validator_of
from stretto.router.schema_tokens import resolved
from stretto.strategies.fields.record_plan import Record, record_of
from stretto.testing import ScriptedBackend
from stretto.values.errors import StrettoError
from stretto.values.partial_values import path_of

PACKAGES = ("openai.types", "anthropic.types")
LEAST_FIELDS = 3
KEPT = RESULTS / "record_schemas.json"
LONGEST_LINE = 300  # characters
DEEPEST = 6  # levels of what refers to itself
NUMBERS = (7.5, 7, 1, 0, 0.5, 100)
TEXTS = (
    "some words of text", "2026-11-30T09:30:00Z", "2026-11-30", "09:30:00Z", "ada@example.org", "https://example.org/a",
    "0b9f3c1e-7d52-4e0a-9f6b-2c4d8e1a5b37", "192.0.2.1", "1.0.0", "example", "12", "A", "",
)  # fmt: skip
"""What a single value may be: the first that fits."""


def real_schemas() -> list[dict[str, Any]]:
    """Schemas whose records can be taken apart, in a fixed order."""
    found: dict[frozenset[str], dict[str, Any]] = {}
    for module in _modules():
        for value in vars(module).values():
            if not (isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == module.__name__):
                continue
            schema = value.model_json_schema()
            names = frozenset(schema.get("properties", {}))
            if len(names) >= LEAST_FIELDS and isinstance(record_of(schema, explicit=True), Record):
                found.setdefault(names, schema)
    return sorted(found.values(), key=json.dumps)


@dataclass(frozen=True)
class Case:
    """A schema of a file, and a record that the file gives for it, or ``None``."""

    name: str
    schema: Any
    record: Any

    @property
    def writer(self) -> tuple[str, Callable[[ModelRequest], str]]:
        """A model that writes records of it, and where these come from."""
        if isinstance(self.schema, dict) and self.record is not None and _fits(self.record, self.schema):
            return "given", Known(self.record)
        return "made" if is_exemplified(self.schema) else "none", Writer(0.0, 0)


def cases_in(folders: Iterable[Path]) -> Iterator[Case]:
    """What files contain: a schema of its own, or below the key ``json_schema``, or one with records."""
    for folder in folders:
        for file in sorted(folder.rglob("*.json*")):
            text = file.read_text(encoding="utf-8")
            for each in text.splitlines() if file.suffix == ".jsonl" else (text,):
                with contextlib.suppress(ValueError, RecursionError):
                    yield _case(str(file.relative_to(folder)), json.loads(each))


def _case(name: str, found: Any) -> Case:
    if not isinstance(found, dict):
        return Case(name, found, None)
    if isinstance(found.get("tests"), list) and "schema" in found:
        return Case(name, found["schema"], next((each["data"] for each in found["tests"] if each["valid"]), None))
    schema = found.get("json_schema", found)
    return Case(name, json.loads(schema) if isinstance(schema, str) else schema, None)


def is_exemplified(schema: Any) -> bool:
    """Whether the writer that never errs writes what fits a schema, so that a record can be expected to."""
    if not isinstance(schema, dict):
        return False
    try:
        return _fits(Writer(0.0, 0).record(schema), schema)
    except (TypeError, KeyError, IndexError, RecursionError):
        return False


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    try:
        return bool(validator_of(schema).is_valid(value))
    except (ValueError, TypeError):
        return False


def _modules() -> Iterator[ModuleType]:
    for package in map(importlib.import_module, PACKAGES):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(each.name)


class Writer:
    """Writes what fits a schema; each single value is wrong with this probability."""

    def __init__(self, errs: float, seed: int) -> None:
        self.errs, self.chosen = errs, random.Random(seed)  # noqa: S311 - the same each time

    def __call__(self, prompt: ModelRequest) -> str:
        """The reply to a prompt that holds it to a schema."""
        schema = prompt.response_schema
        return "{}" if schema is None else json.dumps(self.record(schema))

    def record(self, schema: Mapping[str, Any]) -> Any:
        """A value for a whole schema."""
        self.dialect = {key: schema[key] for key in ("$schema",) if key in schema}
        return self._value(schema, schema, 0)

    def _value(self, given: Any, root: Mapping[str, Any], depth: int) -> Any:
        schema = resolved(given, root)
        chosen = self.chosen
        if not isinstance(schema, Mapping) or depth > 3 * DEEPEST:  # no value of it ends
            return "text"
        if len(together := schema.get("allOf", ())) > 1:
            schema = {**schema, **{key: each for part in together for key, each in resolved(part, root).items()}}
            schema.pop("allOf", None)
        for keyword in ("anyOf", "oneOf", "allOf"):
            if choices := schema.get(keyword):
                fitting = [each for each in choices if depth < DEEPEST or "$ref" not in each] or choices
                return self._value(chosen.choice(fitting), root, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = chosen.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            wanted = set(schema.get("required", ()))
            named = schema.get("properties", {})
            return {
                name: self._value(each, root, depth + 1)
                for name, each in named.items()
                if name in wanted or (depth < DEEPEST and chosen.random() < 0.7)
            }
        if kind == "array":
            least = schema.get("minItems", 0 if depth > DEEPEST else 1)
            return [self._value(schema.get("items", {}), root, depth + 1) for _ in range(least)]
        return {"wrong": True} if chosen.random() < self.errs else self._single(schema, kind)

    def _single(self, schema: Mapping[str, Any], kind: str) -> Any:
        if "const" in schema or schema.get("enum"):
            return schema["const"] if "const" in schema else self.chosen.choice(schema["enum"])
        if kind == "boolean":
            return True
        if kind == "null":
            return None
        choices = NUMBERS if kind in ("integer", "number") else TEXTS
        least, most = schema.get("minLength", 0), schema.get("maxLength", 0)
        given = [*choices, *(each[:most] for each in TEXTS), "x" * least] if choices is TEXTS else choices
        return next((each for each in given if _fits(each, {**self.dialect, **schema, "type": kind})), choices[0])


class Known:
    """Writes what a prompt asks for of one record."""

    def __init__(self, record: Any) -> None:
        self.record = record

    def __call__(self, prompt: ModelRequest) -> str:
        """The reply to a prompt that holds it to a schema, and names an element or a field."""
        found, asked, schema = self.record, prompt.messages[-1].content, prompt.response_schema
        if element := re.search(r"only element (\d+) of `(.*)` now, the one with", asked):
            above = (*path_of(element[2]), int(element[1]) - 1)
        else:
            field = re.search(r"only the field `(.*)` now", asked)
            above = () if field is None else path_of(field[1])[:-1]
        for step in above:
            found = found[step]
        return json.dumps(_declared(found, schema, schema))


def _declared(value: Any, schema: Any, root: Any) -> Any:
    """A value without the fields that a closed schema does not have."""
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [_declared(each, schema.get("items"), root) for each in value]
    named = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(named, Mapping):
        return value
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return {
        name: _declared(each, named.get(name), root) for name, each in value.items() if name in named or not is_closed
    }


@dataclass(frozen=True)
class Written:
    """What one way made of a schema.

    Attributes:
        fits: the record does.
        apart: it was written field by field.
        calls: to the model.
        notes: warnings, or the error.
    """

    fits: bool = False
    apart: bool = False
    calls: int = 0
    notes: str = ""


async def written(strategy: str, schema: Any, writer: Callable[[ModelRequest], str]) -> Written:
    """Have a record written."""
    backend = ScriptedBackend(writer, capabilities=Capabilities(json_schema=True))
    async with AsyncStretto(backend) as stretto:
        try:
            answer = await stretto.ask("Write the record.", response_format=schema, strategy=strategy)
        except StrettoError as error:
            return Written(notes=f"{type(error).__name__}: {error}")
    fits = False
    with contextlib.suppress(ValueError):
        fits = _fits(json.loads(answer.text), schema)
    return Written(fits, answer.strategy == "fields", answer.usage.calls, " ".join(answer.warnings))


async def valid_share(strategy: str, errs: float, schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """How many records of these schemas fit, and how many were written field by field."""
    made = [await written(strategy, schema, Writer(errs, number)) for number, schema in enumerate(schemas)]
    return {"records": len(schemas)} | {
        what: sum(getattr(each, name) for each in made)
        for what, name in (("valid", "fits"), ("apart", "apart"), ("calls", "calls"))
    }


async def compared(cases: Iterable[Case], *, each: bool) -> dict[str, Any]:
    """Count the records that fit, straight and field by field; print which do not fit in both."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    unknown: list[str] = []
    for case in cases:
        origin, writer = case.writer
        straight, fields = [await written(way, case.schema, writer) for way in ("direct", "fields")]
        is_refused = straight.notes.startswith("InvalidRequestError")
        kind = "refused" if is_refused else origin
        unknown += [case.name.removesuffix(".json")] * (kind == "none")
        counts.update({"schemas": 1, "apart": fields.apart, kind: 1})
        counts.update({f"{kind}_straight": straight.fits, f"{kind}_fields": fields.fits})
        why = re.search(r"instead of field by field: (.*?)\.(?: |$)", fields.notes)
        if not (is_refused or fields.apart):
            reasons[re.sub(r"'[^']*'|\d+", "…", why[1]) if why else "no reason"] += 1
        if each or straight.fits != fields.fits or (is_refused and fields.notes != straight.notes):
            line = f"{case.name}: {kind}, straight {straight.fits}, fields {fields.fits}, apart {fields.apart}"
            print(f"{line}. {fields.notes or straight.notes}"[:LONGEST_LINE])
    return {**counts, "reasons": dict(reasons.most_common()), "unknown": unknown}


def main() -> None:
    """Count the records of schemas in files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--each", action="store_true", help="print a line for each schema")
    parser.add_argument("--keep", action="store_true", help=f"keep the counts in {KEPT.name}")
    options = parser.parse_args()
    found = asyncio.run(compared(cases_in(options.folders), each=options.each))
    print(json.dumps(found, indent=2, ensure_ascii=False))
    if options.keep:
        kept = json.loads(KEPT.read_text(encoding="utf-8")) | found
        KEPT.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
