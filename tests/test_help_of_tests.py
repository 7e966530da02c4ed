"""What other tests lean on: a clock that leaps, programs that are forked, and what runs and watches the tests."""

import io
import json
import logging
import os
import sys
from pathlib import Path

import anyio.abc
import anyio.to_thread
import pytest
import warm
from left_handlers import none_left
from patience import patience

TELLING = """
import atexit, json, os, sys
atexit.register(print, "end")
print(json.dumps([sys.argv, input(), dict(os.environ)]))
sys.exit(7)
"""


@pytest.mark.anyio
@pytest.mark.leaping
async def test_an_hour_is_leapt_over_and_no_time_passes_while_a_thread_works():
    before = anyio.current_time()
    await anyio.sleep(3600)
    assert anyio.current_time() == pytest.approx(before + 3600)
    with anyio.fail_after(0.001):
        assert await anyio.to_thread.run_sync(sum, range(3_000_000)) > 0


@pytest.mark.anyio
@pytest.mark.leaping
async def test_what_a_socket_of_this_process_sends_arrives_before_any_time_passes():
    async def answer(stream):
        async with stream:
            await stream.send(await stream.receive())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of anyio
        with anyio.fail_after(0.001):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"Hello.")
                assert await stream.receive() == b"Hello."
        tasks.cancel_scope.cancel()


def test_a_forked_program_has_its_own_arguments_surroundings_and_end():
    done = warm.run([sys.executable, "-c", TELLING, "a"], timeout=patience(60), given="Why?\n", env={"ONLY": "this"})
    said, end = done.stdout.splitlines()
    assert json.loads(said) == [["-c", "a"], "Why?", {"ONLY": "this"}]
    assert (end, done.returncode, done.stderr) == ("end", 7, "")
    killed = warm.run([sys.executable, "-c", "import os\nos.kill(os.getpid(), 9)"], timeout=patience(60))
    assert killed.returncode == -9


@pytest.mark.parametrize("name", ["", "stretto.local_engine"])
def test_a_handler_that_a_test_leaves_is_its_failure_and_taken_away(name):
    logger, handler = logging.getLogger(name), logging.StreamHandler()
    with pytest.raises(AssertionError, match=f"leaves <StreamHandler .* of the logger {name or 'root'}"), none_left():
        logger.addHandler(handler)
    assert handler not in logger.handlers


def test_a_level_that_a_test_leaves_is_its_failure_and_undone():
    logger = logging.getLogger("stretto")
    before = logger.level
    with pytest.raises(AssertionError, match="leaves the level ERROR of the logger stretto"), none_left():
        logger.setLevel(logging.ERROR)
    assert logger.level == before


def test_the_handler_of_a_library_no_longer_writes_to_a_stream_of_the_test_that_imported_it(capfd):
    logger, stream = logging.getLogger("a_library"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.flush = stream.flush
    with none_left():
        logger.addHandler(handler)
        stream.close()
    logger.warning("It is late.")
    logger.removeHandler(handler)
    assert capfd.readouterr().err == "It is late.\n"


FAILS_ONCE = """
from pathlib import Path
def test_flaky():
    seen = Path(__file__).with_name("seen")
    again = seen.exists()
    seen.touch()
    assert again
"""
FAILS = "def test_wrong():\n    assert False\n"


@pytest.mark.parametrize(
    ("source", "listed", "expected"),
    [
        (FAILS_ONCE, {}, 1),
        (FAILS_ONCE, {"test_it.py::test_flaky": "a limit of time"}, 0),
        (FAILS + FAILS_ONCE, {"test_it.py::test_flaky": "a limit of time"}, 1),
        (FAILS, {"test_it.py::test_wrong": "a limit of time"}, 1),
        ("def test_right():\n    pass\n", {}, 0),
    ],
    ids=["once", "once and listed", "one of two", "twice", "never"],
)
@pytest.mark.thorough
def test_only_a_listed_test_may_pass_its_second_try(source, listed, expected, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / ".ci")
    import pytest_twice  # noqa: PLC0415 - it is in no package

    monkeypatch.setattr(pytest_twice, "MAY_FAIL_ONCE", listed)
    (tmp_path / "test_it.py").write_text(source)
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    assert pytest_twice.tested(sys.executable, ["-q", "test_it.py"], cwd=tmp_path, env=plain) == expected
