"""Python programs that begin with the library imported: each is forked off a process that has done nothing else.

Most of what a program of a few lines takes is its imports, and few tests are about these. Started as a program, this is
the process that is forked; it ends with the tests. A forked program has a session, an environment and standard streams
of its own, and ends as any interpreter does: `atexit`, threads and garbage collection are Python's own.
"""

import atexit
import builtins
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import types
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

LONGEST = 150_000  # bytes of a message
IMPORTED = (
    *(
        "openai",
        "stretto.cli.app",
        "stretto.cli.commands.ask",
        "stretto.cli.commands.chat",
        "stretto.cli.output.live",
        "stretto.cli.output.markdown",
    ),
    *(
        "stretto.cli.terminal.chat_app",
        "stretto.client.first_imports",
        "stretto.client.sync_client",
        "stretto.testing.server",
    ),
    *("stretto.documents.docx", "stretto.documents.html", "stretto.documents.pdf", "stretto.documents.plain"),
)
LOCAL = (
    *("numba", "torch", "transformers", "transformers.models.llama.modeling_llama"),
    *(
        "stretto.backends.local.backend",
        "stretto.local_engine.drafting.catalogue",
        "stretto.local_engine.model.loading.load",
        "stretto.local_engine.serving.engine",
    ),
)
"""Imported as well where a program runs a model: three seconds of it."""


class Program:
    """A Python program, by its command line: ``-c``, ``-m`` or a file, with ``-W`` before it or without.

    Its standard streams are ``streams``: files, or their descriptors. With ``controls``, the first is its terminal.
    ``local`` is for programs that run a model.
    """

    def __init__(self, command, streams, *, env=None, cwd=None, controls=False, local=False):
        asked = {"command": command[1:], "env": dict(os.environ if env is None else env), "controls": controls}
        descriptors = [each if isinstance(each, int) else each.fileno() for each in streams]
        self._forks = forks(local)
        self.pid = self._forks.start({**asked, "cwd": str(cwd or Path.cwd()), "path": sys.path}, descriptors)

    def poll(self):
        """The exit status as `subprocess` gives it; ``None`` while it runs."""
        return self._forks.status(self.pid, 0)

    def wait(self, timeout=None):
        """The exit status. Raises `TimeoutError`."""
        status = self._forks.status(self.pid, timeout)
        if status is None:
            raise TimeoutError(f"the program still runs after {timeout} s")
        return status

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Piped(Program):
    """One that is held as by `subprocess.Popen`: its standard streams are pipes of bytes, or nothing."""

    def __init__(self, command, *, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        with ExitStack() as theirs:

            def stream(kind, mode):
                if kind == subprocess.DEVNULL:
                    return None, theirs.enter_context(open(os.devnull, "r+b"))  # noqa: PTH123
                read, written = os.pipe()
                ours, other = (written, read) if mode == "wb" else (read, written)
                return open(ours, mode), theirs.enter_context(open(other, "rb" if mode == "wb" else "wb"))  # noqa: PTH123

            pipes = [stream(stdin, "wb"), stream(stdout, "rb"), stream(stderr, "rb")]
            self.stdin, self.stdout, self.stderr = (ours for ours, _ in pipes)
            super().__init__(command, [other for _, other in pipes])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def run(command, *, timeout, given="", shown=None, **surroundings):
    """Run a program to its end; ``given`` is its input, ``shown`` the file of its output."""
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read.write(given.encode())
        read.seek(0)
        program = Program(command, (read, shown or out, err), **surroundings)
        try:
            status = program.wait(timeout)
        finally:
            program.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read().decode(), err.read().decode())


@contextmanager
def started(command):
    """A program and what it says on its standard error, a file; leaving kills it where it still runs."""
    read, written = os.pipe()
    with open(os.devnull, "r+b") as nothing, open(read, encoding="utf-8") as said:  # noqa: PTH123
        program = Program(command, (nothing, nothing, written))
        os.close(written)
        try:
            yield program, said
        finally:
            program.kill()


@functools.cache
def forks(local):
    """Those of this process, for all of its tests."""
    return Forks(LOCAL if local else ())


class Forks:
    """The process that is forked, and how its forks ended."""

    def __init__(self, more):
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            number = other.fileno()
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(number), *more], pass_fds=[number], start_new_session=True
            )
        self._ended = {}
        self._lock = threading.Lock()  # one thread at a time asks and listens
        atexit.register(self.close)

    def close(self):
        self._socket.close()
        self._process.wait()

    def start(self, asked, descriptors):
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], descriptors)
            while not isinstance(told := self._told(), int):
                self._ended.update([told])
            return told

    def status(self, pid, seconds):
        with self._lock:
            while pid not in self._ended and select.select([self._socket], [], [], seconds)[0]:
                self._ended.update([self._told()])
            return self._ended.get(pid)

    def _told(self):
        said = self._socket.recv(LONGEST)
        assert said, "the process that is forked has ended"
        return json.loads(said)


def serve(talk):
    """Fork for each message. Returns in each fork, with what was asked of it and its streams; ``None`` at the end."""
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([talk, ended], [], [])
        if ended in ready:
            os.read(ended, LONGEST)
            while (found := child_that_ended()) is not None:
                talk.send(json.dumps(found).encode())
        if talk in ready:
            message, streams, _, _ = socket.recv_fds(talk, LONGEST, 3)
            if not message:
                return None
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number in (ended, wake):
                    os.close(number)
                return json.loads(message), streams
            for stream in streams:
                os.close(stream)
            talk.send(json.dumps(pid).encode())


def child_that_ended():
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def become(asked, streams):
    """Take over streams, terminal, environment, folder and command line; returns what is left to be run."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if asked["controls"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        by_line = 1 if number == 2 or os.isatty(number) else -1
        stream = open(number, mode, encoding="utf-8", closefd=False, buffering=by_line)  # noqa: SIM115 - to the end
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    kind, *rest = asked["command"]
    if kind == "-W":
        action, _, category = rest[0].partition("::")
        warnings.simplefilter(action, getattr(builtins, category or "Warning"))
        kind, *rest = rest[1:]
    sys.path[:] = asked["path"]
    sys.argv = [kind, *rest] if kind not in ("-c", "-m") else [*rest]
    return kind, rest


def go(kind, rest):
    if kind == "-c":
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        sys.argv[0] = "-c"
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)  # noqa: S102 - of a test
    elif kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    sys.modules["genai_prices"] = None  # its table takes a third of a second, and no script has a price
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        for imported in (*IMPORTED, *sys.argv[2:]):
            importlib.import_module(imported)
        sys.modules["stretto.client.first_imports"].import_all()
        gc.collect()
        gc.freeze()
        forked = serve(asking)
    if forked is not None:
        go(*become(*forked))
