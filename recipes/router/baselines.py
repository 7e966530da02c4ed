"""What the shape model is compared with: keywords, and the usual text classifiers. Needs scikit-learn."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from recipes.router.rows import Row
from recipes.router.train import Vocabulary, weight
from stretto.router.features import cues

Scorer = Callable[[Sequence[Row], Sequence[Row]], NDArray[Any]]
"""Trains on the first rows and gives the probability that a skeleton serves each of the second."""

_KEYWORDS = re.compile(
    r"\b(?:tips|advice|ways|reasons|causes|effects|consequences|impacts?|pros|cons|advantages|disadvantages|benefits|"
    r"drawbacks|differences?|compare|explain|describe|discuss|overview|suggest|recommend|ideas|strategies|factors|"
    r"challenges|what if|how can|how could|why do|guide)\b",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"\b(?:write|poem|story|essay|email|letter|code|python|function|program|script|calculate|solve|prove|translate|"
    r"rewrite|summari[sz]e|recipe|how many|how much)\b",
    re.IGNORECASE,
)


def keywords(_: Sequence[Row], asked: Sequence[Row]) -> NDArray[Any]:
    """Say yes where a word of lists occurs in the prompt and no word of prose, code or sums does. Learns nothing."""
    return np.array([float(bool(_KEYWORDS.search(row.prompt)) and not _AGAINST.search(row.prompt)) for row in asked])


def words(seen: Sequence[Row], asked: Sequence[Row]) -> NDArray[Any]:
    """Word 1-2-grams by TF-IDF and logistic regression: the floor that comes with the data."""
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    matrix = vectors.fit_transform([row.prompt for row in seen])
    model = LogisticRegression(C=10.0, max_iter=200).fit(matrix, [row.skeleton for row in seen])
    return _yes(model, vectors.transform([row.prompt for row in asked]))


def binary(seen: Sequence[Row], asked: Sequence[Row]) -> NDArray[Any]:
    """The cues of the model under one logistic head that knows nothing of shapes."""
    matrix, unseen = _vectors(seen, asked)
    model = LogisticRegression(C=10.0, max_iter=120, tol=1e-3)
    return _yes(model.fit(matrix, [row.skeleton for row in seen], [weight(row) for row in seen]), unseen)


def perceptron(seen: Sequence[Row], asked: Sequence[Row]) -> NDArray[Any]:
    """The cues of the model under a perceptron with one hidden layer of 16, over the same nine classes."""
    matrix, unseen = _vectors(seen, asked)
    model = MLPClassifier((16,), alpha=1e-3, max_iter=8, learning_rate_init=4e-3, batch_size=64, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early on purpose
        model.fit(matrix, [f"{row.shape} {row.skeleton}" for row in seen])
    served = np.array([name.endswith("True") for name in model.classes_])
    return np.asarray(model.predict_proba(unseen)[:, served].sum(axis=1))


def _vectors(seen: Sequence[Row], asked: Sequence[Row]) -> tuple[Any, Any]:
    bags = [cues(row.prompt) for row in seen]
    vocabulary = Vocabulary.of(bags)
    return vocabulary.matrix(bags), vocabulary.matrix([cues(row.prompt) for row in asked])


def _yes(model: Any, matrix: Any) -> NDArray[Any]:
    return np.asarray(model.predict_proba(matrix)[:, 1])
