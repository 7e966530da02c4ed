"""Warnings about options that apply to each part of an answer instead of the whole."""

from __future__ import annotations

from stretto.request import Request
from stretto.strategies.fan_out import FanOut

__all__ = ["tell_limits"]


def tell_limits(request: Request, runner: FanOut) -> None:
    """Warn about ``stop``, which parts do not get, and ``max_tokens``, which limits each part."""
    if request.options.stop:
        runner.warn("stop was left out: it would cut parts in the middle. Ask with strategy='direct' to have it.")
    if (limit := request.options.max_tokens) is not None:
        runner.warn(
            f"max_tokens={limit} limits each part of this answer, not all of it together. "
            "Ask with strategy='direct' to limit the whole."
        )
