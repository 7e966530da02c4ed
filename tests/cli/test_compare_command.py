import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from plans import ASKED, plan

SCRIPT = {
    ASKED: plan("Oil the chain", "Pump the tyres", "Test the brakes"),
    "Write the section": "Do it.",
    "": "Straight on.",
}


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text('"How do I look after a bicycle?"\n"How can I sleep better?"\n')
    return str(file)


def test_it_prints_a_table_and_writes_a_page(stretto, questions, tmp_path):
    out = tmp_path / "report.html"
    result = stretto("compare", questions, "--strategy", "skeleton", "--out", str(out), script=SCRIPT)
    assert result.exit_code == 0, result.stderr
    assert "2 of 2 questions asked, 2 written in different ways and compared" in result.stdout
    assert "times as long as direct." in result.stdout
    assert "Straight on." in out.read_text()
    again = stretto("compare", questions, "--strategy", "skeleton", "--out", str(out), script="Never asked.")
    assert again.exit_code == 0, again.stderr
    assert "Never asked." not in out.read_text()


def test_a_report_called_like_the_questions_leaves_them_as_they_are(stretto, questions, tmp_path):
    before = Path(questions).read_text()
    for script in (SCRIPT, "Never asked."):
        result = stretto(
            "compare", questions, "-s", "skeleton", "--out", str(tmp_path / "questions.html"), script=script
        )
        assert result.exit_code == 0, result.stderr
    assert Path(questions).read_text() == before
    assert "Never asked." not in (tmp_path / "questions.html").read_text()
    assert (tmp_path / "questions.kept.jsonl").exists()


@pytest.mark.parametrize("name", ["questions.json", "questions.html", "questions.kept.jsonl"])
def test_a_report_that_would_write_over_the_questions_is_refused(stretto, questions, name):
    file = Path(questions).rename(Path(questions).with_name(name))
    before = file.read_text()
    out = file if file.suffix != ".jsonl" else file.with_name("questions.html")
    result = stretto("compare", str(file), "-s", "skeleton", "--out", str(out), script=SCRIPT)
    assert result.exit_code == 2
    assert result.stderr == f"error: --out '{out}' would write over the questions. Name another file.\n"
    assert file.read_text() == before


def test_a_file_of_the_user_is_never_read_as_kept_work(stretto, questions, tmp_path):
    theirs = tmp_path / "report.kept.jsonl"
    theirs.write_text('{"mine": 1}\n')
    result = stretto("compare", questions, "-s", "skeleton", "--out", str(tmp_path / "report.html"), script=SCRIPT)
    assert result.exit_code == 2
    assert "holds other things. Name another file" in result.stderr
    assert "elete" not in result.stderr
    assert theirs.read_text() == '{"mine": 1}\n'


def test_off_a_terminal_the_progress_is_told_in_lines(stretto, questions):
    result = stretto("compare", questions, "-s", "skeleton", script=SCRIPT)
    assert re.findall(r"(\d) of 4 · (\S+) (\S+) · \d+ s", result.stderr) == [
        ("1", "q1", "direct"),
        ("2", "q2", "direct"),
        ("3", "q2", "skeleton"),
    ]


def test_few_questions_name_no_winner(stretto, questions):
    result = stretto("compare", questions, "-s", "skeleton", script=SCRIPT)
    rows = [line.split("  ") for line in result.stdout.splitlines()]
    (words,) = (line for line in result.stdout.splitlines() if line.startswith("words"))
    assert " to " not in words
    assert not [row for row in rows if row[-1].strip() in ("skeleton", "direct") and row[0] != "mean"]


@pytest.mark.thorough
def test_ctrl_c_names_the_file_and_the_command_that_goes_on(program, questions, tmp_path):
    out = tmp_path / "report.html"
    arguments = ("compare", questions, "-s", "skeleton", "--out", str(out))
    script = json.dumps({"sleep better": {"text": "Slow.", "delay_s": 600}} | SCRIPT)
    running = subprocess.Popen(program(script, *arguments), stderr=subprocess.PIPE, text=True)
    with running:
        for line in running.stderr:
            if line.startswith("2 of 4"):
                break
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert f"Finished work is kept in {tmp_path / 'report.kept.jsonl'}. Continue with:" in said
    assert f"stretto compare {questions} -s skeleton --out {out}" in said
    assert (tmp_path / "report.kept.jsonl").read_text().count('"sample"') == 2


def test_json_holds_every_pair(stretto, questions):
    result = stretto("compare", questions, "-s", "skeleton", "--judge", "openai:any", "--json", script=SCRIPT)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [pair["question"]["id"] for pair in found["pairs"]] == ["q1", "q2"]
    assert found["sides"] == ["skeleton", "direct"]
    assert set(found["not_counted"]) == {"q1", "q2"}  # this judge answers "Straight on."


def test_the_table_tells_the_judge_lengths_and_reasons(stretto, questions):
    def judged(prompt):
        first = prompt.messages[-1].content.partition("--- answer B")[0]
        if "bicycle" in first:
            return '{"overall": "A", "depth": "B"}'
        side = "A" if "Straight on." in first else "B"
        return json.dumps({"overall": side, "why": "\x1b[31mIt is shorter.", "depth": "tie", "strength": "slight"})

    script = {"You compare two answers": judged, **SCRIPT}
    result = stretto("compare", questions, "-s", "skeleton", "--judge", "openai:any", script=script)
    assert result.exit_code == 0, result.stderr
    told = [re.split(r"  +", line) for line in result.stdout.splitlines()]
    assert ["the judge prefers", "skeleton", "tie", "flipped", "direct", "win rate (95%)"] in told
    assert ["overall", "0", "0", "1", "1", "0.25"] in told
    assert ["depth", "0", "1", "1", "0", "0.50"] in told
    assert ["words (mean)", "17", "2"] in told
    assert ["q1", "flipped", "17", "2"] in told
    assert ["q2", "direct, slight", "17", "2", "[31mIt is shorter."] in told  # without the control character
    assert "1 of 2 overall verdicts flipped with the order of the answers, and count for neither side." in result.stdout
    assert "\x1b" not in result.stdout


def test_a_judge_that_cannot_be_read_is_told(stretto, questions):
    result = stretto("compare", questions, "-s", "skeleton", "--judge", "openai:any", script=SCRIPT)
    assert result.exit_code == 0, result.stderr
    assert "2 verdicts are not counted, because the judge failed or its reply could not be read" in result.stdout
    assert "The first: The reply names no overall preference: 'Straight on.'." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "much"), "--budget 'much' is no amount"),
        (("--budget", "-3"), "no amount"),
        (("--out", "report.pdf"), "--out 'report.pdf' cannot be written"),
        (("--strategy", "direct"), "Both sides are 'direct'"),
        (("--strategy", "dirct"), "dirct"),
    ],
)
def test_a_wrong_option_is_one_line(stretto, questions, arguments, words):
    result = stretto("compare", questions, *arguments, script=SCRIPT)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_without_questions_is_one_line(stretto, tmp_path):
    result = stretto("compare", str(tmp_path / "none.jsonl"))
    assert result.exit_code == 2
    assert "cannot be read: No such file" in result.stderr
