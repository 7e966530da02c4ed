"""Renders a chat template in a separate process, within limits of time, memory and length."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.spawn import get_executable
from typing import IO, Any, cast

from stretto.local_engine.text.template_process import OUT_OF_MEMORY

_CPU_S = 1.0  # CPU time; a conversation of 1,000 turns takes some hundredths
_WAIT_S = 20.0  # for a busy machine, and for one that cannot limit CPU time
_START_S = 60.0
_MEMORY = 2**29  # bytes; in addition, for each byte of input:
_MEMORY_PER_BYTE = 64
_CHARACTERS = 2**20  # in addition, for each byte of input:
_CHARACTERS_PER_BYTE = 8
_LONGEST = 2**20  # characters of a template; the longest known one has 40,000

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from stretto.local_engine.text.template_process import serve; serve()"
)


class RefusedError(Exception):
    """The template refuses its input, or is not a template."""


class StoppedError(Exception):
    """The template was stopped at a limit."""


class Renderer:
    """Renders one template, one request at a time. Its process starts with the first one, and ends with this object.

    Jinja cannot limit what a template needs: a single expression such as ``'a' * 10**10`` takes all memory. A process
    can be limited as a whole. Windows limits only the time, and macOS does not limit the memory.
    """

    def __init__(self, template: str) -> None:
        self._template = template
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []  # at most one
        weakref.finalize(self, _end, self._running)

    def render(self, given: Mapping[str, Any]) -> str:
        """Render with these values, which must be serialisable as JSON.

        Raises `RefusedError`, and `StoppedError` for a template that needs too much or whose process has ended.
        """
        if len(self._template) > _LONGEST:
            raise StoppedError(f"it has {len(self._template):,} characters, and {_LONGEST:,} are the most")
        try:
            data = json.dumps(given, ensure_ascii=False).encode(errors="surrogatepass")
        except (TypeError, ValueError, RecursionError) as error:
            raise RefusedError(f"they cannot be written as JSON ({error})") from error
        wanted = {
            "bytes": len(data),
            "memory": _MEMORY + _MEMORY_PER_BYTE * len(data),
            "cpu_s": _CPU_S,
            "most": _CHARACTERS + _CHARACTERS_PER_BYTE * len(data),
        }
        with self._lock:
            kind, reply = self._reply_to(json.dumps(wanted).encode() + b"\n" + data)
        match kind:
            case "text":
                return reply
            case "refused":
                raise RefusedError(reply)
        raise StoppedError(reply)

    def _reply_to(self, request: bytes) -> tuple[str, str]:
        """Return the kind of the process's answer, and the answer."""
        patience = _WAIT_S
        if not (self._running and self._running[0].poll() is None):
            _end(self._running)
            patience, request = _START_S, json.dumps(self._template).encode() + b"\n" + request
            try:
                self._running.append(_start())
            except (OSError, ValueError) as error:
                return "stopped", f"the process that renders it cannot be started ({error})"
        (process,) = self._running
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(patience, end)
        timer.daemon = True
        timer.start()
        try:
            with suppress(OSError, ValueError):
                sent, answered = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
                sent.write(request)
                sent.flush()
                kind, size = json.loads(answered.readline())
                reply = answered.read(size)
                if len(reply) == size:
                    return str(kind), reply.decode(errors="surrogatepass")
        except BaseException:  # such as Ctrl-C: the next request must not read this one's answer
            _end(self._running)
            raise
        finally:
            timer.cancel()
        _end(self._running)
        return "stopped", _cause(process.returncode, late=late.is_set())


def _start() -> subprocess.Popen[bytes]:
    executable = os.fsdecode(get_executable() or sys.executable)
    return subprocess.Popen(  # noqa: S603 - this interpreter, and our own module
        [executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in this program does not interrupt it
    )


def _cause(status: int, *, late: bool) -> str:
    if late or status == -getattr(signal, "SIGXCPU", 0):
        return f"it takes more than {_CPU_S:g} s of the processor"
    if status == OUT_OF_MEMORY:
        return f"it takes more than {_MEMORY // 2**20} MB of memory"
    return "the process that renders it ended, perhaps because it takes too much memory"


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    while running:
        with suppress(OSError), running.pop() as process:  # closes its pipes; a broken one's rest cannot be written
            process.kill()
            process.wait()  # also where a pipe that somebody closed cannot be closed again


_renderers: weakref.WeakValueDictionary[str, Renderer] = weakref.WeakValueDictionary()
_of_renderers = threading.Lock()


def renderer_of(template: str) -> Renderer:
    """Return the renderer of a template; callers with the same template share it."""
    with _of_renderers:
        found = _renderers.get(template)
        if found is None:
            found = _renderers[template] = Renderer(template)
        return found
