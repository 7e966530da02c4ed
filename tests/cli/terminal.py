"""A program on a pseudo terminal: type, wait for what it shows, bounded in time."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

from patience import patience
from warm import Program


class Terminal:
    """Start a program on a separate terminal; leaving the context kills it if it still runs.

    ``controls``: keys and the closing of the window send signals, as in a window of a person. ``warm``: what it imports
    is there already; with ``local``, what runs a model too.
    """

    def __init__(self, command, *, columns=80, rows=24, environment=None, controls=False, warm=True, local=False):
        self._controller, worker = pty.openpty()
        fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        variables = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **(environment or {})}
        variables.pop("COLUMNS", None)
        if warm:
            self._program = Program(command, (worker, worker, worker), env=variables, controls=controls, local=local)
        else:
            streams = {"stdin": worker, "stdout": worker, "stderr": worker}
            self._program = subprocess.Popen(command, **streams, env=variables, start_new_session=True)
        os.close(worker)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._program.poll() is None:
            self._program.kill()
        self._program.wait(patience(60))
        self.close()

    def close(self):
        """Close the window, as a person does."""
        if self._controller is not None:
            os.close(self._controller)
            self._controller = None

    def type(self, text):
        os.write(self._controller, text.encode())

    def interrupt(self):
        self.signal(signal.SIGINT)

    def signal(self, number):
        self._program.send_signal(number)

    def wait_for_exit(self):
        """Wait for the end of the program; what it shows until then is read, or it would wait for that."""
        until = time.monotonic() + patience(60)
        while self._controller is not None and self._program.poll() is None and time.monotonic() < until:
            self._read(time.monotonic() + 0.02)
        return self._program.wait(patience(60))

    def wait_until_stopped(self):
        """Wait until the program rests, as after Ctrl-Z in a shell: what goes on before that would stop again."""
        until = time.monotonic() + patience(60)
        while Path(f"/proc/{self._program.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until, f"it was not stopped, and showed {self.seen!r}"
            self._read(time.monotonic() + 0.02)

    def interrupt_until(self, pattern):
        """Press Ctrl-C, and again: at a prompt, readline may overlook one that comes in the wrong moment."""
        until = time.monotonic() + patience(60)
        while not re.search(pattern, self.seen, re.DOTALL):
            assert time.monotonic() < until, f"{pattern!r} was not shown, only {self.seen!r}"
            self.interrupt()
            second = time.monotonic() + 1
            while self._read(second) and not re.search(pattern, self.seen, re.DOTALL):
                pass
        return self.wait_for(pattern)

    def wait_for(self, pattern):
        """Read until the pattern is found in what came since the last find; returns all of that."""
        until = time.monotonic() + patience(60)
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            assert self._read(until), f"{pattern!r} was not shown, only {self.seen!r}"
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def wait_for_end(self):
        """Read to the end; returns what came and the exit code."""
        until = time.monotonic() + patience(60)
        while self._read(until):
            pass
        return self.seen, self._program.wait(patience(60))

    def _read(self, until):
        ready, _, _ = select.select([self._controller], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            content = os.read(self._controller, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.seen += content.decode("utf-8", "replace")
        return bool(content)


def without_textual(command):
    """The same program where Textual is not installed."""
    code = (
        "import importlib.util as util, runpy, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'textual' else find(name, *rest)\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    python, *rest = command
    return [python, "-c", code, *rest]
