"""Distinguish line ends that only wrap a paragraph from those that end an item, a heading, a row or a verse.

Licences, e-mails, manuals and the text of PDF files are wrapped at a fixed width. A line of such a paragraph is full:
the first word of the next line did not fit on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from stretto.language.telling import languages

WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u30ff\u3400-\u9fff\uf900-\ufaff"
)
"""Letters of scripts that are written without spaces between words, as a character range for patterns."""

_LINE = re.compile(r"[^\n]+")
_NO_BLANK = re.compile(
    rf"(?<=[{WITHOUT_BLANKS}，。！？；：、」』）]) (?=[{WITHOUT_BLANKS}，。！？；：、「『（])"
    r"|(?<=[^\W\d_]-) (?=[^\W\d_])"
)
_BREAKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"))
_ALONE = re.compile(r"\r(?!\n)")
_QUOTED = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")  # the mark before each quoted line of an e-mail
_NARROWEST = 30  # fewest columns that a paragraph is wrapped at
_NARROW = 20  # columns of a line that can end with a function word: in verse, few lines of that length do
_NARROWEST_WIDE = 8  # the same for Chinese and Japanese
_WIDEST = 200  # columns; a longer line is a paragraph without line ends
_FULL = 0.8  # share of full lines from which a block is a wrapped paragraph
_VERSE = 4  # lines of verse that all begin with a capital letter
_BEGINS = re.compile(
    r"\s*(?:[-*+•‣◦▪●·–—][ \t]|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)][ \t]|#{1,6}[ \t]|\[\d{1,3}\][ \t]"
    r"|[一二三四五六七八九十]{1,3}[、．.]|[（(][一二三四五六七八九十\d]{1,3}[)）]"
    r"|(?:§|Art\.|Section|Article|Chapter)[ \t]*\d"
    r"|第[一二三四五六七八九十百\d]{1,5}[条條章节節]|```|~~~|[|│]|[-=*_]{3,}\s*$)"
)
_ITEM = re.compile(r"[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]")
_FIELD = re.compile(r"\s*[A-Z][\w-]{0,20}(?: [\w-]{1,20}){0,2}:\s")  # of a form or an e-mail header
_STOPPED = re.compile(r"[.!?:;…。！？：；।؟۔][\"'”’»)\]」』）*_]*\s*$")
_HEADING = re.compile(r"\s*(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|§|Section|Article|Chapter|Part|Annex)[ \t]+\S")
_SENTENCE_WITHIN = re.compile(r"[^\W\d]{3}[.!?] ")
_RUNNING = 6  # longer lower-case words that make a numbered line a sentence
_WORD = re.compile(r"\S+")
_CODE = re.compile(r"[;{}\[\]=\\]\s*$|[\w\])][(]|\s[-+*/=!<>]?=\s|^\s*(?:#include|@|//|/\*)")
_WIDE = re.compile(rf"[{WITHOUT_BLANKS}]")
_WIDE_END = re.compile(rf"[{WITHOUT_BLANKS}][，、]?\s*$")
_WIDE_LETTER = re.compile(rf"[{WITHOUT_BLANKS}]\s*$")
_WIDE_STOP = re.compile("[。！？]")
_LAST_WORD = re.compile(r"(?<![\w'’-])[^\W\d_]+\s*$")
_HYPHEN = re.compile(r"[^\W\d_][-\u2010\u00ad]\s*$")
_ROW = re.compile(r"[|\t]")


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, items, headings, rows and verses of a text: the offset of each, and its text on one line.

    Line ends within a piece, and the marks of quoted lines after them, become spaces, so all offsets stay the same.
    """
    text = _ALONE.sub("\n", text.translate(_BREAKS))
    fenced = False
    block: list[tuple[int, str]] = []
    end = 0
    for match in _LINE.finditer(text):
        line, start = match[0].removesuffix("\r"), match.start()
        quoted = _QUOTED.match(line)
        bare = " " * quoted.end() + line[quoted.end() :] if quoted else line
        fence = bare.lstrip().startswith(("```", "~~~"))
        if block and (start > end + 1 or fence or not bare.strip()):
            yield from _joined(block)
            block = []
        end = match.end()
        if fence or fenced:
            fenced = fenced != fence
            yield start, bare
        elif bare.strip():
            block.append((start, bare))
    if block:
        yield from _joined(block)


