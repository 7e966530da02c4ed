"""Plain text, source code and Markdown."""

from __future__ import annotations

import re

from stretto.documents.encoding import decoded
from stretto.values.document import Document, Heading

_PICTURE = re.compile(r"(data:image/[\w.+-]{1,40};base64,)[\w+/=%]{64,}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_HASHED = re.compile(r"^ {0,3}(#{1,6})[ \t]++([^\n]*)", re.MULTILINE)
_UNDERLINED = re.compile(r"^ {0,3}(?![-=#>\s])([^\n]{1,300})\n {0,3}(=+|-{2,})[ \t]*$", re.MULTILINE)


def read_text(data: bytes, title: str) -> Document:
    """Return a text unchanged, in whatever encoding. Raises `DocumentError` for binary data."""
    text, warnings = decoded(data)
    return Document(text=text, title=title, warnings=warnings)


def read_markdown(data: bytes, title: str) -> Document:
    """Return a text with Markdown headings; the first of level 1 is its title. Embedded pictures are left out."""
    return markdown(*decoded(data), title)


def markdown(text: str, warnings: tuple[str, ...], title: str, pictures: int = 0) -> Document:
    """Make a document from Markdown; ``warnings`` are those of its decoding, and ``pictures`` were already left out."""
    text, found = _PICTURE.subn(r"\1...", text)
    if pictures := found + pictures:
        warnings += (f"{pictures:,} pictures were left out." if pictures > 1 else "a picture was left out.",)
    headings = tuple(_headings(text))
    first = next((heading.text for heading in headings if heading.level == 1), "")
    return Document(text=text, title=first or title, headings=headings, warnings=warnings)


def _headings(text: str) -> list[Heading]:
    fenced = fences(text)
    found = [
        Heading(offset=match.start(), level=len(match[1]), text=title)
        for match in _HASHED.finditer(text)
        if (title := match[2].rstrip(" \t").rstrip("#").rstrip(" \t"))
    ]
    found += [
        Heading(offset=match.start(), level=1 if match[2][0] == "=" else 2, text=match[1].strip())
        for match in _UNDERLINED.finditer(text)
    ]
    inside = iter(sorted(fenced))
    span = next(inside, None)
    kept = []
    for heading in sorted(found, key=lambda each: each.offset):
        while span is not None and span[1] <= heading.offset:
            span = next(inside, None)
        if span is None or heading.offset < span[0]:
            kept.append(heading)
    return kept


def fences(text: str) -> list[tuple[int, int]]:
    """Return the spans of code blocks, including the fences; one that is never closed extends to the end."""
    spans: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]):
            spans.append((opened.start(), match.end()))
            opened = None
    if opened is not None:
        spans.append((opened.start(), len(text)))
    return spans
