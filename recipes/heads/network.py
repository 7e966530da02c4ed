"""What all heads are: networks that guess several tokens ahead, and say them in a small vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from recipes.heads.target import Seen, Target

__all__ = ["Head", "Sizes", "matrix", "normed", "shifted_by"]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a head.

    Attributes:
        depth: tokens that it guesses.
        inner: units of its feed-forward layer.
    """

    depth: int
    inner: int


class Head(nn.Module, ABC):
    """Guesses, at each token of a text, the tokens after the next one, which the model itself predicts.

    Args:
        target: the frozen model.
        words: the tokens that the head can say, ascending # [words]
        sizes: of the head.

    Attributes:
        unembedding: the output matrix, which begins as the model's own # [words, hidden]
    """

    words: Tensor
    unembedding: Tensor

    reads_lower = True
    """Whether it reads states below the last one."""

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.register_buffer("words", words)
        self.unembedding = nn.Parameter(target.output[words].float())

    @abstractmethod
    def states(self, seen: Seen) -> list[Tensor]:
        """A state for each guess # [depth][batch, tokens, hidden].

        The state of guess k at token i is what the head says of token ``i + 2 + k``, having read the text up to token
        i, and at most the tokens up to ``i + 1 + k``.
        """

    @abstractmethod
    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """The tensors under the names of the format on disk, and what its ``config.json`` says."""

    def logits(self, states: Tensor) -> Tensor:
        """What states say of each of the head's words # [..., hidden] -> [..., words]."""
        return linear(states, self.unembedding)


def shifted_by(sequence: Tensor, steps: int) -> Tensor:
    """Each place gets what is ``steps`` later; zeros where the text has ended # [batch, tokens, ...]."""
    moved = torch.zeros_like(sequence)
    moved[:, : sequence.shape[1] - steps] = sequence[:, steps:]
    return moved


def matrix(rows: int, columns: int, scale: float = 1.0) -> nn.Parameter:
    """A matrix to be trained, with normal numbers."""
    return nn.Parameter(torch.randn(rows, columns) * scale / columns**0.5)


def normed(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """The root-mean-square norm over the last axis, in float32."""
    states = states.float()
    return states * torch.rsqrt(states.square().mean(-1, keepdim=True) + epsilon) * weight
