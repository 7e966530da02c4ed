"""Errors that say what stopped a request, and what its sender can do."""

from __future__ import annotations

import torch

from stretto.errors import BackendError, StrettoError

__all__ = ["explain", "out_of_memory"]


def explain(error: BaseException, name: str, device: torch.device, fits: str = "") -> StrettoError:
    """Turn an exception that was raised while ``name`` generated on ``device`` into an error for the caller.

    ``fits`` says, in whole sentences, what would fit into memory.
    """
    if isinstance(error, StrettoError):
        return error
    if out_of_memory(error):
        return BackendError(
            f"{name} ran out of memory on {device}. Ask for fewer tokens, shorten the prompt "
            f"or send fewer requests at once.{f' {fits}' if fits else ''}",
            backend=name,
            transient=True,
        )
    return BackendError(f"{name} failed while generating: {type(error).__name__}: {error}", backend=name)


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed."""
    # torch has a special exception for GPUs only; on a CPU its allocator raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )
