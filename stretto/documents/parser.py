"""Parse files in a separate process, since parsing untrusted files can take any amount of time and memory.

A thread inside a parser cannot be stopped, nor its memory limited; a process can. It is started for the first file that
needs it, reads one file after the other, and ends with the reading.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.spawn import get_executable
from typing import IO, Any, Self, cast

from stretto.documents.formats import Format
from stretto.documents.limits import ReadingTime
from stretto.values.document import Document
from stretto.values.errors import DocumentError

_PACKAGES = {
    "pdf": "pypdfium2",
    "docx": "lxml",
    "html": "selectolax",
    "markdown": "chardet",
    "text": "chardet",
}
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from stretto.documents.worker import work; work()"


class Parser:
    """Makes documents from bytes. Must be closed; a process that has ended is restarted."""

    def __init__(self, allowance: ReadingTime) -> None:
        self._allowance = allowance
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: set[Format] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, form: Format) -> None:
        """Prepare for files of a format. Raises `DocumentError`, `ImportError`, or what `ReadingTime.check` raises."""
        package = _PACKAGES.get(form)
        if package is not None and find_spec(package) is None:
            raise ImportError(name=package)
        self._allowance.check()
        if form not in self._ready:
            if self._reply_to({"form": form, "bytes": 0})[0] != "ready":
                self.close()
                self._allowance.check()
                raise DocumentError("the process that parses it did not start; try again")
            self._ready.add(form)

    def parse(self, data: bytes, title: str, form: Format) -> Document:
        """Return the document of a file. Raises `DocumentError`, or what `ReadingTime.check` raises."""
        limits = self._allowance.limits
        bounds = {"cpu_s": limits.reading_s, "memory": limits.reading_memory_mb * 2**20}
        kind, reply = self._reply_to({"form": form, "title": title, "bytes": len(data), **bounds}, data)
        match kind:
            case "document":
                return Document.model_validate_json(reply)
            case "refused":
                raise DocumentError(reply.decode())
        self.close()
        self._allowance.check()
        raise DocumentError(
            f"its parser ended, perhaps because it needs more than {limits.reading_memory_mb:,} MB of memory; "
            "allow more with the setting reading_memory_mb, or convert the file"
        )

    def close(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        self._ready.clear()
        if process is not None:
            with suppress(OSError), process:  # closes its pipes; what a broken one has buffered cannot be written
                process.kill()
                process.wait()  # also where a pipe that somebody closed cannot be closed again

    def _reply_to(self, request: Mapping[str, Any], data: bytes = b"") -> tuple[str, bytes]:
        """Return the kind and content of the process's reply; an empty kind if it has ended."""
        process = self._running()
        with suppress(OSError, ValueError), self._allowance.ended_by(process.kill):
            sent, answered = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            sent.write(json.dumps(request).encode() + b"\n")
            sent.write(data)
            sent.flush()
            kind, size = json.loads(answered.readline())
            reply = answered.read(size)
            if len(reply) == size:
                return kind, reply
        return "", b""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            executable = get_executable() or sys.executable
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [executable, "-c", _START, json.dumps(sys.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except (OSError, ValueError) as error:
                raise DocumentError(f"the process that parses it cannot be started: {error}") from error
        return self._process
