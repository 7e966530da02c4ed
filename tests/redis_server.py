"""A real redis-server on a port of its own, for as long as a test needs it."""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from patience import patience
from ports import reserved_port

HERE = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(HERE is None, reason="no redis-server here: apt-get install redis-server")


@dataclass
class RedisServer:
    """Keeps nothing on disk; `stop` and `start` are a restart that has forgotten everything."""

    folder: Path
    port: int
    process: subprocess.Popen | None = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.folder}
        command = [HERE, *(str(word) for name, value in options.items() for word in (f"--{name}", value))]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=patience(5)) as talk:
                    talk.sendall(b"PING\r\n")
                    if talk.recv(7) == b"+PONG\r\n":
                        return
            except OSError:
                assert self.process.poll() is None, "redis-server has ended"
            time.sleep(0.05)
        raise AssertionError("redis-server does not answer")

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None


@contextmanager
def running_redis(folder):
    """One that has been started; it is stopped at the end."""
    with reserved_port() as port:
        server = RedisServer(folder, port)
        try:
            server.start()
            yield server
        finally:
            server.stop()
