"""A model whose loading never ends holds up neither another model nor the end of its client."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import anyio
import pytest
import warm
from patience import patience
from saved_models import collect, opened, prompt, save, text_of

from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.loading import LoadingOptions
from stretto.values.errors import BackendError, ModelNotFoundError, SettingsError

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe(tmp_path):
    """A named pipe that nobody writes to. Who reads it goes on when the test ends."""
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    before = set(threading.enumerate())
    yield path
    for thread in set(threading.enumerate()) - before:
        while thread.is_alive():
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:  # nobody reads
                thread.join(0.05)


async def test_a_pipe_to_draft_from_holds_up_no_other_model_and_no_end(folder, pipe, monkeypatch):
    monkeypatch.setattr("stretto.backends.local.engine_loader._PATIENCE_S", 0.05)
    hanging = LocalBackend(f"local:{folder}", draft_corpus=[pipe])
    failures = []

    async def ask():
        try:
            await collect(hanging)
        except BackendError as error:
            failures.append(str(error))

    with anyio.fail_after(patience(120)):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            async with opened(folder) as other:
                assert text_of(await collect(other, max_tokens=4))
            assert not failures
            await hanging.aclose()
    assert failures == [f"The backend local:{folder} is closed. Make a new one."]


async def test_what_is_loaded_after_the_end_is_freed(folder, monkeypatch):
    monkeypatch.setattr("stretto.backends.local.engine_loader._PATIENCE_S", 0.05)
    loading, load, engines = threading.Event(), threading.Event(), []
    real = LoadingOptions._load

    def slow(self, *given):
        loading.set()
        assert load.wait(patience(60))
        engines.append(real(self, *given))
        return engines[0]

    monkeypatch.setattr(LoadingOptions, "_load", slow)
    before = set(threading.enumerate())
    backend = LocalBackend(f"local:{folder}")
    async with anyio.create_task_group() as group:
        group.start_soon(_refused, backend)
        assert await anyio.to_thread.run_sync(loading.wait, 60)
        (thread,) = {each for each in set(threading.enumerate()) - before if "stretto worker" in each.name}
        await backend.aclose()
    load.set()
    await anyio.to_thread.run_sync(thread.join, patience(120))
    assert not thread.is_alive()
    assert not vars(engines[0].model.forward)  # its weights are gone


async def _refused(backend):
    with pytest.raises(BackendError, match="is closed"):
        await backend.count_tokens(prompt("one"))


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "generation_config.json", "model.safetensors", "chat_template.jinja"]
)
async def test_a_pipe_among_a_models_files_is_refused(folder, tmp_path, name):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / name).unlink(missing_ok=True)
    os.mkfifo(copy / name)
    async with opened(copy) as backend:
        with anyio.fail_after(patience(60)), pytest.raises(ModelNotFoundError, match=f"{name}' is no regular file"):
            await collect(backend)


async def test_a_pipe_in_the_place_of_a_model_an_adapter_or_a_head_is_refused(folder, tmp_path):
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(ModelNotFoundError, match="There is no file"):
        LocalBackend(f"local:{tmp_path}/model.gguf")
    for name in ("adapter_config.json", "model.safetensors", "config.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(SettingsError, match="no adapter"):
        LocalBackend(f"local:{folder}", adapter=tmp_path)
    async with opened(folder, head=tmp_path) as backend:
        with anyio.fail_after(patience(60)), pytest.raises(ModelNotFoundError, match="is no regular file"):
            await collect(backend)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_pipe_in_the_place_of_an_adapters_weights_is_refused(folder, tmp_path, beside):
    os.mkfifo(tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 4, "lora_alpha": 8}')
    given = {"adapters": {"a": tmp_path}} if beside else {"adapter": tmp_path}
    async with opened(folder, **given) as backend:
        with pytest.raises(ModelNotFoundError, match=r"adapter_model\.safetensors' is no regular file"):
            await collect(backend, **({"adapter": "a"} if beside else {}))


@pytest.mark.thorough
async def test_a_template_that_takes_all_memory_is_told_and_holds_up_no_other_model(folder, tmp_path):
    hostile = save(tmp_path, template="{{ 'a' * 10**10 }}{% for m in messages %}{{ m.content }}{% endfor %}")
    async with opened(hostile) as backend, opened(folder) as other:
        for _ in range(2):
            with pytest.raises(
                BackendError, match=r"The chat template of .* was stopped: .* memory\. It may be damaged"
            ):
                await collect(backend)
        assert text_of(await collect(other, max_tokens=4))


@pytest.mark.thorough
async def test_the_process_of_a_template_ends_with_the_last_model_that_has_it(folder, tmp_path):
    told = [save(tmp_path / name, template="{{ messages[0].content }}") for name in "ab"]
    async with opened(told[0]) as first:
        await first.count_tokens(prompt("one"))
        (renderer,) = first._loader.engine.model.chat._renderers.values()
        (process,) = renderer._running
        del renderer
        async with opened(told[1]) as second:
            assert await second.count_tokens(prompt("two")) == 3
        assert process.poll() is None
    assert process.poll() is not None


PROGRAM = """
import asyncio, os, signal, sys, threading
from contextlib import suppress
from stretto import AsyncStretto, BackendError, DeadlineExceededError, Settings, Stretto
from stretto.backends.local import engine_loader
from stretto.client.first_imports import import_all
from stretto.foundation import ending_thread
from stretto.local import LocalBackend

def loads():
    return any("stretto worker" in each.name for each in threading.enumerate())

def load():
    with suppress(BackendError):  # where the exit came first
        Stretto(model, settings=settings).load()

def reads(frame):
    return frame is not None and (frame.f_code.co_name == "read_texts" or reads(frame.f_back))

