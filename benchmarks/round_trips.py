"""Whether parsers of gettext and subtitles give back a file as it was, byte for byte.

    pip install polib srt pysubs2 webvtt-py          # those that are missing are left out
    python benchmarks/round_trips.py

Each file is parsed and written with nothing changed, with both line ends, with a byte order mark and without. Stretto
takes its texts out and puts the same ones in (`strategies/rewrite/entries.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table

from stretto.router.given import Given
from stretto.strategies.rewrite.entries import entry_pieces

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
FILES = {
    ".po": (
        f'{HEADER}\nmsgid "open"\nmsgstr "öffnen"\n',
        f'# a comment\n{HEADER}\n#: a.c:1 b.c\n#, fuzzy\nmsgctxt "menu"\nmsgid "open %s"\nmsgstr "%s öffnen"\n',
        f'{HEADER}\nmsgid ""\n"cut "\n"early"\nmsgstr ""\n"früh "\n"getrennt"\n',
        f'{HEADER}\nmsgid "one"\nmsgid_plural "many"\nmsgstr[0] "1"\nmsgstr[1] "2"\n#~ msgid "old"\n#~ msgstr "alt"\n',
        f'{HEADER}\nmsgid "a"\nmsgstr   "b"\n\n\n\nmsgid "c"\nmsgstr "d"\n\n',
    ),
    ".srt": (
        "1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:03,000 --> 00:00:04,000\nin two\nrows\n\n",
        "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i> <b>you</b>\n",
        "7\n00:00:01,000 --> 00:00:02,000 X1:10\nHello\n\n3\n00:00:03,000 --> 00:00:04,000\nwrong counters\n\n",
        "1\n00:00:01,000 --> 00:00:02,000\nno gap\n2\n00:00:03.000 --> 00:00:04.000\nhere\n",
        "1\n00:00:01,000 --> 00:00:02,000\na gap\n\nwithin it\n\n2\n00:00:03,000 --> 00:00:04,000\nnext\n",
    ),
    ".vtt": (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n\n00:03.000 --> 00:04.000\nin two\nrows\n",
        "WEBVTT - a title\nKind: x\n\nintro\n00:00:01.000 --> 00:00:02.000 align:start\n<v Bob>Hello</v> &amp; you\n",
        "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nNOTE of nobody\n\n00:00:01.000 --> 00:00:02.000\nHello\n\n\n",
        "WEBVTT\n\nREGION\nid:fred\nlines:3\n\n1\n00:00:01.000 --> 00:00:02.000 region:fred\nHello\n\nNOTE the end\n",
    ),
}  # fmt: skip


def by_stretto(text: str, ending: str) -> str:
    """The texts taken out and put in again."""
    parts, end = [], 0
    for piece in entry_pieces(Given("correct", "", text, ending=ending), 4):
        parts += [text[end : piece.start], piece.filled([entry.text for entry in piece.entries])]
        end = piece.end
    return "".join([*parts, text[end:]])


def by_polib(text: str, _: str) -> str:
    """As polib writes it."""
    return str(importlib.import_module("polib").pofile(text))


def by_srt(text: str, _: str) -> str:
    """As srt writes it, counters kept."""
    srt = importlib.import_module("srt")
    return str(srt.compose(srt.parse(text), reindex=False))


def by_pysubs2(text: str, ending: str) -> str:
    """As pysubs2 writes it, in the format that it had."""
    return str(importlib.import_module("pysubs2").SSAFile.from_string(text).to_string(ending[1:]))


def by_webvtt(text: str, _: str) -> str:
    """As webvtt-py writes it."""
    return str(importlib.import_module("webvtt").WebVTT.from_string(text).content)


WAYS: dict[str, dict[str, Callable[[str, str], str]]] = {
    ".po": {"stretto": by_stretto, "polib": by_polib},
    ".srt": {"stretto": by_stretto, "srt": by_srt, "pysubs2": by_pysubs2},
    ".vtt": {"stretto": by_stretto, "webvtt-py": by_webvtt, "pysubs2": by_pysubs2},
}


def variants(ending: str) -> Iterator[str]:
    """The files of a format with both line ends, with and without a byte order mark."""
    for text in FILES[ending]:
        for newline in ("\n", "\r\n"):
            yield from (start + text.replace("\n", newline) for start in ("", "\ufeff"))


def outcome(way: Callable[[str, str], str], text: str, ending: str) -> str:
    """What came back: the same, something else, or nothing."""
    try:
        return "same" if way(text, ending) == text else "changed"
    except ImportError:
        raise
    except Exception:  # noqa: BLE001 - whatever a parser raises, it could not read the file
        return "refused"


def main() -> None:
    """Print a row for each parser."""
    table = Table("format", "parser", "files", "the same", "changed", "refused")
    for ending, ways in WAYS.items():
        for name, way in ways.items():
            try:
                found = [outcome(way, text, ending) for text in variants(ending)]
            except ImportError:
                continue
            counts = [str(found.count(each)) for each in ("same", "changed", "refused")]
            table.add_row(ending, name, str(len(found)), *counts)
    Console().print(table)


if __name__ == "__main__":
    main()
