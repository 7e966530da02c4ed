"""What the calls of a record write, as people read it while it comes."""

from __future__ import annotations

import json
from typing import Any

from stretto.foundation.surrogates import fix_surrogates
from stretto.values.events import TextDelta
from stretto.values.partial_values import PartialValue

__all__ = ["KINDS", "fields_text"]

KINDS = {"fields": "First fields", "field": "", "element": "", "lookup": ""}
"""Kinds of the branches that write a record, and their names where they have no title."""


def fields_text(text: str) -> str:
    """The one field of an object of JSON, or each with its name, as far as it is there."""
    so_far = PartialValue({})
    so_far.feed(TextDelta(text=text))
    match so_far.value:
        case dict() as fields if len(fields) == 1:
            return _said(*fields.values())
        case dict() as fields:
            return "\n".join(f"**{name}**: {_said(value)}" for name, value in fields.items())
        case value:
            return "" if value is None else _said(value)


def _said(value: Any) -> str:
    match value:
        case str():
            return fix_surrogates(value)
        case list():
            return "".join(f"\n- {_said(each)}" for each in value)
        case dict():
            return ", ".join(f"{name}: {_said(each)}" for name, each in value.items())
        case _:
            return json.dumps(value)
