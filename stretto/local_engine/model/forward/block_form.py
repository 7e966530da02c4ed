"""How a model writes a block of tokens at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Sight = Literal["block", "everything"]
"""What a row sees: its own block and all before it, or the whole text, including what follows."""


@dataclass(frozen=True, slots=True)
class BlockForm:
    """How a model writes a block of tokens at once.

    Positions that are not written yet contain a mask token. The model predicts all of them in one forward. Some are
    kept, and the others are masked and predicted again.

    Attributes:
        family: human-readable name of such models.
        block: tokens of a block. If rows see only their block, block number n starts at position n * block, counted
            from the prompt's first token, and the prompt is read in such blocks, too.
        mask: token id of a position that is not written yet.
        sight: what a row sees.
        shifted: a row predicts the token after its own, as in a model that writes from left to right.
        joined: with shifted logits, the first forward of a block also evaluates the finished block before it.
        part: positions of a block that are refined before those after them; ``None`` for all of the block.
        canvas: transformers' own `generate` refines each block, from random tokens instead of masks.
        answer: default tokens of an answer: all of them are predicted in each forward if rows see everything. ``None``
            if it does not matter.
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
    """A recognised model that writes blocks at once.

    Attributes:
        form: how it writes them; its mask is -1 if only the tokenizer knows it. ``None`` for a model that is run from
            left to right (I-DLM).
        config: of the base architecture.
        names: patterns and replacements that turn the weights' names into those of the base.
    """

    form: BlockForm | None
    config: dict[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
