"""Export of a chat to a file: Markdown for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from stretto.cli.chat.chat_file import Turn
from stretto.cli.output.plain import json_lines, one_line, plain, record_in
from stretto.values.errors import InvalidRequestError

ENDINGS = (".md", ".json")


def export(turns: Sequence[Turn], file: Path) -> Path:
    """Write the turns to a new file in the format of its extension. Raises `InvalidRequestError`."""
    file = file.expanduser()
    if file.suffix.lower() not in ENDINGS:
        raise InvalidRequestError(f"{str(file)!r} cannot be written: a chat is exported as .md or .json.")
    if not turns:
        raise InvalidRequestError("There is nothing to export yet. Ask something first.")
    text = as_markdown(turns) if file.suffix.lower() == ".md" else as_json(turns) + "\n"
    try:
        with file.open("x", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except FileExistsError:
        raise InvalidRequestError(f"{str(file)!r} is there already. Name another file.") from None
    except OSError as error:
        raise InvalidRequestError(f"{str(file)!r} cannot be written: {error.strerror}. Name another file.") from None
    return file


def as_markdown(turns: Sequence[Turn]) -> str:
    """Format questions as headings, followed by the answers, each with a line about it."""
    return "\n".join(line for turn in turns for line in _turn(turn))


def _turn(turn: Turn) -> list[str]:
    heading, *rest = plain(turn.question).strip().split("\n")
    lines = [f"## {heading}", "", *rest, *([""] if rest else [])]
    text = f"```json\n{record}\n```" if (record := record_in(turn.text)) else plain(turn.text)
    lines += [text, ""] if turn.text else ["*There is no answer.*", ""]
    if about := about_of(turn):
        lines += [f"*{about}*", ""]
    return lines


def about_of(turn: Turn) -> str:
    """Return a line about a turn: the figures of its answer, or how it was stopped."""
    if turn.answer is None:
        return one_line(turn.stopped)
    from pydantic import ValidationError  # noqa: PLC0415 - only where there are answers

    from stretto.cli.output.progress import status_of  # noqa: PLC0415 - likewise
    from stretto.values.answer import Answer  # noqa: PLC0415 - likewise

    try:
        return one_line(status_of(Answer.model_validate(turn.answer)))
    except ValidationError:  # from another version
        return ""


def as_json(turns: Sequence[Turn]) -> str:
    """Return the turns with their complete answers as JSON."""
    return json_lines({"turns": [asdict(turn) for turn in turns]})
