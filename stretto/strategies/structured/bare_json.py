"""Finds the JSON in an answer that has text around it: a code fence, or a sentence before or after."""

from __future__ import annotations

import json
import re
from typing import Any

MOST_VALUES = 20  # of an answer that are considered
_WORD_IN_BRACKETS = re.compile(r"\[[^][{}\"\n]*\]|\{[^][{}\"\n]*\}")  # as in "[note]"; not the start of a broken value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_json(text: str, *, strict: bool = True) -> Any:
    """Parse a text that is JSON and nothing else. Raises `ValueError` or `RecursionError`.

    Unless ``strict``, its strings can contain line breaks.
    """
    return json.loads(text, parse_constant=_refuse, strict=strict)


def json_in(text: str) -> list[str]:
    """Return the JSON texts in an answer: the whole answer, else those in fences, else those between its words.

    After an incomplete or invalid value no other is returned, because that might be a part of it.
    """
    text = text.strip()
    if _is_json(text):
        return [text]
    if fenced := [block for block in _fenced(text) if _is_json(block)]:
        return fenced[:MOST_VALUES]
    return _between_words(text)


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def _fenced(text: str) -> list[str]:
    """Return the contents of code fences; an unclosed last fence extends to the end."""
    blocks: list[str] = []
    block: list[str] | None = None
    for line in text.split("\n"):
        if not line.strip().startswith("```"):
            if block is not None:
                block.append(line)
        elif block is None:
            block = []
        else:
            blocks.append("\n".join(block).strip())
            block = None
    return blocks if block is None else [*blocks, "\n".join(block).strip()]


def _between_words(text: str) -> list[str]:
    found: list[str] = []
    at = _bracket(text, 0)
    while at < len(text) and len(found) < MOST_VALUES:
        try:
            _, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            word = _WORD_IN_BRACKETS.match(text, at)
            if word is None:
                break
            end = word.end()
        else:
            found.append(text[at:end])
        at = _bracket(text, end)
    return found


def _bracket(text: str, start: int) -> int:
    """Return where the next bracket opens; the length of the text if none does."""
    return min((at for mark in "[{" if (at := text.find(mark, start)) >= 0), default=len(text))
