"""The processes that hold a model: started together, ended together, and with the one that started them."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from multiprocessing.spawn import get_executable
from typing import IO, Any

from torch import Tensor

from stretto.local_engine.process_layout import ProcessLayout
from stretto.local_engine.research.several_devices.tensor_messages import Message, receive, send
from stretto.values import errors
from stretto.values.errors import BackendError, StrettoError

__all__ = ["Processes"]

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from stretto.local_engine.research.several_devices.part_process import work; "
    "work(int(sys.argv[2]), int(sys.argv[3]))"
)
_PATIENCE_S = 5.0  # for a process that was told to end
_CAUSE_S = 2.0  # in which the others fail as well, once one has ended
_LOOK_S = 0.5  # after which it is looked whether a model is still wanted that is being loaded


@dataclass(frozen=True, slots=True)
class _Process:
    rank: int
    popen: subprocess.Popen[bytes]
    asks: FileIO
    answers: FileIO
    printed: IO[bytes]


class Processes:
    """A model over several processes. For one thread; `end` is for any.

    A failure of one ends all: what they held no longer fits together. After that, every call says the same.

    Args:
        name: of the model.
        layout: how it is divided.
        on_cuda: whether each has a CUDA device of its own; else they run on the processor, without any.

    Raises `BackendError` where they cannot be started.
    """

    def __init__(self, name: str, layout: ProcessLayout, *, on_cuda: bool) -> None:
        self._name = name
        self._failure: str | None = None
        self._meeting = tempfile.mkdtemp(prefix="stretto-")  # for this user only
        self._processes: list[_Process] = []
        self._finalizer = weakref.finalize(self, _end, self._processes, self._meeting)
        try:
            for rank in range(layout.processes):
                self._processes.append(_start(rank, layout, on_cuda=on_cuda))
        except OSError as error:
            self.end()
            raise BackendError(f"The processes of {name} cannot be started: {error}.", backend=name) from error

    def load(self, options: Mapping[str, Any], given_up: Callable[[], bool] = lambda: False) -> list[dict[str, Any]]:
        """Let each load its part, unless it is given up. Returns what each says of it, or raises what one raised."""
        return [said for said, _ in self.ask({**options, "meeting": self._meeting}, given_up=given_up)]

    def ask(
        self,
        said: Mapping[str, Any],
        tensors: Mapping[str, Tensor] | None = None,
        *,
        given_up: Callable[[], bool] | None = None,
    ) -> list[Message]:
        """Send the same to all, and wait for all answers, by rank. Raises `StrettoError` if one of them fails.

        ``given_up``: whether the answers are not waited for any longer.
        """
        if self._failure is not None:
            raise BackendError(self._failure, backend=self._name)
        if not self._finalizer.alive:
            raise BackendError(f"The processes of {self._name} have ended. Make a new backend.", backend=self._name)
        with suppress(OSError):  # its answer is its end
            for process in self._processes:
                send(process.asks, said, tensors)
        answers: dict[int, Message] = {}
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.answers, selectors.EVENT_READ, process)
            while len(answers) < len(self._processes):
                for key, _ in selector.select(None if given_up is None else _LOOK_S):
                    selector.unregister(key.fileobj)
                    answer = _answer(key.data)
                    if answer is None or "failed" in answer[0]:
                        raise self._failed(answer)
                    answers[key.data.rank] = answer
                if given_up is not None and given_up():
                    self.give_up()
        return [answers[process.rank] for process in self._processes]

    def end(self) -> None:
        """End all of them. Idempotent."""
        self._finalizer()

    def give_up(self) -> None:
        """End all of them at once, because one does not answer. From any thread; who waits for them gets an error."""
        self._failure = (
            f"The processes of {self._name} did not answer when the backend was closed, and were ended. Make a new one."
        )
        for process in self._processes:
            process.popen.kill()

    def _failed(self, answer: Message | None) -> StrettoError:
        """End all processes, and say why: one that was killed is the cause of what the others say."""
        if self._failure is not None:  # they were given up
            self.end()
            return BackendError(self._failure, backend=self._name)
        said = {} if answer is None else answer[0]
        kind = getattr(errors, said.get("error", ""), None)
        if isinstance(kind, type) and issubclass(kind, StrettoError):
            self.end()
            return kind(said["failed"])
        until = time.monotonic() + _CAUSE_S
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.0, until - time.monotonic()))
        causes = [_ended(process, status) for process in self._processes if (status := process.popen.poll())]
        self.end()
        cause = causes[0] if causes else f"one of them failed ({said.get('failed', 'without a word')})"
        self._failure = f"The processes of {self._name} have ended: {cause}. Make a new backend."
        return BackendError(self._failure, backend=self._name)


def _start(rank: int, layout: ProcessLayout, *, on_cuda: bool) -> _Process:
    executable = os.fsdecode(get_executable() or sys.executable)
    command = [executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(rank), str(os.getpid())]
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process
    popen = subprocess.Popen(  # noqa: S603 - this interpreter, and our own module
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=printed,
        env=_environment(rank, layout, on_cuda=on_cuda),
        start_new_session=True,  # Ctrl-C in this program does not interrupt it
    )
    assert isinstance(popen.stdin, FileIO)  # noqa: S101 - for the type checker
    assert isinstance(popen.stdout, FileIO)  # noqa: S101 - as above
    return _Process(rank, popen, popen.stdin, popen.stdout, printed)


def _environment(rank: int, layout: ProcessLayout, *, on_cuda: bool) -> dict[str, str]:
    """What transformers and torch read, and that nothing listens where other machines reach it."""
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(layout.processes)}
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback is not None:
        own |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
    if not on_cuda:
        own["CUDA_VISIBLE_DEVICES"] = ""
    return {**os.environ, **own}


def _answer(process: _Process) -> Message | None:
    """What a process says; ``None`` if it has ended."""
    try:
        return receive(process.answers)
    except (EOFError, OSError):
        return None


def _ended(process: _Process, status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"process {process.rank + 1} was ended by {signal.Signals(-status).name}"
    process.printed.seek(0)
    lines = process.printed.read().decode(errors="replace").strip().splitlines()
    said = f" ({lines[-1]})" if lines else ""
    return f"process {process.rank + 1} ended with status {status}{said}"


def _end(processes: Sequence[_Process], meeting: str) -> None:
    for process in processes:
        with suppress(OSError):
            process.asks.close()  # each ends at once then, wherever it is
    for process in processes:
        try:
            process.popen.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait()
        process.answers.close()
        process.printed.close()
    shutil.rmtree(meeting, ignore_errors=True)
