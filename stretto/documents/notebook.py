"""Jupyter notebooks: their cells as Markdown, with printed output but without pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from stretto.documents.encoding import decoded
from stretto.documents.plain import markdown, read_text
from stretto.values.document import Document

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read_notebook(data: bytes, title: str) -> Document:
    """Return the cells of a notebook; any other file is read as text. Raises `DocumentError` for binary data."""
    text, warnings = decoded(data)
    try:
        notebook = json.loads(text)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]  # before format 4
        language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "")
        parts = [part for cell in cells for part in _parts(cell, language)]
        pictures = sum(_pictures(cell) for cell in cells)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return read_text(data, title)
    return markdown("\n\n".join(part for part in parts if part.strip()) + "\n", warnings, title, pictures)


def _parts(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    match cell.get("cell_type"):
        case "code":
            yield _fenced(source, language)
            for output in cell.get("outputs", ()):
                yield from _output(output)
        case "heading":
            yield f"{'#' * int(cell.get('level', 1))} {source}"
        case _:
            yield source


def _output(output: dict[str, Any]) -> Iterator[str]:
    data = output.get("data", output)
    if output.get("output_type") == "error":
        yield _fenced(f"{output.get('ename', '')}: {output.get('evalue', '')}")
    elif "text/markdown" in data:
        yield _joined(data["text/markdown"])
    else:
        yield _fenced(_COLOURS.sub("", _joined(data.get("text/plain", data.get("text", "")))))


def _pictures(cell: dict[str, Any]) -> int:
    kinds = [kind for output in cell.get("outputs", ()) for kind in output.get("data", output)]
    shown = [kind for kind in kinds if kind.startswith("image/") or kind in {"png", "jpeg", "svg"}]
    return len(shown) + len(cell.get("attachments", ()))


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text)


def _fenced(text: str, language: str = "") -> str:
    if not text.strip():
        return ""
    ticks = max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1
    return f"{'`' * ticks}{language}\n{text.rstrip()}\n{'`' * ticks}"
