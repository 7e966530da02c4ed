import json

import pytest

SCRIPT = {"outline": "1. Oil the chain\n2. Pump the tyres\n3. Test the brakes", "point ": "Do it.", "": "Straight on."}


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


def test_json_holds_every_pair(stretto, questions):
    result = stretto("compare", questions, "-s", "skeleton", "--judge", "openai:any", "--json", script=SCRIPT)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [pair["question"]["id"] for pair in found["pairs"]] == ["q1", "q2"]
    assert found["sides"] == ["skeleton", "direct"]


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
