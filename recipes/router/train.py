"""Train the shape model: ``python -m recipes.router.train`` writes ``model.npz`` from the rows of ``data/``.

Needs scikit-learn (the ``dev`` extra); the router itself does not.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from recipes.router.rows import Row, load
from stretto import router
from stretto.router.features import cues
from stretto.router.shape import CLASSES, FORMAT, ShapeModel

MINIMUM_ROWS = 2
STRENGTH = 10.0
TOLERANCE = 1e-4  # at 1e-3, a few rows more or less moved single prompts by 0.2
FLAT = 0.01
STEPS = 300  # of the solver
FOLDS = 5
TARGET = Path(router.__file__).with_name("model.npz")
Arrays = dict[str, NDArray[Any]]
Weigh = Callable[[Row], float]


@dataclass(frozen=True)
class Vocabulary:
    """Cues seen in enough rows, structural ones first, with their inverse document frequency."""

    index: dict[str, int]
    idf: NDArray[np.float64]

    @classmethod
    def of(cls, bags: Sequence[Sequence[str]]) -> Vocabulary:
        """The vocabulary of some bags of cues."""
        counts = Counter(cue for bag in bags for cue in bag)
        kept = [cue for cue, count in counts.items() if count >= MINIMUM_ROWS and "\n" not in cue]
        kept.sort(key=lambda cue: (not cue.startswith("="), cue))
        idf = np.array([np.log((1 + len(bags)) / (1 + counts[cue])) + 1 for cue in kept])
        return cls({cue: row for row, cue in enumerate(kept)}, idf.astype("float16").astype("float64"))

    def matrix(self, bags: Sequence[Sequence[str]]) -> Any:
        """Rows of unit length, one per bag, as a sparse matrix [bags, cues]."""
        indices = [[self.index[cue] for cue in bag if cue in self.index] for bag in bags]
        values = []
        for row in indices:
            weights = self.idf[row]
            values.append(weights / max(float(np.sqrt((weights**2).sum())), 1e-9))
        ends = np.cumsum([0, *map(len, indices)])
        data = np.concatenate(values) if values else np.zeros(0)
        return csr_matrix((data, np.concatenate(indices).astype(int), ends), shape=(len(bags), len(self.index)))


def weight(row: Row) -> float:
    """How much a row counts: doubtful labels less, rows near to real traffic more, rows written where errors lay least.

    How-to questions, single facts and rows in many languages are one family after the other and repeat their form: at
    0.5, they moved what is judged of other questions (``python -m recipes.router.compare --groups``).
    """
    near = 1.0 if row.origin == "collected" else 0.7
    if row.late:
        near = 0.25 if row.repeats else 0.5
    return near * (0.5 if row.certainty == 1 else 1.0)


def fit(
    rows: Sequence[Row], bags: Sequence[Sequence[str]], *, steps: int = STEPS, weigh: Weigh = weight
) -> tuple[Vocabulary, NDArray[Any], NDArray[Any]]:
    """Vocabulary, coefficients [cues, classes] and bias [classes] of a softmax regression, after ``steps`` at most."""
    vocabulary = Vocabulary.of(bags)
    model = LogisticRegression(C=STRENGTH, max_iter=steps, tol=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer steps are taken to compare rows
        model.fit(vocabulary.matrix(bags), [row.label for row in rows], [weigh(row) for row in rows])
    return vocabulary, model.coef_.T, model.intercept_


def out_of_fold(
    rows: Sequence[Row],
    bags: Sequence[Sequence[str]],
    folds: int = FOLDS,
    *,
    seed: int = 0,
    steps: int = STEPS,
    weigh: Weigh = weight,
) -> NDArray[Any]:
    """Scores [rows, classes] of every row from a model that has not seen it."""
    scores = np.zeros((len(rows), len(CLASSES)))
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for seen, unseen in splits.split(np.zeros(len(rows)), [row.label for row in rows]):
        vocabulary, coefficients, bias = fit([rows[i] for i in seen], [bags[i] for i in seen], steps=steps, weigh=weigh)
        scores[unseen] = vocabulary.matrix([bags[i] for i in unseen]) @ coefficients + bias
    return scores


def calibrate(rows: Sequence[Row], scores: NDArray[Any], *, flat: float | None = None) -> Arrays:
    """Temperature of the softmax (Guo et al., 1706.04599), Platt's slope and offset for the skeleton, thresholds.

    Fitted on out-of-fold scores of the rows nearest to real traffic: those not written after errors were seen.
    """
    plain = np.array([not row.late for row in rows])
    rows, scores = [row for row in rows if not row.late], scores[plain]
    weights = np.array([weight(row) for row in rows])
    truth = np.array([row.skeleton for row in rows])
    temperature = _temperature(scores, np.array([row.label for row in rows]), weights)
    logits = skeleton_logits(scores / temperature)
    platt = LogisticRegression(C=1e6).fit(logits[:, None], truth, weights)
    slope, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    return {
        "temperature": np.array(temperature),
        "platt": np.array([slope, offset]),
        "thresholds": np.array(thresholds(truth, 1 / (1 + np.exp(-(slope * logits + offset))), weights, flat)),
    }


def skeleton_logits(scores: NDArray[Any]) -> NDArray[Any]:
    """Log-odds that a skeleton serves [rows], from the scores [rows, classes]."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    served = np.array([skeleton for _, skeleton in CLASSES])
    yes, no = powers[:, served].sum(axis=1), powers[:, ~served].sum(axis=1)
    return np.asarray(np.log(np.maximum(yes, 1e-12)) - np.log(np.maximum(no, 1e-12)))


def thresholds(
    truth: NDArray[Any], probabilities: NDArray[Any], weights: NDArray[Any], flat: float | None = None
) -> tuple[float, float, float]:
    """Thresholds for "fastest", "balanced" and "careful", ascending.

    "balanced" maximises F1. "careful" minimises the cost of errors with a false positive at 0.7 and a false negative at
    0.3, as Skeleton-of-Thought (2307.15337) weighs them; "fastest" with the two weights exchanged.
    """
    candidates = np.arange(0.15, 0.86, 0.01)
    f1, loose, strict = [], [], []
    for candidate in candidates:
        accepted = probabilities >= candidate
        hits, false = weights[accepted & truth].sum(), weights[accepted & ~truth].sum()
        missed = weights[~accepted & truth].sum()
        f1.append(2 * hits / (2 * hits + false + missed))
        loose.append(0.3 * false + 0.7 * missed)
        strict.append(0.7 * false + 0.3 * missed)
    # Where probabilities are calibrated, F1 is greatest at half its value (Lipton et al., 1402.1892). That value hardly
    # moves with some rows more; the place of the best moved from .42 to .49, where F1 begins to fall.
    balanced = max(f1) / 2 if flat is None else _flat_top(candidates, np.array(f1), flat)
    fastest = min(_flat_top(candidates, -np.array(loose)), balanced - 0.05)
    return (
        round(fastest, 3),
        round(balanced, 3),
        round(max(_flat_top(candidates, -np.array(strict)), balanced + 0.05), 3),
    )


def _flat_top(candidates: NDArray[Any], values: NDArray[Any], flat: float = FLAT) -> float:
    """The middle of all candidates within a share of the best: steadier than the best alone."""
    return float(np.median(candidates[values >= values.max() - flat * abs(values.max())]))


def _temperature(scores: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any]) -> float:
    def loss(temperature: float) -> float:
        scaled = scores / temperature
        scaled = scaled - scaled.max(axis=1, keepdims=True)
        logs = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
        return float(-(weights * logs[np.arange(len(labels)), labels]).sum())

    return float(min(np.arange(0.4, 3.01, 0.05), key=loss))


def train(rows: Sequence[Row], bags: Sequence[Sequence[str]] | None = None) -> Arrays:
    """The arrays of a model trained on the rows, calibrated, with 8-bit weights."""
    bags = [cues(row.prompt) for row in rows] if bags is None else bags
    return pack(*fit(rows, bags), calibrate(rows, out_of_fold(rows, bags)))


def pack(vocabulary: Vocabulary, coefficients: NDArray[Any], bias: NDArray[Any], calibrated: Arrays) -> Arrays:
    """The arrays of a model, with 8-bit weights."""
    weighted = coefficients * vocabulary.idf[:, None]
    scale = np.abs(weighted).max(axis=0) / 127
    return {
        "format": np.array(FORMAT),
        "cues": np.frombuffer("\n".join(vocabulary.index).encode(), dtype=np.uint8),
        "weights": np.round(weighted / scale).astype(np.int8),
        "idf": vocabulary.idf.astype(np.float16),
        "scale": scale.astype(np.float32),
        "bias": bias.astype(np.float32),
        **calibrated,
    }


def main() -> None:
    """Train on all rows and write the model next to this module."""
    rows = load()
    arrays = train(rows)
    np.savez_compressed(TARGET, **arrays)  # type: ignore[arg-type]  # the stub takes the names for allow_pickle
    model = ShapeModel(arrays)
    shown = ", ".join(f"{name} {value:.2f}" for name, value in model.thresholds.items())
    size = TARGET.stat().st_size / 1024
    sys.stdout.write(
        f"{len(rows)} rows, {len(arrays['idf'])} cues, {size:.0f} kB in {TARGET.name}; thresholds: {shown}\n"
    )


if __name__ == "__main__":
    main()
