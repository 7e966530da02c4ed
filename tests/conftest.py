import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from leaping import LeapingLoop
from left_handlers import none_left
from patience import slowness
from warm import Piped

os.environ.setdefault("STRETTO_COMPILED", "1")  # what a test sees does not depend on how far a compiler is

# Every server of the tests speaks plain HTTP: this folder holds no certificate. All that a system trusts take each new
# client of an SDK 45 ms of processor time to read.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# A busy machine is not a failure. The same examples each time: a change does not fail for a fault that was there before
# it. `make test-targets ONLY=properties` looks for others.
settings.register_profile("quick", deadline=None, max_examples=12, derandomize=True)
settings.register_profile("thorough", deadline=None)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)  # before the plugin reads it
def pytest_configure(config):
    """A limit on a test ends what hangs, and nothing that is only slow. Workers take that of the process above them.

    A shell that runs the tests in the background has them ignore Ctrl-C, and so would all programs that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.option.timeout = slowness() * float(config.option.timeout or config.getini("timeout"))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What the tests import stays: neither while they are collected nor in a test is it looked through for garbage.

    What a test leaves behind is looked for more rarely than usual: most of it goes with the test.
    """
    gc.disable()
    collected = yield
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()
    return collected


@pytest.fixture(scope="module", autouse=True)
def imports_of_a_file_stay():
    """What its tests imported later is not looked through either; what they left behind is collected before."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def handlers_of_logs():
    with none_left():
        yield


@pytest.fixture
def anyio_backend(request):
    return "asyncio", {"loop_factory": LeapingLoop} if request.node.get_closest_marker("leaping") else {}


@pytest.fixture(autouse=True)
def leaping(request, monkeypatch):
    """The loops that a marked test runs by itself leap too."""
    if request.node.get_closest_marker("leaping"):
        monkeypatch.setattr("asyncio.events.new_event_loop", LeapingLoop)


@pytest.fixture(autouse=True)
def nothing_known_of_servers():
    """A server on a port that another test's server had is not taken for that one."""
    yield
    if (module := sys.modules.get("stretto.backends.providers.learned")) is not None:
        module.forget()


@pytest.fixture
def forked_parsers(monkeypatch):
    """The processes that parse files are forked off one that has imported the parsers, which take most of the time.

    `document/test_reading_bounds.py` starts them as they are.
    """
    forked = SimpleNamespace(Popen=Piped, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr("stretto.documents.parser.subprocess", forked)


@pytest.fixture
def benchmark():
    """What LangChain's suite would measure is run. The plugin for it is off, and so is that of the next one."""
    return lambda run: run()


@pytest.fixture
def vcr():
    """Of a test that is left out: it needs recorded answers."""
