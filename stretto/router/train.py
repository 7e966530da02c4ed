"""Train the shape model: ``python -m stretto.router.train`` writes ``model.npz`` from the rows of ``data/``.

Needs scikit-learn (the ``dev`` extra); the router itself does not.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stretto.router.features import cues
from stretto.router.rows import SHAPES, Row, load
from stretto.router.shape import FORMAT, ShapeModel

MINIMUM_ROWS = 2
STRENGTH = 10.0
FOLDS = 5
TARGET = Path(__file__).with_name("model.npz")
Arrays = dict[str, NDArray[Any]]


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
        from scipy.sparse import csr_matrix

        indices = [[self.index[cue] for cue in bag if cue in self.index] for bag in bags]
        values = []
        for row in indices:
            weights = self.idf[row]
            values.append(weights / max(float(np.sqrt((weights**2).sum())), 1e-9))
        ends = np.cumsum([0, *map(len, indices)])
        data = np.concatenate(values) if values else np.zeros(0)
        return csr_matrix((data, np.concatenate(indices).astype(int), ends), shape=(len(bags), len(self.index)))


def weight(row: Row) -> float:
    """How much a row counts: doubtful labels less, rows near to real traffic more."""
    return (1.0 if row.origin == "collected" else 0.7) * (0.5 if row.certainty == 1 else 1.0)


def fit_heads(rows: Sequence[Row], bags: Sequence[Sequence[str]]) -> tuple[Vocabulary, NDArray[Any], NDArray[Any]]:
    """Vocabulary, coefficients [cues, shapes + 1] and bias [shapes + 1] of both heads."""
    from sklearn.linear_model import LogisticRegression

    vocabulary = Vocabulary.of(bags)
    matrix = vocabulary.matrix(bags)
    weights = [weight(row) for row in rows]
    shapes = LogisticRegression(C=STRENGTH, max_iter=400)
    shapes.fit(matrix, [SHAPES.index(row.shape) for row in rows], weights)
    skeleton = LogisticRegression(C=STRENGTH, max_iter=400).fit(matrix, [row.skeleton for row in rows], weights)
    coefficients = np.vstack([shapes.coef_, skeleton.coef_]).T
    return vocabulary, coefficients, np.concatenate([shapes.intercept_, skeleton.intercept_])


def out_of_fold(rows: Sequence[Row], bags: Sequence[Sequence[str]], seed: int = 0) -> NDArray[Any]:
    """Scores [rows, shapes + 1] of every row from heads that have not seen it."""
    from sklearn.model_selection import StratifiedKFold

    scores = np.zeros((len(rows), len(SHAPES) + 1))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for seen, unseen in folds.split(np.zeros(len(rows)), [f"{row.shape}{row.skeleton}" for row in rows]):
        vocabulary, coefficients, bias = fit_heads([rows[i] for i in seen], [bags[i] for i in seen])
        scores[unseen] = vocabulary.matrix([bags[i] for i in unseen]) @ coefficients + bias
    return scores


def calibrate(rows: Sequence[Row], scores: NDArray[Any]) -> Arrays:
    """Temperature of the shapes (Guo et al., 1706.04599), Platt's slope and offset, and thresholds by preference.

    Fitted on out-of-fold scores. "balanced" maximises F1; "careful" minimises the cost of errors with
    a false positive at 0.7 and a false negative at 0.3, as Skeleton-of-Thought weighs them; "fastest" at 0.3 and 0.7.
    """
    from sklearn.linear_model import LogisticRegression

    weights = np.array([weight(row) for row in rows])
    truth = np.array([row.skeleton for row in rows])
    platt = LogisticRegression(C=1e6).fit(scores[:, -1:], truth, weights)
    slope, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    probabilities = 1 / (1 + np.exp(-(slope * scores[:, -1] + offset)))
    return {
        "temperature": np.array(
            _temperature(scores[:, :-1], np.array([SHAPES.index(row.shape) for row in rows]), weights)
        ),
        "platt": np.array([slope, offset]),
        "thresholds": np.array(thresholds(truth, probabilities, weights)),
    }


def thresholds(truth: NDArray[Any], probabilities: NDArray[Any], weights: NDArray[Any]) -> tuple[float, float, float]:
    """Thresholds for "fastest", "balanced" and "careful", ascending."""
    candidates = np.arange(0.15, 0.86, 0.01)
    f1, loose, strict = [], [], []
    for candidate in candidates:
        said = probabilities >= candidate
        hits, false = weights[said & truth].sum(), weights[said & ~truth].sum()
        missed = weights[~said & truth].sum()
        f1.append(2 * hits / (2 * hits + false + missed))
        loose.append(0.3 * false + 0.7 * missed)
        strict.append(0.7 * false + 0.3 * missed)
    balanced = _flat_top(candidates, np.array(f1))
    fastest = min(_flat_top(candidates, -np.array(loose)), balanced - 0.05)
    return (
        round(fastest, 3),
        round(balanced, 3),
        round(max(_flat_top(candidates, -np.array(strict)), balanced + 0.05), 3),
    )


def _flat_top(candidates: NDArray[Any], values: NDArray[Any]) -> float:
    """The middle of all candidates within 1% of the best: steadier than the best alone."""
    return float(np.median(candidates[values >= values.max() - 0.01 * abs(values.max())]))


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
    vocabulary, coefficients, bias = fit_heads(rows, bags)
    weighted = coefficients * vocabulary.idf[:, None]
    scale = np.abs(weighted).max(axis=0) / 127
    return {
        "format": np.array(FORMAT),
        "cues": np.frombuffer("\n".join(vocabulary.index).encode(), dtype=np.uint8),
        "weights": np.round(weighted / scale).astype(np.int8),
        "idf": vocabulary.idf.astype(np.float16),
        "scale": scale.astype(np.float32),
        "bias": bias.astype(np.float32),
        **calibrate(rows, out_of_fold(rows, bags)),
    }


def main() -> None:
    """Train on all rows and write the model beside this module."""
    rows = load()
    arrays = train(rows)
    np.savez_compressed(TARGET, **arrays)  # type: ignore[arg-type]  # the stub takes the names for allow_pickle
    model = ShapeModel(arrays)
    said = ", ".join(f"{name} {value:.2f}" for name, value in model.thresholds.items())
    sys.stdout.write(
        f"{len(rows)} rows, {len(arrays['idf'])} cues, {TARGET.stat().st_size / 1024:.0f} kB in {TARGET.name}; thresholds: {said}\n"
    )


if __name__ == "__main__":
    main()
