"""``--schema FILE``: the schema of a record, and the record as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.cli.output.plain import json_lines
from stretto.documents.contents import contents
from stretto.documents.limits import ReadingLimits, ReadingTime
from stretto.foundation.json_schema import read_format
from stretto.values.errors import DocumentError, InvalidRequestError

if TYPE_CHECKING:
    from stretto.cli.output.screen import Screen
    from stretto.values.answer import Answer


_READING_S = 10.0  # a pipe might never end


def schema_in(file: Path, named: str = "--schema") -> dict[str, Any]:
    """Read the JSON schema from a file given by the option or command ``named``. Raises `InvalidRequestError`."""
    try:
        with (allowance := ReadingTime(ReadingLimits(reading_s=_READING_S))).one_file():
            given = json.loads(contents(file, allowance).decode("utf-8-sig"))
        schema = read_format(given) if isinstance(given, dict) else None
    except DocumentError as error:
        cause = str(error).partition("; ")[0]
    except (ValueError, RecursionError) as error:
        cause = f"it is no JSON: {error}"
        if isinstance(error, InvalidRequestError):
            cause = str(error).partition(" cannot be used: ")[2].partition(" Give a JSON schema")[0]
    else:
        if isinstance(schema, dict):
            return schema
        cause = "it holds no JSON schema"
    raise InvalidRequestError(
        f"{named} {str(file)!r} cannot be used: {cause.rstrip('.')}. "
        'Name a file with a JSON schema such as {"type": "object", "properties": {...}}.'
    )


def print_record(answer: Answer, screen: Screen) -> None:
    """Print the record of an answer, or nothing if it is not JSON."""
    value = answer.parsed
    if value is None:
        try:
            value = json.loads(answer.text)
        except (ValueError, RecursionError):
            screen.warn("The answer is no JSON, and was not printed; --json shows it.")
            return
    screen.write(json_lines(value) + "\n")
