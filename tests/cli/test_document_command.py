"""Documents on the command line: progress, footnotes, rows of the trace, and a chat about them."""

import json

import pytest

from stretto.cli.output.progress import Progress
from stretto.cli.output.trace import render_timeline
from stretto.values.answer import Answer, Branch, Span, Timeline
from stretto.values.citation import PassageRecord
from stretto.values.events import BranchStarted, PassageRead, RouteChosen
from stretto.values.route import Route

FACT = "The rent is 900 euros."
RECORD = json.dumps({"evidence": [FACT], "answer": "900 euros", "confidence": 5, "no_information": False})
READER = {'"no_information"': RECORD, "numbered quotations out of them": "It is 900 euros [1].", "": "Whole [1]."}


def lease(folder, repeated=400):
    text = f"# Terms\n\n{FACT}\n\n" + "The parties meet once a year to talk about the garden.\n\n" * repeated
    (folder / "lease.md").write_text(text, encoding="utf-8")
    return str(folder / "lease.md")


def test_the_places_an_answer_cites_are_footnotes_below_it(stretto, tmp_path):
    result = stretto("ask", "What is the rent?", "-d", lease(tmp_path), script=READER, context_window=3_000)
    assert result.stdout == "It is 900 euros [Terms, chars 9-31].\n"
    assert f"[Terms, chars 9-31] Terms: {FACT}\n" in result.stderr


def test_a_quiet_answer_has_no_footnotes(stretto, tmp_path):
    result = stretto("ask", "What is the rent?", "-d", lease(tmp_path), "-q", script=READER, context_window=3_000)
    assert result.stderr == ""


def test_json_holds_citations_and_passages_and_no_footnotes(stretto, tmp_path):
    result = stretto("ask", "What is the rent?", "-d", lease(tmp_path), "--json", script=READER, context_window=3_000)
    answer = Answer.model_validate_json(result.stdout)
    assert [citation.quote for citation in answer.citations] == [FACT]
    assert len(answer.passages) > 1
    assert FACT not in result.stderr


@pytest.mark.thorough
def test_what_was_left_out_of_a_folder_is_told(stretto, tmp_path, forked_parsers):
    lease(tmp_path, repeated=2)
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    result = stretto("ask", "What is the rent?", "-d", str(tmp_path), script=READER)
    assert result.exit_code == 0, result.stderr
    assert "broken.pdf' was left out: it cannot be read as a PDF" in result.stderr


def test_each_passage_is_a_row_of_the_trace(stretto, tmp_path):
    options = ("-d", lease(tmp_path), "--trace")
    result = stretto("ask", "What is the rent?", *options, script=READER, context_window=3_000)
    assert "1 Terms, chars 0-" in result.stderr


def test_a_chat_reads_its_documents_once_and_asks_about_them_each_time(stretto, tmp_path):
    opened = []
    file = lease(tmp_path, repeated=2)
    result = stretto("chat", "-d", file, piped="What is the rent?\nAnd who says so?\n", script=READER, opened=opened)
    assert result.stdout == "Whole [Terms, chars 0-143].\n" * 2
    assert "1 document of 145 characters is read for every question" in result.stderr
    assert all(FACT in prompt.messages[-1].content for prompt, _ in opened[0].calls)


def test_the_progress_line_is_a_bar_of_the_passages_that_were_read():
    progress = Progress("scripted:model", lambda: 0.0, blocks=False)
    progress.see(RouteChosen(route=Route(strategy="document")))
    progress.see(BranchStarted(branch_id="passage-1", kind="passage", title="report"))
    assert progress.phrase() == "reading: waiting for scripted:model · 0.0 s"
    progress.see(PassageRead(record=PassageRecord(document=0, start=0, end=9), title="report", done=1, total=4))
    assert progress.phrase() == "reading #####--------------- 1 of 4 passages · 0.0 s"


def test_of_a_thousand_passages_the_trace_draws_the_first_the_last_and_those_that_failed():
    branches = tuple(
        Branch(
            id=f"passage-{number}",
            kind="passage",
            title="report",
            status="failed" if number == 500 else "finished",
            span=Span(needed_s=0.0, started_s=0.0, first_s=0.5, ended_s=1.0),
        )
        for number in range(1, 1001)
    )
    drawn = render_timeline(Answer(text="", route=Route(strategy="document"), branches=branches, timeline=Timeline()))
    rows = [line.plain for line in drawn]
    assert sum("█" in row for row in rows) == 42
    assert any(row.startswith("500 report") for row in rows)
    assert any("959 more passages" in row for row in rows)
