"""The questions of the benchmark on real models, what it finds in texts, and what its table makes of that."""

import sys

import measuring
import pytest
import real
from real_findings import FLAWS, Row, faults, findings
from real_questions import HELD_OUT, LANGUAGES, Asked, questions

from stretto.prompts import Catalogue

ASKED = Asked("What are the advantages of travelling by train?", "en", points=True)
GOOD = (
    "1. **Comfort**: You can walk around, read a book and look out of the window.\n"
    "2. **Price**: Tickets that are bought early often cost less than fuel does.\n"
    "3. **Climate**: A train needs little energy for each of its passengers."
)


def test_there_are_sixty_questions_and_half_of_them_ask_for_points():
    every = questions()
    assert len({each.question for each in every}) == 60
    assert len(LANGUAGES) == 6
    assert sum(each.points for each in every) == 30
    assert all(sum(each.language == name for each in every) == 10 for name in LANGUAGES)


def test_a_good_answer_has_no_fault():
    assert faults(GOOD, ASKED) == ()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("placeholder", GOOD.replace("Price", "Title of the second point")),
        ("title twice", GOOD.replace("Climate", "Comfort")),
        ("loop", GOOD + " It is very quiet." * 3),
        ("language", "Man kann im Zug lesen und schlafen, und es ist nicht teuer, wenn man früh bucht."),
    ],
)
def test_a_fault_is_found(fault, text):
    assert fault in faults(text, ASKED)


def test_a_line_of_any_prompt_is_found_unless_the_question_has_it():
    line = max((line for template in Catalogue() for line in template.text.splitlines() if "{" not in line), key=len)
    assert "prompt" in faults(f"{GOOD}\n\n{line}", ASKED)
    assert "prompt" not in faults(f"{GOOD}\n\n{line}", Asked(f"What does this mean: {line}", "en", points=True))


def row(question, way, written="direct", *, routed=None, seconds=1.0, faults=(), points=True):
    return Row(question, "en", points, 0.0, way, routed or written, written, seconds, 1, 9, faults, (), "so", "text")


def held(found):
    return [each.held for each in found]


def test_the_bars_are_held_by_good_answers_and_missed_by_others():
    rows = [row("a", "direct", faults=("loop",)), row("a", "auto", "skeleton", seconds=0.5, faults=())]
    assert held(findings(rows, "auto")) == [True, None, True, True, None]
    assert held(findings(rows, "direct")) == [True, None]
    rows = [
        *(row("a", "direct"), row("a", "auto", "skeleton", seconds=1.2, faults=("prompt",))),
        *(row("b", "direct"), row("b", "auto", routed="skeleton", seconds=1.4)),
    ]
    assert held(findings(rows, "auto")) == [False, False, False, False, None]


def test_answers_under_a_second_are_left_out_of_one_row_and_the_noise_of_straight_ones_is_shown():
    rows = [row("a", "direct", seconds=0.2), row("a", "auto", seconds=0.4), row("b", "direct"), row("b", "auto")]
    *_, every, longer, noise = findings(rows, "auto")
    assert (every.held, longer.held) == (False, True)
    assert noise.measured == "1.00 (1.00-1.00 of 1)"


def test_held_out_questions_are_no_others():
    assert not {each.question for each in HELD_OUT} & {each.question for each in questions()}


def test_a_run_goes_on_where_it_ended_and_only_if_it_is_the_same(tmp_path, monkeypatch):
    for module in (measuring, real):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    run = real.Run.of("some", {"model": "local:smollm2", "asked": 2})
    run.rows += [row("a", "direct"), row("a", "auto", "skeleton", seconds=0.5)]
    run.keep()
    again = real.Run.of("some", run.head)
    assert (again.rows, again.begun) == (run.rows, 2)
    assert [again.has(Asked(name, "en", points=True), 0.0) for name in ("a", "b")] == [True, False]
    with pytest.raises(SystemExit, match="another run"):
        real.Run.of("some", {"model": "local:other", "asked": 2})


def test_several_runs_share_a_table(tmp_path, monkeypatch, capsys):
    for module in (measuring, real):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(real.console, "file", sys.stdout)
    for name, model in (("here", "local:smollm2"), ("there", "llamacpp:smollm2")):
        rows = [row("a", "direct"), row("a", "auto", "skeleton", seconds=0.8)]
        real.Run(name, {"model": model, "asked": 1}, rows).keep()
    real.show_together(["here", "there"])
    shown = capsys.readouterr().out
    assert "llamacpp, 0, 1" in shown


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_misses_the_first_bar(flaw):
    rows = [row("a", "direct"), row("a", "auto", "failed" if flaw == "failed" else "skeleton", faults=(flaw,))]
    assert findings(rows, "auto")[0].held is False
    assert flaw in findings(rows, "auto")[0].measured
