"""Find the list in a request: marked lines, markers inside a line, quotes, JSON, separators, lines, paragraphs.

This module looks at the form only. The strategy `items` decides whether the request can be split.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from stretto.language.lists import listed, spaced
from stretto.language.sentences import sentence_spans

Marks = Literal["numbered", "lettered", "bulleted", "labelled", "json", "quoted", "separated", "lines", "paragraphs"]

TRIES = 16  # possible beginnings of a list that are tried; people write no more
MOST_WORDS = {";": 30, "/": 20, ",": 6}  # an item of a separated list; longer ones are clauses
_MARK = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?P<bulleted>[-*+•‣◦·–—▪●])[ \t]+"
    r"|\(?(?P<numbered>\d{1,3})(?:[.)\]:][)]?(?:[ \t]+|(?=[^\W\d]))|[、．）][ \t]*)"
    r"|\(?(?P<lettered>[A-Za-z])[.)][)]?[ \t]+"
    r"|[*_]{0,2}(?P<labelled>[^\W\d_][^\W_]{1,18} ?#?(?:\d{1,3}|[A-Z]))[*_]{0,2}[ \t]*(?:[:：)]"
    r"|[ \t][-–—](?=[ \t]))[*_]{0,2}[ \t]*)"
    r"(?P<text>\S.*)?$"
)
_STYLES: tuple[Marks, ...] = ("bulleted", "numbered", "lettered", "labelled")
_INSIDE = re.compile(
    r"(?:(?<=\s)|(?<=[;,:(])|^)\(?(?P<mark>\d{1,2}|[A-Za-z])(?:\)(?!\w*\()\s*|\.\s+)(?=[^\s\d]|\d)", re.MULTILINE
)
_EACH = listed("each")
_AND = rf"(?:{spaced('and')}|{spaced('and-short')}|&)"
_FIELD = re.compile(r"\s*[^\W\d_]\w{2,20}:\s")  # "Context: ...": a section of the request, not an item
_QUOTES = tuple(
    re.compile(pattern)
    for pattern in (
        # No opening mark inside: otherwise each unclosed one would be searched to the end of the text.
        r'"([^"\n]+)"', r"“([^“”\n]+)”", r"„([^„“”\n]+)[“”]", r"«([^«»\n]+)»",
        r"「([^「」\n]+)」", r"‘([^‘’\n]+)’(?!\w)",
        r"(?<![\w'])'([^'\n]+(?:'\w[^'\n]*){0,12})'(?!\w)", r"`([^`\n]+)`",
    )
)  # fmt: skip
_BETWEEN_QUOTES = re.compile(rf"[\s,;/|、，]*(?:{_AND}\s+)?(?:[-*•]\s*|\d{{1,2}}[.)]\s*)?")
_HEAD_END = re.compile(r"[:：](?:[ \t]*\n)?[ \t]*|(?<![ \t])[ \t]+[-–—][ \t]+|[.?!][ \t]+|\n+")
_BRACKET = re.compile(r"[()\[\]{}]")
_LAST_AND = re.compile(rf"^{_AND}\s+(?=\S)")
_INNER_AND = re.compile(rf"\s(?:{spaced('and')}|&)\s")
_SHORT_AND = re.compile(rf"(\S+) {spaced('and-short')} (\S+)")  # in longer pieces these words have other meanings


@dataclass(frozen=True)
class Listing:
    """A list in a text: its items as written, the text before and after it, and the kind of list marker.

    ``labels``: the label of each item ("Review 1", "b"), if there are labels. ``separator``: of a separated list;
    ``sentence``: the list ended with a full stop.
    """

    items: tuple[str, ...]
    before: str
    after: str
    marks: Marks
    labels: tuple[str, ...] = ()
    separator: str = ""
    sentence: bool = False


def listings(text: str) -> Iterator[Listing]:
    """Yield all ways to read a text as text, list, text; the clearest first."""
    for read in (_json, _marked_lines, _marked_inside, _quoted):
        if (found := read(text)) is not None:
            yield found
    yield from _separated(text)
    for read in (_paragraphs, _lines):
        if (found := read(text)) is not None:
            yield found


def marked(text: str) -> int:
    """Count the lines with a list marker."""
    return sum(_MARK.match(line) is not None for line in text.split("\n"))


def _json(text: str) -> Listing | None:
    """Find an array of strings, numbers or objects; an item is the text between the quotes, or the raw JSON."""
    decoder = json.JSONDecoder()
    for start in [found.start() for found in islice(re.finditer(r"\[\s*[\"{\d-]", text), TRIES)]:
        items: list[str] = []
        at = start + 1
        while True:
            at = _skip(text, at)
            try:
                value, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            plain = isinstance(value, str) and text[at + 1 : end - 1] == value
            items.append(value if plain else text[at:end])
            at = _skip(text, end)
            if text[at : at + 1] == "]":
                return _listing(items, text[:start], text[at + 1 :], "json")
            if text[at : at + 1] != ",":
                break
            at += 1
    return None


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n":
        at += 1
    return at


def _marked_lines(text: str) -> Listing | None:
    """Find lines that begin with a number, a letter, a bullet or a label, with their continuation lines."""
    lines = text.split("\n")
    marks = [found.groupdict("") if (found := _MARK.match(line)) else {} for line in lines]
    first = next((number for number, mark in enumerate(marks) if mark), None)
    if first is None:
        return None
    style = next(name for name in _STYLES if marks[first][name])
    starts = _starts(marks, first, style)
    if len(starts) < 2:
        return None
    bodies = ["\n".join(lines[begin + 1 : end]).rstrip() for begin, end in pairwise(starts)]
    loose = any(line and not line[0].isspace() for body in bodies for line in body.split("\n"))
    spread = any(not line.strip() for body in bodies for line in body.split("\n")[:-1])
    if spread and style == "bulleted":
        return None
    last = starts[-1] + 1
    while last < len(lines) and (spread or (lines[last].strip() and (loose or lines[last][0].isspace()))):
        last += 1
    items = [
        "\n".join([marks[begin]["text"], *lines[begin + 1 : end]])
        for begin, end in zip(starts, [*starts[1:], last], strict=True)
    ]
    if any(all(item.rstrip().endswith(mark) for item in items[:-1]) for mark in ";,"):
        items = [item.rstrip().rstrip(";,") for item in items]  # "- net weight;"
    labels = [marks[begin][style] for begin in starts] if style in ("labelled", "lettered") else []
    return _listing(items, "\n".join(lines[:first]), "\n".join(lines[last:]), style, labels)


def _starts(marks: Sequence[Mapping[str, str]], first: int, style: str) -> list[int]:
    """Return the lines that begin an item, from line ``first`` on; empty if the markers do not count up."""
    depth = len(marks[first]["indent"].expandtabs(4))
    starts: list[int] = []
    for number, mark in enumerate(marks):
        if not mark or not mark[style] or abs(len(mark["indent"].expandtabs(4)) - depth) > 1:
            continue
        if starts and not _follows(marks[starts[-1]], mark, style):
            return []
        starts.append(number)
    return starts


def _follows(before: Mapping[str, str], mark: Mapping[str, str], style: str) -> bool:
    """Return whether a marker follows the previous one; Markdown allows "1." on every line."""
    old, new = before[style], mark[style]
    if style == "bulleted":
        return old == new
    if style == "lettered":
        return ord(new) == ord(old) + 1
    if style == "labelled":
        kind = re.match(r"[^\W\d_]+?(?= ?#?(?:\d|[A-Z]$))", old)
        if kind is None or not new.startswith(kind[0]):
            return False
        old, new = old[kind.end() :].strip(" #"), new[kind.end() :].strip(" #")
        if not (old.isdigit() and new.isdigit()):
            return len(old) == len(new) == 1 and ord(new) == ord(old) + 1
    return int(new) == int(old) + 1 or new == old == "1"


def _marked_inside(text: str) -> Listing | None:
    """Find a line that contains "1) a 2) b 3) c"."""
    found = list(_INSIDE.finditer(text))
    starts = [position for position, mark in enumerate(found) if mark["mark"] in ("1", "a", "A")]
    for position in starts[:TRIES]:
        mark = found[position]
        run = [mark]
        for later in found[position + 1 :]:
            if later["mark"] == _next(run[-1]["mark"]):
                run.append(later)
        if len(run) < 3 or "\n" in text[run[0].start() : run[-1].start()]:
            continue
        stop = text.find("\n", run[-1].end())
        end = len(text) if stop < 0 else stop
        edges = [*(later.start() for later in run[1:]), end]
        items = [text[one.end() : edge].rstrip(" \t,;") for one, edge in zip(run, edges, strict=True)]
        digits = mark["mark"] == "1"
        labels = () if digits else tuple(one["mark"] for one in run)
        return _listing(
            [_unquoted(item) for item in items],
            text[: mark.start()],
            text[end:],
            "numbered" if digits else "lettered",
            labels,
        )
    return None


def _next(mark: str) -> str:
    return str(int(mark) + 1) if mark.isdigit() else chr(ord(mark) + 1)


def _quoted(text: str) -> Listing | None:
    best: Sequence[re.Match[str]] = ()
    for quotes in _QUOTES:
        run: list[re.Match[str]] = []
        for found in quotes.finditer(text):
            if run and not _BETWEEN_QUOTES.fullmatch(text, run[-1].end(), found.start()):
                run = []
            run.append(found)
            if len(run) > len(best):
                best = tuple(run)
    if len(best) < 2:
        return None
    return _listing([found[1] for found in best], text[: best[0].start()], text[best[-1].end() :], "quoted")


def _separated(text: str) -> Iterator[Listing]:
    """Find a head and its list up to the end of the line or sentence: "Give the plural of: cat, child, mouse"."""
    heads = list(_HEAD_END.finditer(text))
    colons = [head for head in heads if head[0].lstrip()[:1] in (":", "：")]
    others = [head for head in heads if head[0].lstrip()[:1] not in (":", "：")]
    for head in [*colons[:TRIES], *reversed(others[-TRIES:])]:
        stop = text.find("\n", head.end())
        line_end = len(text) if stop < 0 else stop
        tail = text[head.end() : line_end]
        strict = head[0].lstrip()[:1] not in (":", "：")
        if strict and text[line_end:].strip():
            continue  # such a list ends the text
        for mark, split in ((";", r"[;；]"), ("/", r"\s[/|]\s"), (",", r",\s+|[、，]\s*|,(?=[^\W\d])")):
            if not re.search(split, tail):
                continue
            ends = [last for _, last in islice(sentence_spans(tail), 2)] if mark == "," else []
            end = ends[0] if len(ends) > 1 else 0
            if strict and tail[end:].strip() and end:
                continue
            body, rest = (tail[:end].rstrip(".!?"), tail[end:].lstrip(" \t")) if end else (tail, "")
            items, note = _pieces(body, split)
            after = f"{note} {rest}{text[line_end:]}".strip()
            if strict and after:
                continue
            if all(
                len(_unbracketed(item).split()) <= MOST_WORDS[mark] and len(item) <= MOST_WORDS[mark] * 20
                for item in items
            ):
                found = _listing(
                    [_unquoted(item) for item in items], text[: head.start()] + head[0].strip(), after, "separated"
                )
                if found:
                    stopped = end > 0 or body.rstrip().endswith((".", "!", "。"))
                    yield replace(found, separator=mark, sentence=stopped)
            break


def _pieces(body: str, split: str) -> tuple[list[str], str]:
    """Return the pieces of a separated list, and a remark on all of them in brackets after the last one."""
    pieces, note, start, depth = [], "", 0, 0
    cuts = re.finditer(split, body)
    cut = next(cuts, None)
    for at, mark in (*((found.start(), found[0]) for found in _BRACKET.finditer(body)), (len(body), "")):
        while cut is not None and cut.start() < at:
            if not depth and cut.start() >= start:
                pieces.append(body[start : cut.start()])
                start = cut.end()
            cut = next(cuts, None)
        depth = depth + 1 if mark in "([{" else max(0, depth - 1)
    pieces.append(body[start:])
    last = pieces[-1].strip()
    item, bracket, remark = last.removesuffix(")").rpartition("(")
    is_remark = last.endswith(")") and bracket and item.rstrip() and ")" not in remark
    if is_remark and _EACH.search(remark) and "(" not in "".join(pieces[:-1]):
        last, note = item.rstrip(), remark
    if not any(piece.strip().endswith((".", "?", "!", "。")) for piece in pieces[:-1]):
        last = last.rstrip(".。")
    if "," in split and not any(piece.strip().endswith("?") for piece in pieces[:-1]):
        last = last.rstrip("?!")
    two = _SHORT_AND.fullmatch(last)
    inner = [*two.groups()] if two else _INNER_AND.split(last) if "(" not in last else [last]
    if begins := _LAST_AND.match(last):
        pieces[-1] = last[begins.end() :]
    elif len(inner) == 2:
        pieces[-1:] = inner
    else:
        pieces[-1] = last
    return [piece.strip() for piece in pieces], note


def _unbracketed(item: str) -> str:
    return re.sub(r"\([^()]*\)", "", item)


def _unquoted(item: str) -> str:
    item = item.strip()
    for quotes in _QUOTES:
        if found := quotes.fullmatch(item):
            return found[1]
    return item


def _paragraphs(text: str) -> Listing | None:
    """Find one item per paragraph, below the first paragraph."""
    parts = [part.strip("\n") for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    if len(parts) < 4 or len(parts[0]) > 600 or any(_FIELD.match(part) for part in parts[1:]):
        return None
    return _listing(parts[1:], parts[0], "", "paragraphs")


def _lines(text: str) -> Listing | None:
    """Find one item per line: below a line that ends with a colon, a first line or a paragraph, or above one."""
    parts = [part.strip("\n") for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    if len(parts) > 3:
        return None
    for number, part in enumerate(parts):
        lines = part.split("\n")
        own = lines[0].rstrip().endswith((":", "：")) or len(parts) == 1
        items = lines[1:] if own else lines
        if len(items) < 2 or any(_MARK.match(line) or _FIELD.match(line) for line in items):
            continue
        before = "\n\n".join([*parts[:number], *([lines[0]] if own else [])])
        return _listing(items, before, "\n\n".join(parts[number + 1 :]), "lines")
    return None


def _listing(items: Sequence[str], before: str, after: str, marks: Marks, labels: Sequence[str] = ()) -> Listing | None:
    stripped = tuple(item.strip() for item in items)
    if len(stripped) < 2 or not all(stripped):
        return None
    return Listing(stripped, before.strip(), after.strip(), marks, tuple(labels))
