"""Models that load at the same time, clients that nobody closes, processes that fork, deadlines while a model loads."""

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
import warm
from patience import patience
from saved_models import collect, opened, prompt, save, text_of

from stretto import Stretto
from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.loading import LoadingOptions
from stretto.values.errors import BackendError, DeadlineExceededError

pytestmark = pytest.mark.anyio


def run(code, *arguments, flags=()):
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    return warm.run(command, timeout=patience(110), local=True)


@pytest.mark.thorough  # the next test says that they are not
async def test_models_that_are_loaded_at_the_same_time_do_not_break_each_other(tmp_path):
    folders = [save(tmp_path / str(number)) for number in range(4)]
    expected = None
    for _ in range(3):
        answers = []

        async def ask(folder, answers=answers):
            async with opened(folder) as backend:
                answers.append(text_of(await collect(backend, max_tokens=10)))

        async with anyio.create_task_group() as group:
            for folder in folders:
                group.start_soon(ask, folder)
        expected = expected or answers[0]
        assert answers == [expected] * 4


@pytest.mark.thorough
async def test_no_two_models_are_loaded_at_the_same_time(folder, monkeypatch):
    met, overlaps = threading.Barrier(2), []
    real = LoadingOptions._load

    def load(self, *given):
        with suppress(threading.BrokenBarrierError):  # waited once in vain, it waits no more
            overlaps.append(met.wait(1))
        return real(self, *given)

    monkeypatch.setattr(LoadingOptions, "_load", load)
    backends = [LocalBackend(f"local:{folder}", draft_history_tokens=number) for number in range(3)]
    async with anyio.create_task_group() as group:
        for backend in backends:
            group.start_soon(backend.count_tokens, prompt("one"))
    for backend in backends:
        await backend.aclose()
    assert overlaps == []


@pytest.mark.thorough
def test_clients_that_load_and_answer_at_the_same_time_all_give_the_same_answer():
    code = """
import threading
from stretto import Stretto

answers = []

def ask():
    with Stretto("local:pocket") as stretto:
        question = "How do I look after a bicycle?"
        answers.append(stretto.ask(question, strategy="direct", max_tokens=8).text)

threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(answers), len(set(answers)))
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("4 1\n", "")


@pytest.mark.thorough
def test_a_model_that_is_loaded_behind_the_programs_last_line_answers(folder):
    code = """
import sys, threading
from stretto import Stretto

stretto = Stretto("local:" + sys.argv[1])

def ask():
    threading.main_thread().join()  # Python's own pools of threads end with it
    print(stretto.ask("Why?", strategy="direct", max_tokens=5).usage.completion_tokens)

threading.Thread(target=ask).start()
"""
    done = run(code, folder)
    assert (done.stdout, done.stderr) == ("5\n", "")


async def test_a_backend_that_waits_for_another_model_to_load_can_be_closed(folder, monkeypatch):
    loading, load = threading.Event(), threading.Event()
    real = LoadingOptions._load

    def slow(self, *given):
        loading.set()
        assert load.wait(patience(60))
        return real(self, *given)

    monkeypatch.setattr(LoadingOptions, "_load", slow)
    first, second = LocalBackend(f"local:{folder}"), LocalBackend(f"local:{folder}", draft_history_tokens=9)
    counting = asyncio.create_task(first.count_tokens(prompt("one")))
    assert await anyio.to_thread.run_sync(loading.wait, 60)
    waiting = asyncio.create_task(second.count_tokens(prompt("one")))
    await anyio.lowlevel.checkpoint()
    await second.aclose()
    with pytest.raises(BackendError, match="is closed"):
        await waiting
    load.set()
    assert await counting > 0
    await first.aclose()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["Stretto", "AsyncStretto", "LocalBackend"])
def test_what_nobody_closes_ends_with_the_interpreter_without_a_word(kind, folder):
    code = f"""
import asyncio, sys
from stretto import AsyncStretto, Stretto
from stretto.backends.local.backend import LocalBackend
model = "local:" + sys.argv[1]
if {kind!r} == "Stretto":
    client = Stretto(model)
    client.ask("Why?", strategy="direct", max_tokens=5)
elif {kind!r} == "AsyncStretto":
    client = AsyncStretto(model)
    asyncio.run(client.ask("Why?", strategy="direct", max_tokens=5))
else:
    from stretto.backends.base import ModelRequest
    from stretto.values.request import Message
    client = LocalBackend(model)
    asyncio.run(client.count_tokens(ModelRequest((Message(role="user", content="Why?"),))))
"""
    done = run(code, folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_an_interpreter_that_exits_while_a_model_is_loading_exits_cleanly(folder):
    code = """
import asyncio, sys
from stretto import AsyncStretto, Stretto
from stretto.values.errors import DeadlineExceededError
clients = AsyncStretto("local:" + sys.argv[1]), Stretto("local:" + sys.argv[1])
clients[1].route("Why?")  # imports what would take longer than the deadline
try:
    asyncio.run(clients[0].ask("Why?", strategy="direct", deadline_s=0.001))
except DeadlineExceededError as error:
    print(error)
try:
    clients[1].ask("Why?", strategy="direct", deadline_s=0.001)
except DeadlineExceededError as error:
    print(error)
"""
    done = run(code, folder)
    said = "The deadline passed after 0.001 s. Allow more with deadline_s.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said * 2, "")


@pytest.mark.thorough
def test_an_engine_that_comes_while_the_interpreter_exits_ends_before_it(folder):
    code = """
