"""Texts that were written side by side, joined without reading them again: for the strategy `forking`.

Measured with `local:pocket-forking` on two busy cores: behind the paths of an answer 12 tokens are read instead of 386
(``benchmarks/results/parallel.md``). No published model has run here.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stretto.local_engine.research_registry import Offers, PathJoining

if TYPE_CHECKING:
    from stretto.local_engine.serving.prefill import Prefill

__all__ = ["OFFERS"]


def _can_join(forward: Any) -> bool:
    from stretto.local_engine.research.joined_paths.joined_prefill import can_join  # noqa: PLC0415 - torch

    return can_join(forward)


def _prefill(*arguments: Any, **options: Any) -> Prefill:
    from stretto.local_engine.research.joined_paths.joined_prefill import JoinedPrefill  # noqa: PLC0415 - torch

    return JoinedPrefill(*arguments, **options)


OFFERS = Offers(joining=PathJoining(can_join=_can_join, prefill=_prefill))
