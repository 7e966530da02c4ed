"""Errors that say what stopped a request and what its sender can do."""

from __future__ import annotations

import torch

from stretto.values.errors import BackendError, StrettoError


class NoNumberError(ArithmeticError):
    """The logits of a request are NaN or infinite."""


def explain(
    error: BaseException, name: str, device: torch.device, fits: str = "", *, shared: bool = False
) -> StrettoError:
    """Convert an exception raised while ``name`` generated on ``device`` to an error for the caller.

    ``fits`` says, in whole sentences, what would fit into memory. With ``shared``, the error goes to callers who must
    not learn of each other. The message can be about one caller's request, so only the exception's type is reported.
    """
    if isinstance(error, StrettoError) and not shared:
        return error
    if out_of_memory(error):
        return BackendError(
            f"{name} ran out of memory on {device}. Ask for fewer tokens, shorten the prompt "
            f"or send fewer requests at once.{f' {fits}' if fits else ''}",
            backend=name,
            transient=True,
        )
    if isinstance(error, NoNumberError):
        return BackendError(
            f"{name} computed NaN or an infinite number. Its weights or those of an adapter are damaged, or too large "
            "for its dtype. Copy or download them again, or choose dtype='float32'.",
            backend=name,
        )
    message = "" if shared else f": {error}"
    return BackendError(f"{name} failed while generating: {type(error).__name__}{message}", backend=name)


def out_of_memory(error: BaseException) -> bool:
    """Return whether the error is a failed allocation."""
    # torch has its own exception for GPUs only; on a CPU its allocator raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )
