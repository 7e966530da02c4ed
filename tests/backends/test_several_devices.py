"""`LocalBackend(tensor_parallel=2)` and `pipeline_parallel=2`, with two processes on a CPU."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
from small_models import collect, opened, prompt, save, text_of

from stretto import AsyncStretto
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.serving import thread
from stretto.values.errors import BackendError, MissingDependencyError, SettingsError
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio
divides = pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate, of the extra dev, is missing")
WAYS = {
    "tensor": {"tensor_parallel": 2},
    "pipeline": {"pipeline_parallel": 2},
}
QUESTIONS = ("How do I oil a chain?", "How?", "Why do brakes squeal, and what helps?", "Why? " * 24)
ASKED = {
    **{method: {"decoding": method} for method in ("autoregressive", "suffix", "prompt_lookup", "auto")},
    "seed": {"temperature": 1.0, "seed": 3},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "tiny", end=None)


def workers(parent=None):
    """Processes that hold a part of a model, started by ``parent``, which is this process by default."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            above = int(status(folder)[1])
            if (
                above == (parent or os.getpid())
                and b"several_devices.part_process" in (folder / "cmdline").read_bytes()
            ):
                found.append(int(folder.name))
    return sorted(found)


def status(folder):
    """State, parent and more of a process."""
    return (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def gone(pid):
    try:
        return status(Path(f"/proc/{pid}"))[0] == "Z"
    except OSError:
        return True


async def until_gone(pids):
    with anyio.fail_after(30):
        while not all(map(gone, pids)):  # noqa: ASYNC110 - processes of others tell nobody of their end
            await anyio.sleep(0.01)


async def answers(backend):
    one = {name: text_of(await collect(backend, max_tokens=24, **options)) for name, options in ASKED.items()}
    one["long"] = text_of(await collect(backend, QUESTIONS[-1], max_tokens=8))  # in a pipeline, several microbatches
    several = await asyncio.gather(
        *(collect(backend, question, max_tokens=16, decoding="suffix") for question in QUESTIONS)
    )
    return one, [text_of(chunks) for chunks in several]


@pytest.mark.thorough
@divides
@pytest.mark.parametrize("way", WAYS)
async def test_answers_are_those_of_one_process(way, made):
    async with opened(made) as backend:
        expected = await answers(backend)
    async with opened(made, **WAYS[way]) as backend:
        assert await answers(backend) == expected
        held = workers()
        assert len(held) == 2
        async with backend.stream(prompt("Why?"), GenerationOptions(max_tokens=400)) as chunks:
            async for _ in chunks:
                break  # leaving cancels it
        assert text_of(await collect(backend, max_tokens=24)) == expected[0]["autoregressive"]
        if way == "pipeline":
            assert 0 < backend._loader.engine.model.forward.bubble < 1
    await until_gone(held)


@pytest.mark.thorough
@divides
@pytest.mark.parametrize("way", WAYS)
async def test_a_process_that_is_killed_ends_in_one_error_and_all_others_with_it(way, made):
    async with opened(made, **WAYS[way]) as backend:
        await collect(backend, max_tokens=2)
        held = workers()
        with pytest.raises(BackendError) as first:
            async with backend.stream(prompt("Why?"), GenerationOptions(max_tokens=400)) as chunks:
                async for _ in chunks:
                    with suppress(ProcessLookupError):
                        os.kill(held[1], signal.SIGKILL)
        assert "have ended: process 2 was ended by SIGKILL. Make a new backend." in str(first.value)
        await until_gone(held)
        with pytest.raises(BackendError, match="process 2 was ended by SIGKILL"):
            await collect(backend, max_tokens=2)


@pytest.mark.thorough
@divides
@pytest.mark.parametrize("way", WAYS)
async def test_a_process_that_hangs_is_ended_with_the_backend_and_requests_get_an_error(way, made, monkeypatch):
    monkeypatch.setattr(thread, "_CLOSE_S", 0.5)  # that a step is waited for
    backend = LocalBackend(f"local:{made}", dtype="float32", device="cpu", **WAYS[way])
    await collect(backend, max_tokens=2)
    held, failed = workers(), []

    async def ask(hang):
        with pytest.raises(BackendError) as error:
            async with backend.stream(prompt("Why?"), GenerationOptions(max_tokens=400)) as chunks:
                async for _ in chunks:
                    hang()
        failed.append(str(error.value))

    stopped = asyncio.Event()

    def hang():
        os.kill(held[1], signal.SIGSTOP)
        stopped.set()

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(ask(hang))
        await stopped.wait()
        await backend.aclose()
    assert all(map(gone, held))
    assert len(failed) == 2
    assert all("closed" in said for said in failed)  # one may not have begun yet


@pytest.mark.thorough
@divides
async def test_a_process_that_hangs_while_it_loads_is_ended_with_the_backend(made):
    backend = LocalBackend(f"local:{made}", dtype="float32", device="cpu", pipeline_parallel=2)

    async def ask():
        with pytest.raises(BackendError, match="closed"):
            await collect(backend)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        while not (held := workers()):  # noqa: ASYNC110 - a process of another thread tells nobody of its start
            await anyio.sleep(0.01)
        os.kill(held[0], signal.SIGSTOP)
        await backend.aclose()
    assert all(map(gone, held))


async def test_without_accelerate_the_package_is_named(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    for options in (WAYS["tensor"], WAYS["pipeline"]):
        async with opened(made, **options) as backend:
            with pytest.raises(MissingDependencyError, match=r"=2 needs accelerate, .* Run: pip install accelerate$"):
                await collect(backend)
        assert workers() == []


PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from stretto import Stretto
from stretto.local import LocalBackend
backend = LocalBackend("local:" + sys.argv[2], dtype="float32", device="cpu", tensor_parallel=2)
with Stretto(backend) as stretto:
    stretto.ask("Why?", strategy="direct", max_tokens=2)
    print("ready", flush=True)
    while True:
        stretto.ask("Why?", strategy="direct", max_tokens=400)
"""


@pytest.mark.thorough
@divides
@pytest.mark.parametrize("way", ["SIGKILL", "SIGINT"])
async def test_no_process_stays_behind_a_program_that_crashes_or_is_interrupted(way, made):
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else waits here
        [sys.executable, "-c", PROGRAM, json.dumps(sys.path), str(made)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        assert program.stdout.readline() == b"ready\n"
        held = workers(program.pid)
        assert len(held) == 2
        os.killpg(program.pid, getattr(signal, way))  # as a terminal does
        await until_gone([*held, program.pid])


@pytest.mark.thorough
@divides
async def test_what_a_process_says_while_it_loads_is_the_error(made, tmp_path):
    folder = save(tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"no weights")
    async with opened(folder, tensor_parallel=2) as backend:
        with pytest.raises(BackendError, match="a safetensors file is damaged or incomplete"):
            await collect(backend)
        assert workers() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tensor_parallel": 3}, "tensor_parallel=3 cannot be used with .+: its num_attention_heads, 4, .+ Use 2"),
        ({"pipeline_parallel": 3}, "pipeline_parallel=3 cannot be used with .+, which has 2 layers"),
        (
            {"pipeline_parallel": 2, "tensor_parallel": 2},
            "tensor_parallel=2 and pipeline_parallel=2 cannot be used together",
        ),
        ({"tensor_parallel": "2"}, "tensor_parallel='2' cannot be used: give a number of processes"),
        ({"pipeline_parallel": 2, "quantize": "int8"}, "quantize='int8' cannot be used with pipeline_parallel=2"),
        ({"tensor_parallel": 2, "cuda_graphs": True}, "cuda_graphs=True cannot be used with tensor_parallel=2"),
    ],
)
def test_what_cannot_be_done_over_several_processes_is_refused_before_anything_is_loaded(options, says, made):
    with pytest.raises(SettingsError, match=says):
        LocalBackend(f"local:{made}", dtype="float32", **options)


def test_long_prompts_are_not_read_over_several_processes(made, tmp_path):
    folder = shutil.copytree(made, tmp_path / "with")
    (folder / "focus.safetensors").write_bytes(b"")
    with pytest.raises(SettingsError, match="long_context='focus' cannot be used with a model over several processes"):
        LocalBackend(f"local:{folder}", tensor_parallel=2, long_context="focus")
    assert not LocalBackend(f"local:{folder}", tensor_parallel=2).capabilities.beyond_window


def test_methods_with_an_adapter_beside_the_weights_are_not_offered_over_several_processes(made, tmp_path):
    folder = shutil.copytree(made, tmp_path / "with")
    (folder / "strided").mkdir()
    (folder / "strided/adapter_config.json").write_text("{}")
    assert "strided" in LocalBackend(f"local:{folder}").capabilities.decodings
    assert "strided" not in LocalBackend(f"local:{folder}", tensor_parallel=2).capabilities.decodings
    with pytest.raises(SettingsError, match=r"decoding='strided' cannot be used\. It needs the model in one process\."):
        LocalBackend(f"local:{folder}", tensor_parallel=2, decoding="strided")


async def test_more_processes_than_devices_are_refused(made):
    backend = LocalBackend(f"local:{made}", device="cuda", tensor_parallel=2)
    with pytest.raises(SettingsError, match=r"it takes 2 devices, and torch sees \d+\. Use fewer"):
        await collect(backend)
    await backend.aclose()


async def test_settings_say_how_a_local_model_is_divided(made, monkeypatch):
    monkeypatch.setenv("STRETTO_TENSOR_PARALLEL", "3")
    with pytest.raises(SettingsError, match="its num_attention_heads, 4, cannot be divided by 3"):
        AsyncStretto(f"local:{made}")
