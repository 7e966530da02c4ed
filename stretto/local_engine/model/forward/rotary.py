"""Rotary factors that depend on the length of the text.

LongRoPE (Ding et al., arXiv:2402.13753; Phi-3 and its successors) has two sets of factors: one for texts up to the
length of the first training, and one for longer texts, which then applies to all positions. transformers chooses the
set by the largest position of each forward. That is wrong where a long prompt is read in parts, where a draft crosses
the switch, and where a batch has texts on both sides of it. So the set is chosen here, for each sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from stretto.local_engine.model.forward.rows import Rows

_TWO_SETS = "longrope"
_LENGTH = "original_max_position_embeddings"


class Rotary:
    """The rotary modules of a model with two sets of factors. For any other model it has no effect.

    Args:
        model: of transformers.
        config: of its decoder.

    Attributes:
        switch: texts of more tokens use the long factors; ``None`` if the factors do not change.
        longest: maximum tokens of a text, if the factors change in a way that this class does not support.
    """

    def __init__(self, model: Any, config: Any) -> None:
        self.switch: int | None = None
        self.longest: int | None = None
        self._modules: list[tuple[Any, Tensor, Tensor]] = []  # with its short and long factors
        own = getattr(config, "rope_parameters", None) or {}
        sets = [each for each in (own, *own.values()) if isinstance(each, dict)]
        lengths = [each.get(_LENGTH) or config.max_position_embeddings for each in sets if _kind(each) == _TWO_SETS]
        if not lengths:
            return
        found = [module for module in model.modules() if getattr(module, "rope_type", None) == _TWO_SETS]
        if _kind(own) != _TWO_SETS or not found:
            self.longest = min(lengths)
            return
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415 - slow

        self.switch = lengths[0]
        for module in found:
            short = module.original_inv_freq
            long, _ = ROPE_INIT_FUNCTIONS[_TWO_SETS](module.config, short.device, seq_len=lengths[0] + 1)
            self._modules.append((module, short, long))

    def sides(self, rows: Rows) -> list[bool]:
        """Return whether the rows of each sequence use the long factors."""
        if self.switch is None:
            return [False] * len(rows.tokens)
        if rows.lengths is not None:
            return [length > self.switch for length in rows.lengths]
        return [last >= self.switch for last in rows.positions.amax(1).tolist()]

    @contextmanager
    def on(self, side: bool) -> Iterator[None]:
        """Set the long or the short factors, and keep transformers from choosing."""
        for module, short, long in self._modules:
            module.rope_type = "default"
            module.inv_freq.copy_(long if side else short)
        try:
            yield
        finally:
            for module, _, _ in self._modules:
                module.rope_type = _TWO_SETS


def _kind(parameters: dict[str, Any]) -> str | None:
    kind: str | None = parameters.get("rope_type", parameters.get("type"))
    return kind


def is_beyond(length: int, switch: int | None) -> bool:
    """Return whether a text of ``length`` tokens uses the long factors."""
    return switch is not None and length > switch


@contextmanager
def switched_early(config: Any, length: int) -> Iterator[None]:
    """Let the factors change at ``length`` tokens, so that a check need not read thousands."""
    own = getattr(config, "rope_parameters", None) or {}
    sets = [each for each in (own, *own.values()) if isinstance(each, dict) and _LENGTH in each]
    before, published = [each[_LENGTH] for each in sets], getattr(config, _LENGTH, None)
    for each in sets:
        each[_LENGTH] = min(length, each[_LENGTH])
    if sets and published is not None:  # Phi-3 stores it twice, and transformers copies this one over the other
        setattr(config, _LENGTH, min(length, published))
    try:
        yield
    finally:
        for each, value in zip(sets, before, strict=True):
            each[_LENGTH] = value
        if sets and published is not None:
            setattr(config, _LENGTH, published)
