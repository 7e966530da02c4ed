"""Which reader a file gets, by its ending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stretto.document import Document

__all__ = ["is_document", "reader_of"]

Reader = Callable[[bytes, str], Document]

_MARKDOWN = frozenset({".md", ".markdown", ".mdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_TEXT = frozenset(
    """
    .txt .text .log .rst .adoc .tex .csv .tsv .json .jsonl .yaml .yml .toml .ini .cfg .conf .xml .svg .srt .vtt
    .py .pyi .ipynb .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp .cxx .hpp .cs .go
    .rs .swift .rb .php .pl .pm .lua .r .jl .hs .ml .mli .clj .ex .exs .erl .dart .sh .bash .zsh .fish .ps1 .bat
    .sql .graphql .proto .css .scss .less .vue .svelte .cmake .make .mk .gradle .dockerfile .tf .nix .asm .s
    .f90 .m .mm .v .vhd
    """.split()  # noqa: SIM905 - a list of one word a line is no easier to read
)
_NAMES = frozenset(
    {"license", "licence", "copying", "readme", "makefile", "dockerfile", "changelog", "authors", "notice"}
)
_WITHOUT_READER = frozenset(
    {".doc", ".odt", ".rtf", ".pages", ".epub", ".ppt", ".pptx", ".odp", ".xls", ".xlsx", ".ods", ".eml", ".msg"}
)


def is_document(path: Path) -> bool:
    """Whether a file of a folder is meant to be read, so that it is named if it cannot be; a picture is not."""
    return path.suffix.lower() in _WITHOUT_READER or reader_of(path) is not None


def reader_of(path: Path) -> Reader | None:
    """The reader for a file with this name; ``None`` if it does not tell."""
    ending = path.suffix.lower()
    if ending == ".pdf":
        from stretto.documents.pdf import read_pdf  # noqa: PLC0415 - pypdf is imported when a PDF is read

        return read_pdf
    if ending == ".docx":
        from stretto.documents.docx import read_docx  # noqa: PLC0415 - likewise python-docx

        return read_docx
    if ending in _HTML:
        from stretto.documents.html import read_html  # noqa: PLC0415 - likewise beautifulsoup4

        return read_html
    from stretto.documents.plain import read_markdown, read_text  # noqa: PLC0415 - likewise charset-normalizer

    if ending in _MARKDOWN:
        return read_markdown
    return read_text if ending in _TEXT or path.name.lower() in _NAMES else None
