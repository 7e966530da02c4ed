"""The format of a file, by its extension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal

Format = Literal["pdf", "docx", "html", "markdown", "notebook", "text"]

_PARSED: Mapping[str, Format] = {
    ".pdf": "pdf",
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), "docx"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".md", ".markdown", ".mdown"), "markdown"),
    ".ipynb": "notebook",
}
_TEXT = frozenset(
    """
    .txt .text .log .rst .adoc .tex .csv .tsv .json .jsonl .yaml .yml .toml .ini .cfg .conf .xml .svg .srt .vtt .po .pot
    .py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp .cxx .hpp .cs .go
    .rs .swift .rb .php .pl .pm .lua .r .jl .hs .ml .mli .clj .ex .exs .erl .dart .sh .bash .zsh .fish .ps1 .bat
    .sql .graphql .proto .css .scss .less .vue .svelte .cmake .make .mk .gradle .dockerfile .tf .nix .asm .s
    .f90 .m .mm .v .vhd
    """.split()  # noqa: SIM905 - a list with one word per line is no easier to read
)
_NAMES = frozenset(
    {"license", "licence", "copying", "readme", "makefile", "dockerfile", "changelog", "authors", "notice"}
)
_WITHOUT_READER = frozenset(
    {".doc", ".odt", ".rtf", ".pages", ".epub", ".ppt", ".pptx", ".odp", ".xls", ".xlsx", ".ods", ".eml", ".msg"}
)


def seen_in(data: bytes) -> Format | None:
    """Return the format by content, whatever the file name: PDF or Word; ``None`` for others."""
    if data[:1024].lstrip(b"\xef\xbb\xbf\0\t\r\n ").startswith(b"%PDF-"):
        return "pdf"
    if data.startswith(b"PK\x03\x04") and b"word/document" in data:
        return "docx"
    return None


def is_document(name: str) -> bool:
    """Return whether a file in a folder should be read, and reported if it cannot be; a picture should not."""
    return _ending(name) in _WITHOUT_READER or format_of(name) is not None


def format_of(name: str) -> Format | None:
    """Return the format of a file with this name; ``None`` if the name does not show it."""
    ending = _ending(name)
    if ending in _PARSED:
        return _PARSED[ending]
    return "text" if ending in _TEXT or name.lower() in _NAMES else None


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()