def interrupt():  # not while the main thread begins to wait: asyncio would see the signal only when something wakes it
    while not any(map(reads, sys._current_frames().values())):
        started.wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)

started = threading.Event()
model, settings = "local:" + sys.argv[1], Settings(draft_corpus=[sys.argv[2]])
import_all()
if sys.argv[3] == "quickly":
    ending_thread._PATIENCE_S = engine_loader._PATIENCE_S = 0.2
"""
ASKS = """
    try:
        stretto.ask("Why?", strategy="direct", deadline_s=0.5)
    except DeadlineExceededError:
        print("too late")
"""
INTERRUPTED = """
threading.Thread(target=interrupt, daemon=True).start()
try:
    {}
except KeyboardInterrupt:
    print("interrupted")
"""


def the_end_of(program, *arguments):
    command = [sys.executable, "-W", "error", "-c", PROGRAM + program, *map(str, arguments)]
    run = warm.run(command, timeout=patience(40), local=True)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.thorough
def test_a_program_ends_though_its_model_is_still_being_loaded(folder, pipe):
    program = f"with Stretto(LocalBackend(model, draft_corpus=[sys.argv[2]])) as stretto:{ASKS}"
    assert the_end_of(program, folder, pipe, "patiently") == (0, "too late\n", "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (f"with Stretto(model, settings=settings) as stretto:{ASKS}", "too late"),
        (f"stretto = Stretto(model, settings=settings)\nif True:{ASKS}", "too late"),
        (
            f"stretto = Stretto(model, settings=settings)\nif True:{ASKS}\n"
            "threading.Thread(target=stretto.close).start()",
            "too late",
        ),
        (
            "threading.Thread(target=load, daemon=True).start()\nwhile not loads(): started.wait(0.01)\nprint('left')",
            "left",
        ),
        (INTERRUPTED.format("Stretto(model, settings=settings).load()"), "interrupted"),
        (INTERRUPTED.format("asyncio.run(AsyncStretto(model, settings=settings).load())"), "interrupted"),
    ],
    ids=["closed", "never closed", "closed elsewhere", "loaded elsewhere", "interrupted", "interrupted in a loop"],
)
def test_a_program_ends_in_any_way_while_its_model_is_being_loaded(folder, pipe, program, said):
    assert the_end_of(program, folder, pipe, "quickly") == (0, f"{said}\n", "")


@pytest.mark.thorough
def test_a_server_ends_at_a_signal_while_its_model_is_being_loaded(folder, pipe):
    command = [sys.executable, "-m", "stretto.cli", "serve", "--port", "0", "-m", f"local:{folder}"]
    with subprocess.Popen([*command, "--draft-corpus", str(pipe)], stderr=subprocess.PIPE) as process:
        with open(pipe, "wb"):  # noqa: PTH123 - opens once it is read
            process.send_signal(signal.SIGTERM)
            assert process.wait(patience(40)) == 0
        assert process.stderr.read().endswith(b"Ctrl-C ends it.\n")


@pytest.mark.thorough
def test_a_loading_that_takes_long_is_interrupted_when_the_program_ends(folder, pipe):
    program = """
import torch
from stretto.backends.local.loading import LoadingOptions

def endless(*given):
    started.set()
    try:
        while True:
            (torch.zeros(9) @ torch.zeros(9)).item()
    finally:
        print("freed")

LoadingOptions._load = endless
threading.Thread(target=Stretto(model).load, daemon=True).start()
started.wait()
"""
    assert the_end_of(program, folder, pipe, "quickly") == (0, "freed\n", "")


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["stretto.router", "openai.resources.chat.completions.completions"])
def test_a_program_ends_though_a_module_is_still_being_imported(module):
    code = f"""
import asyncio, sys, threading
from stretto import AsyncStretto, StrettoError
hangs = threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == {module!r}:
            hangs.set()
            threading.Event().wait()
sys.meta_path.insert(0, Slow())
async def main():
    asking = asyncio.create_task(AsyncStretto("openai:any", base_url="http://127.0.0.1:1/v1", api_key="k").ask("Why?"))
    while not hangs.is_set():
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    print("left")
asyncio.run(main())
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(40), check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "left\n", "")


@pytest.mark.thorough
def test_a_hub_that_never_answers_holds_up_no_other_model(tmp_path):
    code = """
import threading
from stretto import DeadlineExceededError, Stretto
waits = threading.Event()
def ask():
    with Stretto("local:nobody/no-such-model") as far:
        try:
            waits.set()
            far.ask("Why?", strategy="direct", deadline_s=5)
        except DeadlineExceededError:
            print("too late")
thread = threading.Thread(target=ask)
thread.start()
waits.wait()
with Stretto("local:pocket") as near:
    near.load()
    print("loaded")
thread.join()
"""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = {"HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}", "HF_HOME": str(tmp_path)}
        run = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | hub, stdout=subprocess.PIPE, text=True,
            timeout=patience(100), check=True,
        )  # fmt: skip
    assert sorted(run.stdout.split("\n")) == ["", "loaded", "too late"]


@pytest.mark.thorough
def test_a_model_of_the_hub_that_is_here_is_loaded_without_a_network(folder, tmp_path):
    cached = tmp_path / "hub" / "models--org--name"
    shutil.copytree(folder, cached / "snapshots" / ("a" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("a" * 40)
    code = """
from stretto import Stretto
with Stretto("local:org/name") as stretto:
    answer = stretto.ask("Why?", strategy="direct", max_tokens=5)
    print(answer.usage.completion_tokens, answer.route.backend)
"""
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=patience(100), check=True)
    assert run.stdout == "5 local:org/name\n"
