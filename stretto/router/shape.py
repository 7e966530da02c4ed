"""Predicts the shape of an answer and whether a skeleton suits it: a linear model over named cues.

One softmax over nine classes (`CLASSES`: a shape, and for lists whether a skeleton suits) reads a bag of cues
(`features`), so that both predictions share what they learn. The weights are 8-bit integers; a judgement is one
look-up per cue and one sum over the rows found. The probabilities are calibrated on out-of-fold predictions.
Learned routers in front of a strategy: Skeleton-of-Thought with a router (arXiv 2307.15337), RouteLLM (2406.18665).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any, get_args

from stretto.route import Shape
from stretto.router.features import cues

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHAPES: tuple[Shape, ...] = get_args(Shape)
CLASSES: tuple[tuple[Shape, bool], ...] = (*((shape, False) for shape in SHAPES), ("points", True), ("items", True))
"""The classes of the model: a shape, and for lists whether a skeleton suits."""
FORMAT = 2
MINIMUM_KNOWN = 3
_BESIDE_SHAPES = CLASSES[len(SHAPES) :]


@dataclass(frozen=True)
class Judgement:
    """The model's prediction for a prompt.

    Attributes:
        shapes: calibrated probability of each shape; they sum to 1.
        skeleton: calibrated probability that an outline with parallel points suits.
        known: number of cues in the model's vocabulary, except those of structure. With few, the prediction is
            `unsure`.
        votes: the cues in the vocabulary, and what each says for each class # [cues, classes]
    """

    shapes: Mapping[str, float]
    skeleton: float
    known: int
    votes: tuple[Sequence[str], NDArray[Any]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def shape(self) -> Shape:
        """The most probable shape."""
        return max(SHAPES, key=self.shapes.__getitem__)

    @cached_property
    def next_shape(self) -> Shape:
        """The second most probable shape."""
        return max((shape for shape in SHAPES if shape != self.shape), key=self.shapes.__getitem__)

    def decisive(self, count: int) -> list[tuple[str, float]]:
        """The cues that spoke most for the most probable shape and against the next one, strongest first."""
        if self.votes is None:
            return []
        found, votes = self.votes
        sums = votes.sum(axis=0).tolist()
        wins, loses = (
            max((number for number, (shape, _) in enumerate(CLASSES) if shape == name), key=sums.__getitem__)
            for name in (self.shape, self.next_shape)
        )
        shares = (votes[:, wins] - votes[:, loses]).tolist()
        best = sorted(range(len(shares)), key=shares.__getitem__, reverse=True)[:count]
        return [(found[place], shares[place]) for place in best if shares[place] > 0]

    @property
    def unsure(self) -> bool:
        """Whether too little of the prompt was recognised for the probabilities to be meaningful."""
        return self.known < MINIMUM_KNOWN


class ShapeModel:
    """A trained model, made from the arrays that ``python -m recipes.router.train`` writes."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        if int(arrays["format"]) != FORMAT:
            raise ValueError(
                f"The router model has format {int(arrays['format'])}, this version reads {FORMAT}. "
                "Train it again: python -m recipes.router.train"
            )
        names = arrays["cues"].tobytes().decode().split("\n")
        # Most frequent first, so that the cues of most texts are close together in memory.
        order = arrays["idf"].argsort(kind="stable")
        names = "\n".join([names[row] for row in order]).split("\n")
        self._index: dict[str, int] = {name: row for row, name in enumerate(names)}
        self._temperature = float(arrays["temperature"])
        self._scale: list[float] = arrays["scale"].astype(float).tolist()  # [classes]
        self._scales = arrays["scale"].astype("float32")
        self._bias: list[float] = (arrays["bias"].astype(float) / self._temperature).tolist()  # [classes]
        # Small integers, whose sums are exact in any order; then the squares for the norm, and a 1 for each cue that is
        # not structural.
        squares = arrays["idf"][order].astype("float32") ** 2
        plain = np.array([not name.startswith("=") for name in names])
        self._table: NDArray[np.float32] = np.column_stack(
            [arrays["weights"][order], squares, plain]
        )  # [cues, classes + 2]
        self._ones = np.ones(len(names), "float32")
        self._slope, self._offset = arrays["platt"].astype(float).tolist()
        self.thresholds: dict[str, float] = dict(
            zip(("fastest", "balanced", "careful"), arrays["thresholds"].astype(float).tolist(), strict=True)
        )

    @classmethod
    @cache
    def committed(cls) -> ShapeModel:
        """The library's own model, loaded once."""
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        with np.load(BytesIO(files("stretto.router").joinpath("model.npz").read_bytes()), allow_pickle=False) as arrays:
            return cls(dict(arrays))

    def judge(self, prompt: str) -> Judgement:
        """Judge a prompt. Any text is accepted; an empty one gives the prior and ``known`` 0."""
        index = self._index
        found = [cue for cue in cues(prompt) if cue in index]
        fired = [index[cue] for cue in found]
        scores, known, votes = self._bias, 0.0, None
        if count := len(fired):
            # A product with ones is five times as fast as sum() for so few rows.
            rows = self._table.take(fired, axis=0)
            *sums, square, known = self._ones[:count].dot(rows).tolist()
            unit = 1 / (math.sqrt(square) * self._temperature)
            scores = [
                total * unit * scale + bias for total, scale, bias in zip(sums, self._scale, self._bias, strict=True)
            ]
            votes = (found, rows[:, : len(CLASSES)] * self._scales)
        classes = _softmax(scores)
        shapes: dict[str, float] = dict(zip(SHAPES, classes, strict=False))  # the classes without a skeleton come first
        served = 0.0
        for (shape, skeleton), probability in zip(_BESIDE_SHAPES, classes[len(SHAPES) :], strict=True):
            shapes[shape] += probability
            served += probability if skeleton else 0.0
        return Judgement(shapes, _sigmoid(self._slope * _logit(served) + self._offset), int(known), votes)

    def explain(self, prompt: str, count: int = 8) -> list[tuple[str, float]]:
        """Return the cues with the largest influence on the skeleton decision, strongest first.

        Each comes with its share of the log-odds between points that suit a skeleton and all other classes.
        """
        fired = {cue: self._table[self._index[cue]].tolist() for cue in cues(prompt) if cue in self._index}
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
