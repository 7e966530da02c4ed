"""HTML pages: the text a reader sees, with headings."""

from __future__ import annotations

import re
import warnings

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag

from stretto.document import Document, Heading
from stretto.documents.plain import decoded

__all__ = ["read_html"]

_UNSEEN = frozenset({"script", "style", "noscript", "template", "head", "svg", "iframe", "object", "select"})
_BLOCKS = frozenset(
    """
    address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form h1 h2 h3
    h4 h5 h6 header hr li main nav ol p pre section summary table tbody td th thead tr ul
    """.split()  # noqa: SIM905 - a list of one word a line is no easier to read
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+(?:[\"']\s*+)?([\w-]{1,40})", re.IGNORECASE)


def read_html(data: bytes, title: str) -> Document:
    """The visible text of a page. Table cells are parted by ``|``, blocks by a line, headings keep their level."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # beautifulsoup warns of text that looks like an address or like XML
        page = BeautifulSoup(_decoded(data), "html.parser")
    named = page.title.get_text(" ", strip=True) if page.title else ""
    text, headings = _flow(page)
    return Document(text=text, title=named or title, headings=tuple(headings))


def _decoded(data: bytes) -> str:
    if named := _CHARSET.search(data[:4096]):
        try:
            return data.decode(named[1].decode("ascii"))
        except (LookupError, UnicodeDecodeError):
            pass  # a page may claim an encoding that it does not have
    return decoded(data)


def _flow(page: BeautifulSoup) -> tuple[str, list[Heading]]:
    """Walk the tree in reading order without recursion: pages may be nested as deep as they like."""
    lines: list[str] = []
    length = 0
    headings: list[Heading] = []
    line: list[str] = []
    level = 0

    def end_line(gap: str = "\n") -> None:
        nonlocal length, level
        said = "".join(line) if preformatted else " ".join("".join(line).split())
        line.clear()
        if said.strip():
            if level:
                headings.append(Heading(offset=length, level=level, text=said.strip()))
            lines.append(said + gap)
            length += len(said) + len(gap)
        level = 0

    preformatted = False
    stack: list[tuple[PageElement, bool]] = [(page, False)]
    while stack:
        node, leaving = stack.pop()
        if not isinstance(node, Tag):
            if isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
                line.append(str(node))
            continue
        name = node.name
        if leaving:
            if name in {"td", "th"}:
                line.append(" | ")
            elif name in _BLOCKS:
                end_line("\n" if name in {"li", "tr", "dt", "dd"} else "\n\n")
            preformatted = preformatted and name != "pre"
            continue
        if name in _UNSEEN:
            continue
        if name in _BLOCKS and name not in {"td", "th"}:
            end_line()
        if re.fullmatch(r"h[1-6]", name):
            level = int(name[1])
        preformatted = preformatted or name == "pre"
        if name == "br":
            line.append("\n" if preformatted else " ")
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(node.contents))
    end_line()
    return "".join(lines), headings
