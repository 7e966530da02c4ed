"""One model over several processes of a machine, each with a device of its own; see `docs/several-devices.md`.

No several GPUs have run this. On shared cores it gains nothing: a step of one row takes 52 ms by `tensor_parallel=2`
and 27 by `pipeline_parallel=2`, instead of 23 (``benchmarks/results/several_devices.md``).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stretto.local_engine.research_registry import Offers

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["OFFERS"]


def _load(*arguments: Any, **options: Any) -> LoadedModel:
    from stretto.local_engine.research.several_devices.divided_model import load_divided  # noqa: PLC0415 - torch

    return load_divided(*arguments, **options)


OFFERS = Offers(load_divided=_load)
