import json
from pathlib import Path

import pytest


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    rows = [{"question": f"What is {number} and 0?", "answer": str(number)} for number in range(2, 12)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return str(file)


MODELS = ("--small", "own:small", "--big", "own:big")


@pytest.mark.thorough
def test_it_prints_the_curve_and_keeps_what_it_learned(stretto, questions, tmp_path):
    out = tmp_path / "report.html"
    result = stretto("calibrate", questions, *MODELS, "--agreement", "0.8", "--out", str(out), script="It is 3.")
    assert result.exit_code == 0, result.stderr
    assert "10 of 10 questions answered; compared by the right answer 10." in result.stdout
    assert "own:small alone" in result.stdout
    assert "10 questions are few" in result.stdout
    assert "own:small" in out.read_text()
    shown = stretto("learned")
    assert "own:small before own:big" in shown.stdout
    assert "learned from 10 questions on" in shown.stdout
    [kept] = json.loads(stretto("learned", "--json").stdout)["cascades"]
    assert kept["questions"] == 10
    again = stretto("calibrate", questions, *MODELS, "--agreement", "0.8", "--out", str(out), script="Never asked.")
    assert again.exit_code == 0, again.stderr
    assert "Never asked." not in out.read_text()


@pytest.mark.thorough
def test_three_small_models_are_a_ladder_and_json_holds_everything(stretto, questions):
    ladder = [part for name in ("own:a", "own:b", "own:c") for part in ("--small", name)]
    result = stretto("calibrate", questions, *ladder, "--json", script="It is 3.")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["smaller"], found["answered"]) == (["own:a", "own:b", "own:c"], 10)
    assert found["learned"] is None
    assert found["caution"].startswith("10 questions are too few")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "There is no small model: name it with --small"),
        (("--small", "a:b", "--by", "hope"), "--by 'hope' cannot be used"),
        (("--small", "a:b", "--agreement", "2"), "goal=2.0 cannot be used"),
        (("--small", "a:b", "--out", "report.pdf"), "--out 'report.pdf' cannot be written"),
        (("--small", "a:b") * 4, "--small was given 4 times"),
    ],
)
def test_a_wrong_option_is_one_line(stretto, questions, arguments, words):
    result = stretto("calibrate", questions, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_file_it_says_what_is_missing(stretto):
    result = stretto("calibrate", "--small", "a:b")
    assert result.exit_code == 2
    assert "There is no file of questions." in result.stderr


def labelled(tmp_path, strategy, count=30):
    """Questions for advice, which the router would answer in points."""
    file = tmp_path / "labelled.jsonl"
    things = ("a bicycle", "a garden", "an old car", "a dog", "my back", "a first flat")
    verbs = ("look after", "save money on", "choose", "clean", "insure")
    rows = [f"What should I think about when I {verb} {thing}?" for verb in verbs for thing in things][:count]
    file.write_text("\n".join(json.dumps({"question": row, "strategy": strategy}) for row in rows))
    return str(file)


@pytest.mark.thorough
def test_somebody_who_wants_straight_answers_corrects_the_router(stretto, tmp_path):
    question = "What should I think about when I buy a boat?"
    before = json.loads(stretto("route", question, "--json").stdout)["probabilities"]["skeleton"]
    assert "no correction was learned" in stretto("route", question, "--explain").stdout
    result = stretto("calibrate", labelled(tmp_path, "direct"), "--router")
    assert result.exit_code == 0, result.stderr
    assert " helps: on held-out questions" in result.stdout
    assert json.loads(stretto("route", question, "--json").stdout)["probabilities"]["skeleton"] < before
    said = " ".join(stretto("route", question, "--explain").stdout.split())
    assert f"{before:.0%} sure of an outline before a correction of -" in said
    assert "router: a correction of -" in stretto("learned").stdout


def test_a_correction_that_does_not_help_is_refused(stretto, tmp_path):
    mixed = [json.loads(line) for line in Path(labelled(tmp_path, "skeleton")).read_text().splitlines()]
    for number, row in enumerate(mixed):
        row["strategy"] = ("skeleton", "skeleton", "direct")[number % 3]
    file = tmp_path / "mixed.jsonl"
    file.write_text("\n".join(map(json.dumps, mixed)))
    before = stretto("route", "What helps against noise?", "--json").stdout
    result = stretto("calibrate", str(file), "--router")
    assert "Nothing is kept." in result.stdout, result.stdout
    assert (
        json.loads(stretto("route", "What helps against noise?", "--json").stdout)["probabilities"]
        == (json.loads(before)["probabilities"])
    )
    few = stretto("calibrate", labelled(tmp_path, "direct", 7), "--router")
    assert "7 questions are too few to correct the router: 20 are needed." in few.stdout


def test_a_correction_is_learned_from_a_comparison(stretto, tmp_path):
    pairs = [
        {
            "question": {"question": f"What should I pack for a trip to {place}?"},
            "one": {"strategy": "skeleton"},
            "other": {"strategy": "direct"},
            "verdict": {"preferences": {"overall": "tie" if place == "Rome" else "other"}},
        }
        for place in ("Rome", *(f"town {number}" for number in range(24)))
    ]
    file = tmp_path / "report.json"
    file.write_text(json.dumps({"pairs": pairs}))
    assert "of 24 get the strategy that was wanted" in stretto("calibrate", str(file), "--router").stdout
    file.write_text('{"pairs": 3}')
    assert "is no report of a comparison" in stretto("calibrate", str(file), "--router").stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nothing", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"question": "Why?", "strategy": "items"}', "strategy"),
    ],
)
def test_a_wrong_label_is_one_line(stretto, tmp_path, line, words):
    file = tmp_path / "labelled.jsonl"
    file.write_text(line)
    result = stretto("calibrate", str(file), "--router")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: line 1 of ")
    assert words in result.stderr
