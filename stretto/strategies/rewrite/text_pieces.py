"""Cuts a text into pieces that are rewritten side by side.

A piece is one or several blocks: paragraphs, headings, items of a list, rows of a table, as markdown-it-py finds them,
or functions of a program. All between the pieces is layout and is copied: blank lines, blocks of code, front matter,
definitions of links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from stretto.language.sentences import sentence_spans
from stretto.router.given import Given

__all__ = ["Piece", "cut", "edited_pieces"]

Span = tuple[int, int]

LEAST, MOST = 400, 6_000  # characters of a piece
LEAST_EDITED = 1_500  # of one that is changed by edits, which is read and hardly written
CONTEXT = 500  # characters that its writer is shown on each side
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
PROGRAMS = frozenset(
    """
    .py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .scala .c .h .cc .cpp .hpp .cs .go .rs .swift .rb .php .pl .lua .r
    .jl .sh .bash .sql .css .scss .python .javascript .typescript .rust .ruby .kotlin .csharp .c++ .golang .shell
    """.split()  # noqa: SIM905 - a list of one word a line is no easier to read
)
"""Endings of files, and languages of fences, whose text is a program."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, from ``start`` to ``end``, with what its writer is shown of the text on both sides."""

    number: int
    start: int
    end: int
    text: str
    before: str
    after: str

    @property
    def said(self) -> str:
        """The text as a reader has it."""
        return self.text


def cut(text: str, ending: str, parts: int, *, most: int = MOST, least: int = LEAST) -> list[Piece]:
    """Cut a text into about so many ``parts``, the first of which is small, so that it can be read early.

    Args:
        text: of any length.
        ending: of its file or fence.
        parts: that are written at a time.
        most: characters of a piece; only a sentence may be longer.
        least: characters that are worth a call.
    """
    blocks = list(_paragraphs(text, functions=True) if ending in PROGRAMS else _blocks(text))
    blocks = [part for block in blocks for part in _divided(text, block, most)]
    return _pieces(text, _joined(text, blocks, parts, most, least))


def _joined(text: str, blocks: Sequence[Span], parts: int, most: int, least: int) -> list[Span]:
    """Neighbouring blocks with nothing but blanks between them as one, the first of all by itself.

    All are written in one wave of ``parts`` calls where pieces of ``most`` characters allow that.
    """
    size = min(most, max(least, sum(end - start for start, end in blocks[1:]) // max(1, parts - 1)))
    groups = _of_size(text, blocks, size)
    while len(groups) > parts and size < most:
        size = min(most, size * 9 // 8 + 1)
        groups = _of_size(text, blocks, size)
    return groups


def _of_size(text: str, blocks: Sequence[Span], size: int) -> list[Span]:
    groups: list[Span] = []
    for start, end in blocks:
        joined = len(groups) > 1 and not text[groups[-1][1] : start].strip()
        if joined and end - groups[-1][0] <= size:
            groups[-1] = (groups[-1][0], end)
        else:
            groups.append((start, end))
    return groups


def _pieces(text: str, groups: Sequence[Span]) -> list[Piece]:
    spans = enumerate(groups, start=1)
    return [Piece(number, *span, text[slice(*span)], *_around(text, span)) for number, span in spans]


def edited_pieces(given: Given, parts: int) -> list[Piece]:
    """The pieces of a text that is changed by edits.

    An addition has one place in the whole text. Names and figures are changed in code, tables and front matter, too.
    """
    text = given.text
    if given.change == "insert":
        groups = [_without_blanks(text, 0, len(text))]
    elif given.change == "correct":
        return cut(text, given.ending, parts, least=LEAST_EDITED)
    else:
        groups = _joined(text, list(_paragraphs(text)), parts, MOST, LEAST_EDITED)
    return _pieces(text, groups)


def _around(text: str, span: Span) -> tuple[str, str]:
    """What stands before and behind a piece, from and up to a blank."""
    before, after = text[max(0, span[0] - CONTEXT) : span[0]], text[span[1] : span[1] + CONTEXT]
    if span[0] > CONTEXT:
        before = before.partition(" ")[2] or before
    if span[1] + CONTEXT < len(text):
        after = after.rpartition(" ")[0] or after
    return before.strip(), after.strip()


def _blocks(text: str) -> Iterator[Span]:
    """Where blocks of Markdown stand that hold text to be rewritten."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - it is only needed by a strategy that runs

    front = _FRONT.match(text)
    begin = front.end() if front else 0
    # markdown-it reads its lines by these ends, and takes a NUL for a separate character.
    lines = [begin, *accumulate((len(found[0]) for found in _LINE.finditer(text, begin)), initial=begin)][1:]
    listed: Span | None = None
    for token in MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").parse(text[begin:]):
        if token.map is None or token.type in ("inline", "fence", "hr"):
            continue
        start, end = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
        span = _without_blanks(text, start, end)
        is_list = token.type in ("bullet_list_open", "ordered_list_open")
        if listed is not None and start >= listed[1]:
            listed = None
        if token.level == 0 and is_list:
            listed = (start, end)
        elif token.level == 0 and token.type == "table_open":
            yield from _rows(text, lines[token.map[0] : token.map[1] + 1])
        elif token.level == 0 or (token.level == 1 and token.type == "list_item_open" and listed is not None):
            said = text[slice(*span)]
            code = token.type == "code_block" and _CODE.search(said)
            hidden = token.type == "html_block" and (_HIDDEN.match(said) or not _LETTER.search(_TAG.sub("", said)))
            if _LETTER.search(said) and not code and not hidden:
                yield span


def _rows(text: str, lines: list[int]) -> Iterator[Span]:
    """The head of a table with its first row, then each row."""
    spans = [_without_blanks(text, start, end) for start, end in pairwise(lines)]
    if len(spans) > 2:
        spans = [(spans[0][0], spans[2][1]), *spans[3:]]
    elif spans:
        spans = [(spans[0][0], spans[-1][1])]
    yield from (span for span in spans if _LETTER.search(text[slice(*span)]))


def _paragraphs(text: str, *, functions: bool = False) -> Iterator[Span]:
    """Where the parts of a text stand between blank lines; of ``functions``, an unindented line follows these."""
    start = 0
    gaps = [gap.span() for gap in _GAP.finditer(text) if not (functions and text[gap.end() : gap.end() + 1].isspace())]
    for end, following in [*gaps, (len(text), len(text))]:
        span = _without_blanks(text, start, end)
        if span[0] < span[1]:
            yield span
        start = following


def _divided(text: str, block: Span, most: int) -> Iterator[Span]:
    """A block, or the sentences of one that is too long for a call."""
    if block[1] - block[0] <= most:
        yield block
        return
    for start, end in sentence_spans(text[slice(*block)]):
        yield block[0] + start, block[0] + end


def _without_blanks(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    left = len(part) - len(part.lstrip())
    return start + left, max(start + left, start + len(part.rstrip()))
