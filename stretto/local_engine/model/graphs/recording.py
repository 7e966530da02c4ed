"""Records the steps of a model as CUDA graphs while it is loaded, where that is wanted and possible."""

from __future__ import annotations

import logging

import torch

from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward, Recorder, cuda_recorder
from stretto.values.errors import SettingsError

__all__ = ["recorded", "refuse_elsewhere"]

_SHARE = 4  # recorded steps may take one in four of the slots that fit into memory
_SECONDS = 8.0
_log = logging.getLogger(__name__)


def refuse_elsewhere(wanted: bool | None, device: torch.device) -> None:
    """Raise `SettingsError` where recording is asked for on a device that has no CUDA graphs."""
    if wanted and device.type != "cuda":
        raise SettingsError(f"cuda_graphs=True cannot be used on {device}. Leave it out, or choose device='cuda'.")


def recorded(
    forward: Forward,
    device: torch.device,
    *,
    wanted: bool | None,
    tolerance: float,
    slots: int,
    longest: int,
    record: Recorder | None = None,
    seconds: float = _SECONDS,
) -> tuple[Forward, int]:
    """Record the steps of a forward, unless that is not wanted or fails.

    Args:
        forward: of the model; only the lean one is recorded.
        device: of the model.
        wanted: by the user; ``None`` records on a CUDA device.
        tolerance: by which logits may differ, in standard deviations.
        slots: of keys and values that fit into memory; a quarter is set aside.
        longest: slots that one sequence may need.
        record: how to record, if not as CUDA graphs.
        seconds: after which no further step is recorded; it is recorded when it first occurs.

    Returns:
        the forward to use, and how many slots are left for others.
    """
    if wanted is False or device.type != "cuda":
        return forward, slots
    if not isinstance(forward, LlamaForward):
        _log.log(
            logging.WARNING if wanted else logging.INFO,
            "CUDA graphs are not used: only models of the Llama family are recorded",
        )
        return forward, slots
    reserved = slots // _SHARE
    graphed = GraphedForward(forward, record or cuda_recorder(device), most_slots=reserved, tolerance=tolerance)
    with torch.inference_mode():
        graphed.warm_up(device, longest=longest, seconds=seconds)
    return (graphed, slots - reserved) if graphed.works else (forward, slots)
