"""Cuts a text into pieces that are rewritten in parallel.

A piece is one or more blocks: paragraphs, headings, list items or table rows, as found by markdown-it-py, or functions
of a program. Everything between pieces is layout and is copied: blank lines, code blocks, front matter, link
definitions. Prose within fences can be a piece; the fence marks are copied.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from stretto.language.sentences import sentence_spans
from stretto.router.given import Given
from stretto.strategies.rewrite.fenced_prose import is_prose

if TYPE_CHECKING:
    from markdown_it.token import Token


class Span(NamedTuple):
    """The range of a part of a text; ``indent``: for prose within fences, the indent of its lines."""

    start: int
    end: int
    indent: str | None = None


LEAST, MOST = 400, 6_000  # characters of a piece
LEAST_EDITED = 1_500  # of a piece that is edited, of which most is only read
CONTEXT = 500  # characters on each side that the writer of a piece is shown
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_FRONT = re.compile(r"(?:---\r?\n.*?\n---|\+\+\+\r?\n.*?\n\+\+\+)[ \t]*(?:\r?\n|$)", re.DOTALL)
_CODE = re.compile(
    r"[;{}][ \t]*+$|\w\([^()\n]{0,80}\)|[\w\]][ \t]{0,9}[-+*/]?=[ \t]{0,9}\S"
    r"|^[ \t]{0,40}(?:#include|//|/\*|\$ |import |def |return )",
    re.MULTILINE,
)
_HIDDEN = re.compile(r"\s*<(?:!--|script|style|pre|svg|\?|!)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*+>")
_LETTER = re.compile(r"[^\W\d_]")
_GAP = re.compile(r"\n(?:[ \t]*+\r?\n)++")
_MARK = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE)
_NESTED = 2  # nested fences around prose; deeper ones are copied
PROGRAMS = frozenset(
    """
    .py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .scala .c .h .cc .cpp .hpp .cs .go .rs .swift .rb .php .pl .lua .r
    .jl .sh .bash .sql .css .scss .python .javascript .typescript .rust .ruby .kotlin .csharp .c++ .golang .shell
    """.split()  # noqa: SIM905 - a list with one word per line is no easier to read
)
"""File extensions and fence languages whose text is a program."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, from ``start`` to ``end``, with the context on both sides that its writer is shown.

    ``indent``: for prose within fences, the indent of its lines; ``None`` for any other piece.
    """

    number: int
    start: int
    end: int
    text: str
    before: str
    after: str
    indent: str | None = field(default=None, kw_only=True)

    @property
    def visible_text(self) -> str:
        """The text as a reader sees it."""
        return self.text


def cut(
    text: str, ending: str, parts: int, *, most: int = MOST, least: int = LEAST, in_fences: bool = False
) -> list[Piece]:
    """Cut a text into about ``parts`` pieces, the first of them small, so that it can be read early.

    Args:
        text: of any length.
        ending: extension of its file, or language of its fence.
        parts: how many pieces are written at a time.
        most: characters of a piece; only a sentence can be longer.
        least: characters that are worth a call.
        in_fences: rewrite prose within fences, too.
    """
    whole = Span(0, len(text))
    blocks = list(
        _paragraphs(text, whole, functions=True)
        if ending in PROGRAMS
        else _blocks(text, whole, _NESTED if in_fences else 0)
    )
    blocks = [part for block in blocks for part in _divided(text, block, most)]
    return _pieces(text, _joined(text, blocks, parts, most, least))


def _joined(text: str, blocks: Sequence[Span], parts: int, most: int, least: int) -> list[Span]:
    """Join neighbouring blocks that are separated only by whitespace, except the very first.

    All fit into one wave of ``parts`` calls if pieces of ``most`` characters allow that.
    """
    size = min(most, max(least, sum(block.end - block.start for block in blocks[1:]) // max(1, parts - 1)))
    groups = _of_size(text, blocks, size)
    while len(groups) > parts and size < most:
        size = min(most, size * 9 // 8 + 1)
        groups = _of_size(text, blocks, size)
    return groups


def _of_size(text: str, blocks: Sequence[Span], size: int) -> list[Span]:
    groups: list[Span] = []
    for block in blocks:
        between = text[groups[-1].end : block.start].strip() if groups else ""
        joined = len(groups) > 1 and groups[-1].indent == block.indent and not between
        if joined and block.end - groups[-1].start <= size:
            groups[-1] = groups[-1]._replace(end=block.end)
        else:
            groups.append(block)
    return groups


def _pieces(text: str, groups: Sequence[Span]) -> list[Piece]:
    return [
        Piece(number, start, end, text[start:end], *_around(text, start, end), indent=indent)
        for number, (start, end, indent) in enumerate(groups, start=1)
    ]


def edited_pieces(given: Given, parts: int, *, in_fences: bool = False) -> list[Piece]:
    """Return the pieces of a text that is changed by edits.

    An addition has one place in the whole text. Names and figures are also changed in code, tables and front matter,
    mistakes only in prose, with ``in_fences`` including prose within fences.
    """
    text = given.text
    if given.change == "insert":
        groups = [_without_blanks(text, 0, len(text))]
    elif given.change == "correct":
        return cut(text, given.ending, parts, least=LEAST_EDITED, in_fences=in_fences)
    else:
        groups = _joined(text, list(_paragraphs(text, Span(0, len(text)))), parts, MOST, LEAST_EDITED)
    return _pieces(text, groups)


def _around(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the text before and after a piece, cut at whitespace."""
    before, after = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
    if start > CONTEXT:
        before = before.partition(" ")[2] or before
    if end + CONTEXT < len(text):
        after = after.rpartition(" ")[0] or after
    return before.strip(), after.strip()


