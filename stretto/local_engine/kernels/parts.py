"""What is compiled together: a part, and the trial that has it compiled and runs it once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHOOSING", "Part", "forward", "product"]

_TRIALS = "stretto.local_engine.kernels.trials"


@dataclass(frozen=True, slots=True)
class Part:
    """Some compiled functions.

    Attributes:
        name: of the part, and of a file.
        trial: ``module:function``, which calls each of them once with small numbers; it needs no torch.
        arguments: of the trial.
    """

    name: str
    trial: str
    arguments: tuple[str, ...] = ()


CHOOSING = Part("choosing", f"{_TRIALS}:choose")
"""Finding the most probable tokens, and drawing one."""


def product(weights: str) -> Part:
    """Products with weights of one kind: a key of `stretto.local_engine.kernels.trials.KINDS`."""
    return Part(f"product-{weights}", f"{_TRIALS}:multiply", (weights,))


def forward(embedding: str, weights: str, pads: str) -> Part:
    """A forward; kinds of its input vectors, of its weights and of those of its adapter for [PAD] rows."""
    return Part(f"forward-{embedding}-{weights}-{pads}", f"{_TRIALS}:forward", (embedding, weights, pads))
