"""Sets of functions that are compiled together, each with a trial that compiles it by running it once."""

from __future__ import annotations

from dataclasses import dataclass

BLOCKS = "blocks"
"""The kind of low-bit weights; see `stretto.local_engine.kernels.block_kinds`."""

_TRIALS = "stretto.local_engine.kernels.trials"


@dataclass(frozen=True, slots=True)
class Part:
    """Functions that are compiled together.

    Attributes:
        name: of the part, and of a file.
        trial: ``module:function``, which calls each function once with small inputs; it needs no torch.
        arguments: of the trial.
    """

    name: str
    trial: str
    arguments: tuple[str, ...] = ()


CHOOSING = Part("choosing", f"{_TRIALS}:choose")
"""The functions that find the most probable tokens and draw one."""


def product(weights: str) -> Part:
    """Return the part for products with weights of a kind; see `stretto.local_engine.kernels.trials.KINDS`."""
    if weights == BLOCKS:
        return Part(f"product-{weights}", "stretto.local_engine.kernels.block_trials:multiply")
    return Part(f"product-{weights}", f"{_TRIALS}:multiply", (weights,))


def forward(weights: str) -> Part:
    """Return the part for a forward with weights of a kind."""
    return Part(f"forward-{weights}", f"{_TRIALS}:forward", (weights,))


def changed_forward(weights: str) -> Part:
    """Return the part for a forward with unmerged low-rank changes of weights of a kind."""
    return Part(f"forward-{weights}-changes", "stretto.local_engine.kernels.changes:trial", (weights,))
