"""Predict the shape of an answer and whether a skeleton suits it: a linear model over named cues.

One softmax over nine classes (`CLASSES`: a shape, and for lists whether a skeleton suits) reads a bag of cues
(`features`), so both predictions share what they learn. The weights are 8-bit integers; a judgement adds up those of
its cues. The probabilities are calibrated on out-of-fold predictions.
Related learned routers: Skeleton-of-Thought with a router (arXiv 2307.15337), RouteLLM (2406.18665).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from stretto.foundation.lazy import lazy
from stretto.router.features import Vocabulary, cues
from stretto.values.route import Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHAPES: tuple[Shape, ...] = get_args(Shape)
CLASSES: tuple[tuple[Shape, bool], ...] = (*((shape, False) for shape in SHAPES), ("points", True), ("items", True))
"""The classes of the model: a shape, and for lists whether a skeleton suits."""
FORMAT = 2
MINIMUM_KNOWN = 3
_OF_SHAPE = {name: [number for number, (shape, _) in enumerate(CLASSES) if shape == name] for name in SHAPES}
_OTHER_CLASSES = CLASSES[len(SHAPES) :]


class Votes(NamedTuple):
    """The weights of a prompt's cues.

    Attributes:
        names: its cues that are in the vocabulary.
        rows: the weight of each of these for each class, in units of the class # [cues, classes and more]
        scales: the units # [classes]
        totals: the sum over all cues # [classes]
    """

    names: Sequence[str]
    rows: NDArray[Any]
    scales: NDArray[Any]
    totals: Sequence[float]


@dataclass(frozen=True)
class Judgement:
    """The model's prediction for a prompt.

    Attributes:
        shapes: calibrated probability of each shape; they sum to 1.
        skeleton: calibrated probability that an outline with parallel points suits.
        known: number of cues in the model's vocabulary, except structural ones. With few, the prediction is `unsure`.
        votes: the weights of its cues; ``None`` if it has none.
    """

    shapes: Mapping[str, float]
    skeleton: float
    known: int
    votes: Votes | None = field(default=None, compare=False, repr=False)

    @lazy
    def shape(self) -> Shape:
        return max(SHAPES, key=self.shapes.__getitem__)

    @lazy
    def next_shape(self) -> Shape:
        """The second most probable shape."""
        return max((shape for shape in SHAPES if shape != self.shape), key=self.shapes.__getitem__)

    def decisive(self, count: int) -> list[tuple[str, float]]:
        """Return the cues that most favoured the most probable shape over the next one, strongest first."""
        if (votes := self.votes) is None:
            return []
        wins, loses = (max(_OF_SHAPE[shape], key=votes.totals.__getitem__) for shape in (self.shape, self.next_shape))
        shares = votes.rows[:, wins] * votes.scales[wins] - votes.rows[:, loses] * votes.scales[loses]
        best = (-shares).argsort(kind="stable")[:count].tolist()
        return [(votes.names[each], share) for each in best if (share := shares.item(each)) > 0]

    @property
    def unsure(self) -> bool:
        """Whether too little of the prompt was recognised for meaningful probabilities."""
        return self.known < MINIMUM_KNOWN


class ShapeModel:
    """A trained model, built from the arrays that ``python -m recipes.router.train`` writes."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        if int(arrays["format"]) != FORMAT:
            raise ValueError(
                f"The router model has format {int(arrays['format'])}, this version reads {FORMAT}. "
                "Train it again: python -m recipes.router.train"
            )
        names = arrays["cues"].tobytes().decode().split("\n")
        # Most frequent first, so that the rows of most texts are close together in memory.
        order = arrays["idf"].argsort(kind="stable")
        names = [names[row] for row in order]
        self._rows = {name: row for row, name in enumerate(names)}
        self._vocabulary = Vocabulary.of(self._rows)
        self._temperature = float(arrays["temperature"])
        self._scale: list[float] = arrays["scale"].astype(float).tolist()  # [classes]
        self._scales = arrays["scale"].astype("float32")
        self._bias: list[float] = (arrays["bias"].astype(float) / self._temperature).tolist()  # [classes]
        # Small integers, whose sums are exact in any order; then the squares for the norm, and a 1 for each cue that is
        # not structural.
        squares = arrays["idf"][order].astype("float32") ** 2
        plain = np.array([not name.startswith("=") for name in names])
        # [cues, classes + 2]
        self._table: NDArray[np.float32] = np.column_stack([arrays["weights"][order], squares, plain])
        self._ones = np.ones(len(names), "float32")
        self._slope, self._offset = arrays["platt"].astype(float).tolist()
        self.thresholds: dict[str, float] = dict(
            zip(("fastest", "balanced", "careful"), arrays["thresholds"].astype(float).tolist(), strict=True)
        )

    @classmethod
    @cache
    def committed(cls) -> ShapeModel:
        """Return the library's model, loaded once."""
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        with np.load(BytesIO(files("stretto.router").joinpath("model.npz").read_bytes()), allow_pickle=False) as arrays:
            return cls(dict(arrays))

    def judge(self, prompt: str) -> Judgement:
        """Judge a prompt. Any text is accepted; an empty one yields the prior and ``known`` 0."""
        names, rows = self._known(prompt)
        scores, known, votes = self._bias, 0.0, None
        if names:
            # A product with ones is five times as fast as sum() for so few rows.
            *sums, square, known = self._ones[: len(names)].dot(rows).tolist()
            unit = 1 / (math.sqrt(square) * self._temperature)
            totals = [total * unit * scale for total, scale in zip(sums, self._scale, strict=True)]
            scores = [total + bias for total, bias in zip(totals, self._bias, strict=True)]
            votes = Votes(names, rows, self._scales, totals)
        classes = _softmax(scores)
        shapes: dict[str, float] = dict(zip(SHAPES, classes, strict=False))  # the classes without a skeleton come first
        served = 0.0
        for (shape, skeleton), probability in zip(_OTHER_CLASSES, classes[len(SHAPES) :], strict=True):
            shapes[shape] += probability
            served += probability if skeleton else 0.0
        return Judgement(shapes, _sigmoid(self._slope * _logit(served) + self._offset), int(known), votes)

    def _known(self, prompt: str) -> tuple[list[str], NDArray[np.float32]]:
        """Return the cues of a prompt that are in the vocabulary, and their rows."""
        names = [*filter(self._rows.__contains__, cues(prompt, self._vocabulary))]
        rows = [*map(self._rows.__getitem__, names)]
        return names, self._table.take(rows, axis=0) if rows else self._table[:0]

    def explain(self, prompt: str, count: int = 8) -> list[tuple[str, float]]:
        """Return the cues with the largest influence on the skeleton decision, strongest first.

        Each comes with its share of the log-odds between points that suit a skeleton and all other classes.
        """
        names, rows = self._known(prompt)
        fired = dict(zip(names, rows.tolist(), strict=True))
        norm = math.sqrt(sum(row[len(CLASSES)] for row in fired.values())) or 1.0
        points = CLASSES.index(("points", True))
        shares = []
        for cue, row in fired.items():
            weights = [weight * scale for weight, scale in zip(row[: len(CLASSES)], self._scale, strict=True)]
            others = (sum(weights) - weights[points]) / (len(CLASSES) - 1)
            shares.append((cue, (weights[points] - others) / norm))
        return sorted(shares, key=lambda share: -abs(share[1]))[:count]


def _softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def _sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, score))))


def _logit(probability: float) -> float:
    bounded = min(max(probability, 1e-9), 1 - 1e-9)
    return math.log(bounded / (1 - bounded))
