"""How a model writes a block of tokens at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["BlockForm", "Recognised", "Sight"]

Sight = Literal["block", "everything"]
"""What a row sees: its own block and all before it, or the whole text, behind it too."""


@dataclass(frozen=True, slots=True)
class BlockForm:
    """How a model writes a block of tokens at once.

    Positions that are not written yet hold a mask token. The model predicts all of them in one forward, some are kept,
    and the others are masked and predicted again.

    Attributes:
        family: what such models are called, for people.
        block: tokens of a block. Where rows see their block only, block number n lies at the positions from n * block
            on, counted from the prompt's first token, and the prompt is read in such blocks, too.
        mask: token id of a position that is not written yet.
        sight: what a row sees.
        shifted: a row predicts the token behind its own, as in a model that writes from left to right.
        joined: with shifted logits, the first forward of a block evaluates the finished block before it, too.
        part: positions of a block that are refined before those behind them; ``None`` for all of the block.
        canvas: transformers' own `generate` refines each block, from random tokens instead of masks.
        answer: tokens of an answer, where the request does not say: all of them are predicted in each forward if rows
            see everything. ``None`` where it does not matter.
    """

    family: str
    block: int
    mask: int
    sight: Sight = "block"
    shifted: bool = False
    joined: bool = False
    part: int | None = None
    canvas: bool = False
    answer: int | None = None

    @property
    def reads(self) -> int | None:
        """Prompt tokens that are read together, as whole blocks; ``None`` if none can be read before the answer."""
        return self.block if self.sight == "block" else None


@dataclass(frozen=True, slots=True)
class Recognised:
    """A model that writes blocks at once.

    Attributes:
        form: how it does; its mask is -1 where only the tokenizer knows it. ``None`` for one that is run from left to
            right (I-DLM).
        config: of the base architecture.
        names: replaces parts of the weights' names by those of the base: patterns and replacements.
    """

    form: BlockForm | None
    config: dict[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
