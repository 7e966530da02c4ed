"""The code completer of the examples: its endpoint over HTTP, and its editor on a pseudo terminal."""

import importlib
import json
import os
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn
from patience import patience
from terminal import Terminal
from ticking import tick_oftener

tick_oftener()
FOLDER = Path(__file__).parents[2] / "examples" / "code_completer"
CODE = '"""Shapes."""\n\nimport math\n\n\nclass Circle:\n    def __init__(self, radius):\n        self.radius = '
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("endpoint")


@asynccontextmanager
async def plug_in(endpoint):
    """The endpoint on a free port, and a client that is a plug-in."""
    server = uvicorn.Server(uvicorn.Config(endpoint.app, port=0, ws="none", log_level="warning"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        with anyio.fail_after(patience(120)):
            while not server.started:
                await anyio.lowlevel.checkpoint()
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=patience(60)) as client:
            yield client, endpoint.app.state.completer
        server.should_exit = True


async def completed(client, before, editor="vim"):
    """The text of a completion and its last event."""
    response = await client.post("/complete", json={"editor": editor, "before": before})
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]
    return "".join(event["text"] for event in events[:-1]), events[-1]


@pytest.mark.thorough
@pytest.mark.anyio
async def test_what_an_earlier_keystroke_had_read_is_not_read_again(endpoint):
    async with plug_in(endpoint) as (client, _):
        text, first = await completed(client, CODE)
        _, second = await completed(client, CODE + "radius\n")
        if not second["cached_tokens"]:  # in between it changed to compiled code; it does so once, and forgets all
            await completed(client, CODE)
            _, second = await completed(client, CODE + "radius\n")
    assert text
    assert first["end"] in ("stop", "length")
    assert first["cached_tokens"] == 0
    assert second["cached_tokens"] >= first["prompt_tokens"] - 2  # the end of a text may become other tokens


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_newer_keystroke_cancels_the_older_one_of_the_same_editor(endpoint):
    free = threading.Event()

    def holding():
        free.wait(patience(60))
        yield

    ends = {}

    async def ask(name, editor):
        ends[name] = (await completed(client, CODE, editor))[1]["end"]

    async with plug_in(endpoint) as (client, completer):
        completer.engine.run_alongside(holding())  # nothing is written until the test lets it
        async with anyio.create_task_group() as tasks:
            for waiting, (name, editor) in enumerate((("older", "vim"), ("other", "emacs")), 1):
                tasks.start_soon(ask, name, editor)
                with anyio.fail_after(patience(30)):
                    while completer.engine.occupancy.waiting < waiting:
                        await anyio.lowlevel.checkpoint()
            tasks.start_soon(ask, "newer", "vim")
            with anyio.fail_after(patience(30)):
                while "older" not in ends:
                    await anyio.lowlevel.checkpoint()
            free.set()
    assert ends["older"] == "cancelled"
    assert ends["newer"] in ("stop", "length")
    assert ends["other"] in ("stop", "length")


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_plug_in_that_leaves_ends_its_completion(endpoint):
    free = threading.Event()

    def holding():
        free.wait(patience(60))
        yield

    async with plug_in(endpoint) as (client, completer):
        completer.engine.run_alongside(holding())
        body = {"editor": "vim", "before": CODE}
        async with client.stream("POST", "/complete", json=body):
            with anyio.fail_after(patience(30)):
                while completer.engine.occupancy.waiting == 0:
                    await anyio.lowlevel.checkpoint()
        with anyio.fail_after(patience(30)):
            while completer.engine.occupancy.waiting:
                await anyio.lowlevel.checkpoint()
        free.set()


@pytest.mark.thorough
@pytest.mark.anyio
async def test_what_is_no_request_is_refused(endpoint):
    async with plug_in(endpoint) as (client, _):
        for content, changed, status in (
            ("no JSON", {}, 400),
            ("[" * 100_000, {}, 400),
            ('{"editor": "vim"}', {}, 400),
            ('{"editor": 1, "before": ""}', {}, 400),
            (b" " * 2_000_001, {}, 413),
            ("{}", {"content-type": "text/plain"}, 415),
            ("{}", {"host": "elsewhere.example"}, 400),
        ):
            headers = {"content-type": "application/json"} | changed
            response = await client.post("/complete", content=content, headers=headers)
            assert response.status_code == status, (content[:40], changed)


@pytest.mark.thorough
@pytest.mark.anyio
async def test_an_empty_file_a_long_one_and_half_a_character_are_completed(endpoint):
    async with plug_in(endpoint) as (client, completer):
        for before in ("", CODE * 200, "name = '\ud83d"):
            content = json.dumps({"editor": "vim", "before": before})
            response = await client.post("/complete", content=content, headers={"content-type": "application/json"})
            last = json.loads(response.text.splitlines()[-2].removeprefix("data: "))
            assert last["end"] in ("stop", "length")
            assert last["prompt_tokens"] < completer.engine.model.context_window


def test_the_kept_part_of_a_long_text_moves_in_steps(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    kept_from = importlib.import_module("completer").kept_from
    begins = [kept_from(length, 100) for length in range(400)]
    assert all(length - begin <= 100 for length, begin in enumerate(begins))
    assert sorted(set(begins)) == list(range(0, 301, 25))


@pytest.mark.parametrize("width", [79, 40, 5])
def test_the_foot_of_the_editor_keeps_its_parts_apart(monkeypatch, width):
    monkeypatch.syspath_prepend(FOLDER)
    editor = importlib.import_module("editor")
    said = "2:12  48 tokens in 58 ms, 10 of 11 known"
    assert editor.foot(said, width) == (f"{said}{editor.HELP:>39}" if width == 79 else said)
    assert editor.foot("", 79).strip() == editor.HELP


@pytest.mark.thorough
def test_the_editor_suggests_takes_and_saves(tmp_path):
    file = tmp_path / "shapes.py"
    file.write_text(CODE)
    command = [sys.executable, str(FOLDER / "editor.py"), str(file)]
    row, column = CODE.count("\n") + 1, len(CODE.rpartition("\n")[2]) + 1
    with Terminal(command, columns=110, environment={"STRETTO_SETTINGS": os.devnull}, local=True) as terminal:
        terminal.wait_for(rf"{row}:{column}  \d+ tokens in ")
        terminal.type("r")
        terminal.wait_for(rf"{row}:{column + 1}  \d+ tokens in ")
        terminal.type("\t")
        terminal.wait_for(r"\d+:\d+  \d+ tokens in ")
        terminal.type("\x13")
        terminal.wait_for("Saved")
        terminal.type("\x18")
        _, code = terminal.wait_for_end()
    assert code == 0
    saved = file.read_text()
    assert saved.startswith(CODE + "r")
    assert len(saved) > len(CODE) + 1
