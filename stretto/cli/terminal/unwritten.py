"""The text of an answer that ended early, with the text of its parts that was not merged yet."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LEAD = re.compile(r"\W*(?:\d{1,3}[.):])?\W*")  # a number from the model, which merging may have removed
_MARK = re.compile(r"\s*(?:#{1,6}|[-*+•]|\d{1,4}[.):\]])(?:\s+|$)")  # mark of a list or a heading
_HEADED = re.compile(r"^## ", re.MULTILINE)  # heading of a section
_NUMBERED = re.compile(r"^(\d{1,3})\. \*\*", re.MULTILINE)  # number of a point
_AFTER_NAME = re.compile(r"[*_\"”“»']{0,3}\s*(?:[:：=]|→|->|=>|[-–—]\s|\n|$)[*_]{0,3}\s*")


def with_unwritten(text: str, parts: Iterable[tuple[str, str]]) -> str:
    """Append what the text lacks of its parts, pairs of title and text in reading order.

    Titles, labels, indents and notes depend on the form of the answer, so only the letters of a part are matched, each
    part after the previous one. The first missing part may have begun: only its rest is appended.
    """
    letters, places = _letters(text)
    headed = _HEADED.search(text) is not None
    read = 0
    later: list[str] = []
    number = int((_NUMBERED.findall(text) or [0])[-1])  # of the last point so far, if points are numbered
    for title, part in parts:
        own, own_places = _letters(part, _after_label(title, part))
        at = letters.find(own, read)
        if at >= 0:
            read = at + len(own)
        elif not later and (begun := _begun(text, own, letters, places, read)):
            rest, end = part[own_places[begun - 1] + 1 :], places[-1] + 1
            text = text[:end] + (rest if rest.startswith(text[end:]) else text[end:].rstrip() + rest)
            read = len(letters)
        elif not later and _ends_in_label(text, title, places[read - 1] + 1 if read else 0):
            text = _joined(text, title, _without_label(title, part))
            read = len(letters)
        else:
            number += 1 if number else 0
            label = f"## {title}\n\n" if headed else f"{f'{number}. ' if number else ''}**{title}**: "
            later.append(f"{label}{_without_label(title, part)}" if title else part)
    return "\n\n".join(filter(None, (text, *later)))


def _begun(text: str, own: str, letters: str, places: list[int], read: int) -> int:
    """Return how many letters of a part the text ends with, starting at the beginning of a word."""
    for count in range(min(len(own), len(letters) - read), 0, -1):
        start = len(letters) - count
        at_word = start == read or not text[places[start] - 1].isalnum()
        if at_word and letters.endswith(own[:count]):
            return count
    return 0


def _ends_in_label(text: str, title: str, since: int) -> bool:
    """Return whether a text ends with the mark or name of a part, without any of its text."""
    start = text.rstrip().rfind("\n") + 1
    line = text[start:].strip()
    mark = _MARK.match(line)
    name = _bare(line[mark.end() if mark else 0 :])
    return start >= since and bool(line) and name in ("", _bare(title))


def after_name(title: str, part: str) -> str | None:
    """Return a part's text after its mark and title, if the model wrote these too; else ``None``."""
    mark = _MARK.match(part)
    name = re.sub(r"^[*_\"“„«']{0,3}", "", part[mark.end() if mark else 0 :].lstrip())
    separator = _AFTER_NAME.match(name, len(title)) if title and name.startswith(title) else None
    return name[separator.end() :] if separator else None


def _without_label(title: str, part: str) -> str:
    rest, mark = after_name(title, part), _MARK.match(part)
    return part[mark.end() if mark else 0 :].lstrip() if rest is None else rest


def _joined(text: str, title: str, part: str) -> str:
    """Join a part to its mark or name, where the name may also be the first word of the part."""
    if title and text.endswith(title) and part.startswith(title):
        return text + part[len(title) :]
    return text + ("" if text.endswith("：") or text[-1:].isspace() else " ") + part


def _bare(name: str) -> str:
    return name.strip().lstrip("*_ ").rstrip("*_ :：")


def _after_label(title: str, part: str) -> int:
    """Return the position of a part's text after its number and title."""
    lead = _LEAD.match(part)
    start = lead.end() if lead else 0
    start += len(title) if part[start:].startswith(title) else 0
    return start if any(map(str.isalnum, part[start:])) else 0


def _letters(text: str, start: int = 0) -> tuple[str, list[int]]:
    """Return the letters and digits, and their positions."""
    places = [at for at in range(start, len(text)) if text[at].isalnum()]
    return "".join(text[at] for at in places), places