def _blocks(text: str, whole: Span, nested: int) -> Iterator[Span]:
    """Yield the ranges of the Markdown blocks to rewrite in a part of a text.

    ``nested``: how many levels of fences are searched for prose; with 0, everything within fences is copied.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only needed when the strategy runs

    front = _FRONT.match(text, whole.start, whole.end)
    begin = front.end() if front else whole.start
    # markdown-it splits lines at these ends, and treats a NUL as a separate character.
    lines = list(accumulate((len(line[0]) for line in _LINE.finditer(text, begin, whole.end)), initial=begin))
    tokens = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").parse(text[begin : whole.end])
    fences = deque(_Fence.of(text, token, lines) for token in tokens if token.type == "fence")
    listed: Span | None = None
    for token in tokens:
        if token.map is None or token.type in ("inline", "hr"):
            continue
        start, end = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
        if listed is not None and start >= listed.end:
            listed = None
        while fences and fences[0].end <= start:
            fences.popleft()
        if token.level == 0 and token.type in ("bullet_list_open", "ordered_list_open"):
            listed = Span(start, end)
        elif token.level == 0 and token.type == "table_open":
            yield from _rows(text, lines[token.map[0] : token.map[1] + 1])
        elif token.level == 1 and token.type == "list_item_open" and listed is not None:
            while fences and fences[0].start < end:
                fence = fences.popleft()
                yield from _with_letters(text, start, fence.start)
                yield from fence.prose(text, nested)
                start = fence.end
            yield from _with_letters(text, start, end)
        elif token.level == 0 and token.type == "fence":
            yield from fences[0].prose(text, nested)
        elif token.level == 0:
            content = text[start:end].strip()
            code = token.type == "code_block" and _CODE.search(content)
            hidden = token.type == "html_block" and (
                _HIDDEN.match(content) or not _LETTER.search(_TAG.sub("", content))
            )
            if not code and not hidden:
                yield from _with_letters(text, start, end)


def _with_letters(text: str, start: int, end: int) -> Iterator[Span]:
    span = _without_blanks(text, start, end)
    if _LETTER.search(text, span.start, span.end):
        yield span


class _Fence(NamedTuple):
    """A fenced block including the lines of its marks; its content goes from ``first`` to ``last``."""

    start: int
    first: int
    last: int
    end: int
    token: Token

    @classmethod
    def of(cls, text: str, token: Token, lines: Sequence[int]) -> _Fence:
        opening, last = token.map or (0, 0)
        start, first, end = (lines[min(line, len(lines) - 1)] for line in (opening, opening + 1, last))
        mark = text[lines[last - 1] : end].strip(" \t>\r\n")
        closed = last - 1 > opening and len(mark) >= len(token.markup) and not mark.strip(token.markup[0])
        return cls(start, first, lines[last - 1] if closed else end, end, token)

    def prose(self, text: str, nested: int) -> Iterator[Span]:
        """Yield the ranges of its prose, if it contains any."""
        opening, content = text[self.start : self.first], text[self.first : self.last]
        if (
            nested == 0
            or ">" in opening.partition(self.token.markup)[0]
            or not is_prose(self.token.info, self.token.content)
        ):
            return
        blanks = [line[: len(line) - len(line.lstrip())] for line in content.splitlines() if line.strip()]
        indent = min(blanks, key=len)
        inside = Span(self.first, self.last)
        called = self.token.info.lower().split()
        if _MARK.search(content) or called[:1] in (["markdown"], ["md"]):
            found = () if indent else _blocks(text, inside, nested - 1)
        else:
            found = _paragraphs(text, inside)
        yield from (span._replace(indent=indent) for span in found)


def _rows(text: str, lines: list[int]) -> Iterator[Span]:
    """Yield the header of a table with its first row, then each row."""
    spans = [_without_blanks(text, start, end) for start, end in pairwise(lines)]
    if len(spans) > 2:
        spans = [Span(spans[0].start, spans[2].end), *spans[3:]]
    elif spans:
        spans = [Span(spans[0].start, spans[-1].end)]
    yield from (span for span in spans if _LETTER.search(text, span.start, span.end))


def _paragraphs(text: str, whole: Span, *, functions: bool = False) -> Iterator[Span]:
    """Yield the parts of a text between blank lines; for ``functions``, only blank lines before an unindented one."""
    start = whole.start
    gaps = [gap.span() for gap in _GAP.finditer(text, start, whole.end)]
    for end, following in [*gaps, (whole.end, whole.end)]:
        if functions and end < whole.end and text[following : following + 1].isspace():
            continue
        span = _without_blanks(text, start, end)
        if span.start < span.end:
            yield span
        start = following


def _divided(text: str, block: Span, most: int) -> Iterator[Span]:
    """Yield a block, or its sentences if it is too long for a call."""
    if block.end - block.start <= most:
        yield block
        return
    for start, end in sentence_spans(text[block.start : block.end]):
        yield block._replace(start=block.start + start, end=block.start + end)


def _without_blanks(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    left = len(part) - len(part.lstrip())
    return Span(start + left, max(start + left, start + len(part.rstrip())))
