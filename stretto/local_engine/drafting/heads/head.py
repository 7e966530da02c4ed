"""Interface between the drafter and heads of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Reader(Protocol):
    """A head's state for one sequence. All logits are over the head's vocabulary; see `Head.words`.

    Attributes:
        sure: the head's explicit probability of the best token in each row of its last logits; ``None`` if it follows
            from the logits.
        begins: position of the first row that it reads; set before reading.
    """

    sure: Sequence[float] | None
    begins: int

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """Read committed rows: the model's hidden states, and the token that follows each.

        Args:
            tokens: the tokens that follow the rows.
            states: concatenated states of the layers that the head names # [rows, layers * hidden]
        """
        ...

    def first(self) -> Tensor:
        """Begin a draft, and return the logits after the last token read # [1, words]."""
        ...

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        """Return the logits after some nodes of the draft.

        Args:
            tokens: tokens of the nodes.
            parents: parent of each node, numbered in the order in which nodes were passed since `first`; -1 for nodes
                of depth 1.

        Returns:
            the logits after each node # [nodes, words]; ``None`` if the head cannot look further ahead.
        """
        ...


class Head(Protocol):
    """Weights of a head, shared by all sequences."""

    @property
    def kind(self) -> str:
        """Name of its kind."""
        ...

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers whose hidden states it reads; see `LayerStates`."""
        ...

    @property
    def words(self) -> Tensor | None:
        """The model's token id for each of the head's; ``None`` if they are the same # [words]."""
        ...

    @property
    def foresees(self) -> int | None:
        """Number of tokens that it can look ahead; ``None`` if it has no limit."""
        ...

    def reader(self) -> Reader:
        """Return a reader for a new sequence."""
        ...
