"""The process that parses files, reading one after the other from standard input until that ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from stretto.values.document import Document
from stretto.values.errors import DocumentError

_KINDS = {"pdf": "a PDF", "docx": "a Word file", "html": "a page of HTML"}


def work() -> None:
    """Read files and write documents until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    files, documents = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is not part of a document
    while line := files.readline():
        given = json.loads(line)
        read, data = _reader(given["form"]), files.read(given["bytes"])
        if "title" not in given:
            _answer(documents, "ready", b"")
            continue
        _bound(given["memory"], given["cpu_s"])
        try:
            document = read(data, given["title"])
            _answer(documents, "document", document.model_dump_json().encode())
        except DocumentError as error:
            _answer(documents, "refused", str(error).encode(errors="replace"))
        except MemoryError:
            os._exit(1)  # there may be too little memory to report it
        except Exception as error:  # noqa: BLE001 - a parser of untrusted files can raise anything
            why = " ".join(str(error).split())[:200] or type(error).__name__
            reason = f"it cannot be read as {_KINDS.get(given['form'], 'a text')}: {why}"
            _answer(documents, "refused", reason.encode(errors="replace"))


def _reader(form: str) -> Callable[[bytes, str], Document]:
    match form:
        case "pdf":
            from stretto.documents.pdf import read_pdf as read  # noqa: PLC0415 - each brings its own parser
        case "docx":
            from stretto.documents.docx import read_docx as read  # noqa: PLC0415
        case "html":
            from stretto.documents.html import read_html as read  # noqa: PLC0415
        case "notebook":
            from stretto.documents.notebook import read_notebook as read  # noqa: PLC0415
        case "markdown":
            from stretto.documents.plain import read_markdown as read  # noqa: PLC0415
        case _:
            from stretto.documents.plain import read_text as read  # noqa: PLC0415
    return read


def _answer(documents: IO[bytes], kind: str, content: bytes) -> None:
    documents.write(json.dumps([kind, len(content)]).encode() + b"\n")
    documents.write(content)
    documents.flush()


def _bound(memory: int, cpu_s: float) -> None:
    """Limit the memory and CPU time of this process, so that it ends even if its parent was killed."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - Windows has none

    with suppress(ValueError, OSError):  # the system can allow less, or no change
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with suppress(ValueError, OSError):
        seconds = int(time.process_time() + cpu_s) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
