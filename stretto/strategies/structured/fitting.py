"""Checks whether an answer fits its ``response_format``, and parses its value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError

from stretto.foundation.json_schema import MOST_LEVELS, is_deeper, validator_of
from stretto.strategies.structured.bare_json import json_in, read_json
from stretto.values.content import mended
from stretto.values.request import GenerationOptions

LONGEST_CAUSE = 300  # characters
MOST_CAUSES = 3
EXPLAINED_LEVELS = 16
"""For deeper answers no reason is given: if two parts of a schema refer back to it, jsonschema-rs needs twice the time
per further level to find one. Whether an answer fits is determined quickly."""


@dataclass(frozen=True)
class Fit:
    """The result of a check. ``wrong``: why the answer does not fit; ``unchecked``: why that could not be determined.

    ``text``: the answer without a code fence or sentences around its JSON.
    """

    value: Any = None
    wrong: str = ""
    unchecked: str = ""
    text: str = ""


def fit(text: str, options: GenerationOptions) -> Fit:
    """Check an answer against its format: a pydantic model, a JSON schema, or a regular expression."""
    wanted = options.response_format
    if isinstance(wanted, str):
        return _match(text, wanted)
    found = [replace(_value(each, options), text=each) for each in json_in(text)]
    fitting = [each for each in found if not each.wrong]
    if len({each.text for each in fitting}) > 1:
        return Fit(wrong=f"it holds {len(fitting)} JSON values that fit", text=text)
    if fitting:
        return fitting[0]
    found.sort(key=lambda each: len(each.text))
    return replace(found[-1] if found else _value(text, options), text=text)


def _value(text: str, options: GenerationOptions) -> Fit:
    if options.response_model is not None:
        return _instance(text, options.response_model)
    try:
        value = read_json(text)
    except (ValueError, RecursionError) as error:
        return Fit(wrong=_short(f"it is not valid JSON: {error}"))
    return _checked(value, options.response_format)  # type: ignore[arg-type]  # a regular expression is matched


def _match(text: str, pattern: str) -> Fit:
    try:
        fits = re.fullmatch(pattern, text)
    except re.error:  # in the dialect of its backend, which has enforced the expression
        return Fit(text, text=text)
    return Fit(text, text=text) if fits else Fit(wrong=_short(f"it does not match {pattern!r}"), text=text)


def _instance(text: str, model: type[BaseModel]) -> Fit:
    try:
        return Fit(model.model_validate_json(text))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        causes = (f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in found[:MOST_CAUSES])
        return Fit(wrong=_short("; ".join(causes)))
    except Exception as error:  # noqa: BLE001 - a caller's validator; the answer was paid for
        return Fit(wrong=_short(f"{model.__name__} cannot be made of it: {type(error).__name__}: {error}"))


def _checked(value: Any, schema: Mapping[str, Any]) -> Fit:
    if is_deeper(value):
        return Fit(wrong=f"it is nested deeper than {MOST_LEVELS} levels")
    value = mended(value)  # an escape such as "\\ud83d" is half a character, which cannot be encoded
    try:
        validator = validator_of(schema)
    except ImportError:
        return Fit(value, unchecked="jsonschema-rs is not installed")
    except (ValueError, TypeError) as error:  # a pattern in a dialect that its server may support
        return Fit(value, unchecked=_short(f"the schema cannot be used: {str(error).splitlines()[0]}"))
    if validator.is_valid(value):
        return Fit(value)
    if is_deeper(value, EXPLAINED_LEVELS):
        return Fit(wrong="it does not fit the schema")
    causes = []
    for found in islice(validator.iter_errors(value), MOST_CAUSES):
        place = ".".join(map(str, found.instance_path)) or "the answer"
        causes.append(f"{place}: {_short(found.message)}")
    return Fit(wrong=_short("; ".join(causes)))


def _short(cause: str) -> str:
    line = " ".join(cause.split()).rstrip(".")
    return line if len(line) <= LONGEST_CAUSE else line[:LONGEST_CAUSE] + "…"