def on_one_line(text: str) -> str:
    """Join the lines of a text with single spaces, or none between letters of scripts written without them.

    A hyphen at a line end stays, since it may belong to the word.
    """
    return _NO_BLANK.sub("", " ".join(re.sub(r"\n[ \t]{0,3}(?:>[ \t]?)+", "\n", text).split()))


def _joined(block: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a block of lines."""
    if len(block) == 1:
        yield block[0]
        return
    lines = [line for _, line in block]
    wraps = _wraps(lines)
    start, piece = block[0]
    for (at, line), wrapped in zip(block[1:], wraps, strict=True):
        if wrapped:
            piece += " " * (at - start - len(piece)) + line
        else:
            yield start, piece
            start, piece = at, line
    yield start, piece


def _wraps(lines: Sequence[str]) -> list[bool]:
    """Return for each line but the last whether the next one continues it."""
    if _is_table(lines) or sum(bool(_CODE.search(line)) for line in lines) * 2 >= len(lines):
        return [False] * (len(lines) - 1)
    width = max((len(line.rstrip()) for line in lines if len(line) <= _WIDEST), default=0)
    full = [_is_full(line, following, width) for line, following in pairwise(lines)]
    verse = len(lines) >= _VERSE and all(line.lstrip(" \t\"'“‘«(*_")[:1].isupper() for line in lines)
    wrapped = not verse and sum(full) >= _FULL * len(full)
    stops = any(_WIDE_STOP.search(line) for line in lines)
    return [
        _goes_on(
            line,
            following,
            fills=(is_full and (wrapped or _is_wide(line))) or (stops and bool(_WIDE_LETTER.search(line))),
            verse=verse,
            first=not at,
        )
        for at, ((line, following), is_full) in enumerate(zip(pairwise(lines), full, strict=True))
    ]


def _goes_on(line: str, following: str, *, fills: bool, verse: bool, first: bool) -> bool:
    if _BEGINS.match(following) or line.endswith(("  ", "\\")) or line.lstrip().startswith("#"):
        return False
    if _FIELD.match(line) and _FIELD.match(following):
        return False
    begins = following.lstrip()[:1]
    if fills or (_HYPHEN.search(line) and begins.islower()):
        return not (first and not begins.islower() and _is_heading(line))
    if verse or len(line) > _WIDEST or _STOPPED.search(line):
        return False
    end = line.rstrip()
    if begins.islower() and (len(end) >= _NARROWEST or end[-1:] == "," or (following[0] == " " and _ITEM.match(line))):
        return True
    return len(end) >= _NARROW and _is_unfinished(line)


def _is_unfinished(line: str) -> bool:
    """Return whether a line ends with a word that no sentence ends with: "signed by", "for at least the"."""
    last = _LAST_WORD.search(line)
    return last is not None and any(last[0].rstrip() in small for small in languages().small.values())


def _is_full(line: str, following: str, width: int) -> bool:
    """Return whether the first word of the next line did not fit on this one."""
    if len(line) > _WIDEST:
        return False
    if _is_wide(line):
        return width >= _NARROWEST_WIDE and len(line.rstrip()) >= width - 2
    word = _WORD.search(following)
    return width >= _NARROWEST and len(line.rstrip()) + 1 + (len(word[0]) if word else 0) > width


def _is_wide(line: str) -> bool:
    return bool(_WIDE_END.search(line)) or (len(_WIDE.findall(line)) * 2 > len(line))


def _is_heading(line: str) -> bool:
    """Return whether a line without end mark looks like a heading: numbered, in capitals or in title case."""
    if _STOPPED.search(line) or line.rstrip().endswith((",", "-", "，", "、")):
        return False
    words = [word for word in _WORD.findall(line) if len(word) > 3 and word[0].isalpha()]
    if _HEADING.match(line):  # unless a sentence ends in it, or it continues like one: "4. Rent. The monthly rent is"
        return not _SENTENCE_WITHIN.search(line) and sum(word[0].islower() for word in words) < _RUNNING
    return len(words) > 1 and all(word[0].isupper() for word in words)


def _is_table(lines: Sequence[str]) -> bool:
    """Return whether each line has a bar or tab, or all have equally many, at least two, commas or semicolons."""
    if all(_ROW.search(line.strip()) for line in lines):
        return True
    return any(
        (least := lines[0].count(mark)) >= 2 and all(line.count(mark) == least for line in lines) for mark in ",;"
    )
