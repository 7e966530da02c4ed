"""Readable text of the calls that write a record, while it arrives."""

from __future__ import annotations

import json
from typing import Any

from stretto.foundation.surrogates import fix_surrogates
from stretto.values.events import TextDelta
from stretto.values.partial_values import PartialValue

KINDS = {"fields": "First fields", "field": "", "element": "", "lookup": ""}
"""Kinds of branches that write a record, and their names if they have no title."""


def fields_text(text: str) -> str:
    """Return the only field of a possibly incomplete JSON object, or each field with its name."""
    so_far = PartialValue({})
    so_far.feed(TextDelta(text=text))
    match so_far.value:
        case dict() as fields if len(fields) == 1:
            return _plain(*fields.values())
        case dict() as fields:
            return "\n".join(f"**{name}**: {_plain(value)}" for name, value in fields.items())
        case value:
            return "" if value is None else _plain(value)


def _plain(value: Any) -> str:
    match value:
        case str():
            return fix_surrogates(value)
        case list():
            return "".join(f"\n- {_plain(each)}" for each in value)
        case dict():
            return ", ".join(f"{name}: {_plain(each)}" for name, each in value.items())
        case _:
            return json.dumps(value)
