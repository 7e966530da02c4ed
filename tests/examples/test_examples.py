"""The examples run as they stand, on the embedded model."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(300)


def run(folder, *command, cwd):
    done = subprocess.run(
        [sys.executable, str(FOLDER / folder / command[0]), *command[1:]],
        cwd=cwd,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
        env={**os.environ, "STRETTO_SETTINGS": os.devnull},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_batch_goes_on_where_it_stopped(tmp_path):
    given = (
        str(FOLDER / "csv_batch" / "reviews.csv"),
        "--column",
        "review",
        "--task",
        "Say what each review is about.",
    )
    first = run("csv_batch", "csv_batch.py", *given, cwd=tmp_path)
    results = tmp_path / "results.jsonl"
    kept = [json.loads(line) for line in results.read_text().splitlines()]
    assert [each["row"] for each in kept] == [0, 1, 2, 3]
    assert "4 of 4 rows done" in first.replace("\n", " ")
    results.write_text("".join(f"{json.dumps(each)}\n" for each in kept[:2]))
    again = run("csv_batch", "csv_batch.py", *given, cwd=tmp_path)
    assert "2 of 4 rows to do" in again
    assert [json.loads(line)["row"] for line in results.read_text().splitlines()] == [0, 1, 2, 3]


def test_a_support_bot_tells_how_often_it_kept_its_objective(tmp_path):
    said = run("support_bot", "support_bot.py", "How do I look after a bicycle?", cwd=tmp_path)
    assert "of 1 replies began within 0.8 s" in said
    assert "<svg" in (tmp_path / "first_word.svg").read_text()


@pytest.mark.anyio
async def test_a_web_application_streams_its_events(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER / "web_app")
    app = importlib.import_module("web_app").app

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app", timeout=120) as client,
    ):
        assert "<h1>Ask</h1>" in (await client.get("/")).text
        body = (await client.get("/answer", params={"question": "How do I look after a bicycle?"})).text
    events = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line]
    assert events[0]["type"] == "route_chosen"
    assert events[-1]["type"] == "answer_finished"
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == events[-1]["answer"]["text"]


def test_the_notebook_runs_and_its_answers_show_themselves(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    shutil.copy(FOLDER / "notebook" / "answers.ipynb", tmp_path)
    book = nbformat.read(tmp_path / "answers.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=200, kernel_name="python3").execute()
    shown = [
        output.data for cell in book.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output
    ]
    assert sum("<svg" in data.get("text/html", "") for data in shown) == 2
    assert any("text/markdown" in data for data in shown)
