from collections import defaultdict

import pytest

pytest.importorskip("sklearn", reason="training needs scikit-learn, of the dev extra")

import numpy as np

from recipes.router import evaluate
from recipes.router.baselines import binary, keywords, perceptron, words
from recipes.router.evaluate import Verdicts, calibration_error, report
from recipes.router.rows import Row, load
from recipes.router.train import thresholds, train
from stretto.router import ShapeModel


@pytest.fixture(scope="module")
def few():
    """A few rows of every class."""
    found = defaultdict(list)
    for row in load():
        if len(found[row.label]) < 8 and not row.late:
            found[row.label].append(row)
    return [row for rows in found.values() for row in rows]


def test_a_trained_model_judges_what_it_was_trained_on(few):
    model = ShapeModel(train(few))
    right = sum(model.judge(row.prompt).shape == row.shape for row in few)
    assert right > 0.8 * len(few)


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
