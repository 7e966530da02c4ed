"""Schemas of real programs, and a model that fits them value by value, and now and then does not.

The schemas are those of the types of OpenAI's and Anthropic's SDKs, as they are installed: objects with three fields or
more, one of all that have the same names. Collections of others, such as JSONSchemaBench's, are read from files:

    python benchmarks/record_schemas.py FOLDER ...      schemas in .json and, one a line, in .jsonl files
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import pkgutil
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from stretto import AsyncStretto
from stretto.backends.base import Capabilities, ModelRequest
from stretto.foundation.json_schema import validator_of
from stretto.router.schema_tokens import resolved
from stretto.strategies.fields.record_plan import Record, record_of
from stretto.testing import ScriptedBackend
from stretto.values.errors import StrettoError

PACKAGES = ("openai.types", "anthropic.types")
LEAST_FIELDS = 3
DEEPEST = 6  # levels of what refers to itself


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


def schemas_in(folders: Iterable[Path]) -> Iterator[Any]:
    """What stands in files, as a schema of its own or below the key ``json_schema``."""
    for folder in folders:
        for file in sorted(folder.rglob("*.json*")):
            text = file.read_text(encoding="utf-8")
            for each in text.splitlines() if file.suffix == ".jsonl" else (text,):
                with contextlib.suppress(ValueError, RecursionError):
                    found = json.loads(each)
                    held = found.get("json_schema", found) if isinstance(found, dict) else found
                    yield json.loads(held) if isinstance(held, str) else held


def is_exemplified(schema: Any) -> bool:
    """Whether the writer that never errs writes what fits a schema, so that a record can be expected to."""
    if not isinstance(schema, dict):
        return False
    try:
        return bool(validator_of(schema).is_valid(Writer(0.0, 0).record(schema)))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
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
        return self._value(schema, schema, 0)

    def _value(self, given: Any, root: Mapping[str, Any], depth: int) -> Any:
        schema = resolved(given, root)
        chosen = self.chosen
        if not isinstance(schema, Mapping):
            return "text"
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
        return {"integer": 7, "number": 7.5, "boolean": True, "null": None}.get(kind, "some words of text")


async def valid_share(strategy: str, errs: float, schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """How many records of these schemas fit, and how many were written field by field."""
    valid = apart = calls = 0
    for number, schema in enumerate(schemas):
        backend = ScriptedBackend(Writer(errs, number), capabilities=Capabilities(json_schema=True))
        async with AsyncStretto(backend) as stretto:
            try:
                answer = await stretto.ask("Write the record.", response_format=schema, strategy=strategy)
            except StrettoError:
                continue
        with contextlib.suppress(ValueError):
            valid += validator_of(schema).is_valid(json.loads(answer.text))
        apart += answer.strategy == "fields"
        calls += answer.usage.calls
    return {"records": len(schemas), "valid": valid, "apart": apart, "calls": calls}


def main() -> None:
    """Count the records of schemas in files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    schemas = list(schemas_in(parser.parse_args().folders))
    chosen = [each for each in schemas if is_exemplified(each)]
    print(f"{len(schemas)} schemas, {len(chosen)} with an example")
    for strategy in ("direct", "fields"):
        print(strategy, asyncio.run(valid_share(strategy, 0.0, chosen)))


if __name__ == "__main__":
    main()
