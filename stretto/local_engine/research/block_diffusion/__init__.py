"""Models that write blocks at once: masked positions are refined until a block is complete.

Supported are the published formats: SDAR, Fast-dLLM v2, LLaDA, Dream and DiffusionGemma. None of their weights have
been run here. Measured with the pocket model trained to write blocks of 8 tokens, on one core: an answer takes half
the time of decoding token by token; eight answers at once take 5.9 times as long as one, with the causal model 3.1
times (``benchmarks/results/parallel.md``).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.local_engine.research.block_diffusion.formats import check_diffusion, checked_form, recognised
from stretto.local_engine.research.block_diffusion.unmasking import RULES, rule_names, rules_for
from stretto.local_engine.research_registry import BlockModels, Offers

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.forward import Forward
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.serving.batch_members import BatchMembers

__all__ = ["OFFERS"]


def _block_forward(model: Any) -> Forward:
    from stretto.local_engine.research.block_diffusion.block_batch import BlockForward  # noqa: PLC0415 - torch

    return BlockForward(model)


def _batch(model: LoadedModel, cancelled: Callable[[int], bool]) -> BatchMembers[Any]:
    from stretto.local_engine.research.block_diffusion.block_batch import BlockBatch, BlockForward  # noqa: PLC0415 - torch
    from stretto.local_engine.research.block_diffusion.diffusion_batch import DiffusionBatch  # noqa: PLC0415 - torch

    if isinstance(model.forward, BlockForward):
        return BlockBatch(model.forward, cancelled)
    assert model.diffusion is not None  # noqa: S101 - the caller has checked; for the type checker
    return DiffusionBatch(model.forward, model.device, model.diffusion)


OFFERS = Offers(
    blocks=BlockModels(
        rules=RULES,
        recognised=recognised,
        rule_names=rule_names,
        rules_for=rules_for,
        check=check_diffusion,
        checked_form=checked_form,
        block_forward=_block_forward,
        batch=_batch,
    )
)
