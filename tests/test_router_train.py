from collections import defaultdict

import pytest

pytest.importorskip("sklearn", reason="training needs scikit-learn, of the dev extra")

import numpy as np

from recipes.router import compare, evaluate
from recipes.router.baselines import binary, keywords, perceptron, words
from recipes.router.evaluate import Verdicts, calibration_error, report
from recipes.router.rows import GENERAL, Row, is_left_out, load, read
from recipes.router.train import thresholds, train
from stretto.backends.base import Capabilities
from stretto.router import Router, ShapeModel
from stretto.router.parse import wants_finished_list
from stretto.testing import ScriptedBackend
from stretto.values.request import Request

BY_POINTS = Capabilities(prompt_family="pocket")  # whose answers are in parts wherever that suits


@pytest.fixture(scope="module")
def few():
    """A few rows of every class."""
    found = defaultdict(list)
    for row in load():
        if len(found[row.label]) < 8 and not row.late:
            found[row.label].append(row)
    return [row for rows in found.values() for row in rows]


@pytest.mark.thorough
def test_a_trained_model_judges_what_it_was_trained_on(few):
    model = ShapeModel(train(few))
    right = sum(model.judge(row.prompt).shape == row.shape for row in few)
    assert right > 0.8 * len(few)


@pytest.mark.thorough
def test_the_report_sets_the_model_beside_the_baselines(few, monkeypatch):
    monkeypatch.setattr(evaluate, "FOLDS", 2)
    monkeypatch.setattr(evaluate, "INNER_FOLDS", 2)
    lines = []
    report(few, lines.append)
    text = "".join(lines)
    for name in ("always", "never", "keywords", "TF-IDF + logistic", "this model", "expected error", "labelled as"):
        assert name in text


@pytest.mark.parametrize("scorer", [keywords, words, binary, perceptron])
def test_every_other_form_gives_probabilities(scorer, few):
    said = scorer(few, few[:10])
    assert said.shape == (10,)
    assert ((said >= 0) & (said <= 1)).all()


def test_keywords_say_yes_to_lists_and_no_to_prose():
    rows = [
        Row("Tips for sleeping well", "points", True, "authored"),
        Row("Write a poem of tips", "prose", False, "authored"),
    ]
    assert keywords([], rows).tolist() == [1.0, 0.0]


def test_thresholds_rise_with_care():
    truth = np.array([False] * 60 + [True] * 40)
    probability = np.linspace(0.05, 0.95, 100)
    fastest, balanced, careful = thresholds(truth, probability, np.ones(100))
    assert fastest < balanced < careful


def test_saying_yes_always_finds_all_and_flags_all():
    truth = np.array([True, False, False, False])
    line = Verdicts.constant("always", 4, 1.0).line(truth, np.ones(4, dtype=bool)).split()
    assert line == ["always", "0.250", "1.000", "0.400", "0.500", "1.000"]


@pytest.mark.parametrize(("claimed", "error"), [(0.5, 0.0), (0.9, 0.4)])
def test_calibration_error_is_the_gap_between_claim_and_share(claimed, error):
    truth = np.array([True, False] * 10)
    assert calibration_error(np.full(20, claimed), truth) == pytest.approx(error)


def test_questions_of_every_kind_that_nothing_was_trained_on_get_what_serves_them():
    router, backend = Router(), {"main": ScriptedBackend({}, name="openai:any", capabilities=BY_POINTS)}
    chosen = {row: router.decide(Request.of(row.prompt), backend).strategy == "skeleton" for row in read(GENERAL)}
    assert len([row for row, yes in chosen.items() if row.skeleton and not yes]) <= 4  # with all rows trained on, 5
    assert len([row for row, yes in chosen.items() if yes and not row.skeleton]) <= 3


@pytest.mark.parametrize(
    "question",
    [
        *("Which ocean lies between Africa and Australia?", "Which sea lies between Italy and Greece?"),
        *("Wie heißt der längste Fluss Europas?", "Quelle est la capitale du Portugal ?"),
        *("¿Qué océano separa España de México?", "Qual è la montagna più alta d'Italia?"),
        *("Qual é o maior país da América do Sul?", "スペインの首都はどこですか？", "世界上最长的河流是哪条？"),
    ],
)
def test_a_question_for_one_fact_gets_a_line_and_no_outline(question):
    assert question not in {row.prompt for row in load(everything=True)}
    route = Router().decide(
        Request.of(question), {"main": ScriptedBackend({}, name="openai:any", capabilities=BY_POINTS)}
    )
    assert (route.strategy, route.shape) == ("direct", "short")


def test_general_questions_are_not_trained_on():
    known = {row.prompt.casefold() for row in load(everything=True)}
    assert [row.prompt for row in read(GENERAL) if row.prompt.casefold() in known] == []


def test_lists_with_a_dependent_end_that_are_not_trained_on_are_found_by_patterns():
    left_out = [row for row in load(everything=True) if is_left_out(row)]
    assert not any(map(is_left_out, load()))
    dependent = [row for row in left_out if row.shape == "steps"]
    found = [row for row in dependent if wants_finished_list(row.prompt)]
    assert len(found) >= 0.9 * len(dependent) > 20
    plain = [row for row in left_out if row.skeleton]
    assert [row.prompt for row in plain if wants_finished_list(row.prompt)] == []


@pytest.mark.thorough
def test_states_of_the_rows_are_set_beside_each_other(few, monkeypatch):
    late = [row for row in load(everything=True) if row.late][::40]
    monkeypatch.setattr(compare, "load", lambda *, everything: [*few, *late])
    monkeypatch.setattr(compare, "DRAWS", 20)
    lines = []
    found = compare.measure(compare.STATES, (0, 1), lines.append)
    compare.tables(found, lines.append)
    text = "".join(lines)
    for name in ("before", "all rows", "now", "collected", "general questions", "points: 97 rows, 97 true", "Arabic"):
        assert name in text
    assert found["before"]["rows"] < found["now"]["rows"] < found["all rows"]["rows"]
