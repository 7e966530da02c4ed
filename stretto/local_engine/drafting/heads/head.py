"""What the drafter asks of a head, of whatever kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

__all__ = ["Head", "Reader"]


class Reader(Protocol):
    """A head at work on one sequence. All logits are over the head's own vocabulary, see `Head.words`.

    Attributes:
        sure: the probability that the head itself gives the best token of each row of its last logits; ``None`` where
            the logits say it.
        begins: position of the first row that it reads; set before that.
    """

    sure: Sequence[float] | None
    begins: int

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """Take in committed rows: the model's hidden states, and the token that follows each.

        Args:
            tokens: that follow the rows.
            states: of the layers that the head names, side by side # [rows, layers * hidden]
        """
        ...

    def first(self) -> Tensor:
        """Begin a draft: logits of what follows the last token read # [1, words]."""
        ...

    def behind(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        """Follow some nodes of the draft.

        Args:
            tokens: of the nodes.
            parents: for each node, the one that it follows, by the order in which nodes were given since `first`; -1
                for those of depth 1.

        Returns:
            logits of what follows each # [nodes, words]; ``None`` where the head looks no further ahead.
        """
        ...


class Head(Protocol):
    """The weights of a head, which all sequences share."""

    @property
    def kind(self) -> str:
        """What it is called."""
        ...

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose hidden states it reads; see `LayerStates`."""
        ...

    @property
    def words(self) -> Tensor | None:
        """The model's token for each of its own; ``None`` where they are the same # [words]."""
        ...

    @property
    def foresees(self) -> int | None:
        """Tokens that it is made to look ahead; ``None`` where it has no limit of its own."""
        ...

    def reader(self) -> Reader:
        """Begin a sequence."""
        ...