import asyncio, atexit, sys, threading
from stretto import AsyncStretto
from stretto.backends.local.loading import LoadingOptions
from stretto.values.errors import DeadlineExceededError
exits, load = threading.Event(), LoadingOptions._load
LoadingOptions._load = lambda self, *given: (exits.wait(60), load(self, *given))[1]
client = AsyncStretto("local:" + sys.argv[1])
atexit.register(exits.set)
import stretto.local_engine.serving.engine
try:
    asyncio.run(client.ask("Why?", strategy="direct", deadline_s=0.1))
except DeadlineExceededError:
    print("too late")
"""
    done = run(code, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "too late\n", "")


@pytest.mark.thorough
def test_models_that_wait_for_another_one_to_load_are_not_loaded_while_the_interpreter_exits(folder):
    code = """
import asyncio, atexit, sys, threading
from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.loading import LoadingOptions
from stretto.values.request import Message
begun, exits, load = threading.Event(), threading.Event(), LoadingOptions._load
def slow(self, *given):
    print("loads")
    begun.set()
    exits.wait(60)
    return load(self, *given)
LoadingOptions._load = slow
prompt = ModelRequest((Message(role="user", content="Why?"),))
backends = [LocalBackend("local:" + sys.argv[1], draft_history_tokens=number) for number in range(3)]
atexit.register(exits.set)

async def main():
    counting = [asyncio.create_task(backend.count_tokens(prompt)) for backend in backends]
    await asyncio.sleep(0)
    for each in counting:
        each.cancel()

asyncio.run(main())
begun.wait(60)
"""
    done = run(code, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "loads\n", "")


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="only POSIX systems signal one thread")
@pytest.mark.parametrize(
    ("raised", "status", "last"),
    [
        ("KeyboardInterrupt", 130, ""),
        ("SystemExit(7)", 7, ""),
        ("SystemExit", 0, ""),
        ("SystemExit('Enough.')", 1, "Enough.\n"),
        ("ValueError('a defect')", 1, "ValueError: a defect\n"),
    ],
)
def test_whoever_interrupts_the_exit_ends_the_process_at_once(folder, raised, status, last):
    code = f"""
import asyncio, signal, sys, threading
from stretto.foundation import ending_thread
from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.loading import LoadingOptions
from stretto.values.request import Message

def interrupt(*_):
    raise {raised}

def slow(self, *given):
    begun.set()
    ending_thread._exiting.wait(60)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    threading.Event().wait()

async def main():
    prompt = ModelRequest((Message(role="user", content="Why?"),))
    counting = asyncio.create_task(backend.count_tokens(prompt))
    await asyncio.sleep(0)
    counting.cancel()

LoadingOptions._load = slow
begun = threading.Event()
backend = LocalBackend("local:" + sys.argv[1])
asyncio.run(main())
begun.wait(60)
signal.signal(signal.SIGINT, interrupt)
print("The end.")
"""
    done = run(code, folder)
    assert (done.returncode, done.stdout) == (status, "The end.\n")
    assert "".join(done.stderr.splitlines(keepends=True)[-1:]) == last


def test_a_deadline_holds_while_the_model_is_loading(folder, monkeypatch):
    load = threading.Event()
    real = LoadingOptions._load

    def slow(self, *given):
        assert load.wait(patience(60))
        return real(self, *given)

    monkeypatch.setattr(LoadingOptions, "_load", slow)
    with Stretto(f"local:{folder}") as stretto:
        stretto.route("Why?")  # imports what would take longer than the deadline
        with pytest.raises(DeadlineExceededError, match=r"The deadline passed after 0\.1 s\."):
            stretto.ask("Why?", strategy="direct", deadline_s=0.1)
        load.set()
        assert stretto.ask("Why?", strategy="direct", max_tokens=5).text


FORKED = """
import asyncio, os, signal, sys
from stretto import AsyncStretto, Stretto, StrettoError
from stretto.backends.local.backend import LocalBackend
from stretto.backends.base import ModelRequest
from stretto.values.request import Message

MODEL, KIND = "local:" + sys.argv[1], sys.argv[2]
PROMPT = ModelRequest((Message(role="user", content="Why?"),))

def said(use):
    try:
        return use()
    except StrettoError as error:
        return f"{type(error).__name__}: {error}"

if KIND == "synchronous":
    client = Stretto(MODEL)
    use = lambda: client.ask("Why?", strategy="direct", max_tokens=5).text
elif KIND == "asynchronous":
    client = AsyncStretto(MODEL)
    use = lambda: asyncio.run(client.ask("Why?", strategy="direct", max_tokens=5)).text
else:
    client = LocalBackend(MODEL)
    use = lambda: asyncio.run(client.count_tokens(PROMPT))
before = use()
if (child := os.fork()) == 0:
    signal.alarm(60)
    print(said(use))
    print(said(lambda: Stretto(MODEL).ask("Why?", strategy="direct", max_tokens=5)), flush=True)
    sys.exit()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), use() == before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX systems fork")
@pytest.mark.parametrize("kind", ["synchronous", "asynchronous", "backend"])
def test_a_child_of_a_process_that_loaded_a_model_is_told_so_at_once_and_the_parent_goes_on(folder, kind):
    done = run(FORKED, folder, kind, flags=("-W", "ignore::DeprecationWarning"))
    old, new, end = done.stdout.splitlines()
    assert "was made before a fork" in old
    assert new.startswith(f"BackendError: local:{folder} cannot be loaded here: this process was forked from one")
    assert "spawn" in new
    assert (end, done.stderr, done.returncode) == ("0 True", "", 0)
