"""Options that parts of an answer do not get as they are: ``stop``, ``max_tokens`` and ``part_tokens``."""

from __future__ import annotations

from stretto.request import Request
from stretto.strategies.runner import Runner

__all__ = ["share_of", "tell_limits"]


def tell_limits(request: Request, runner: Runner) -> None:
    """Warn about ``stop``, which parts do not get."""
    if request.options.stop:
        runner.warn("stop was left out: it would cut parts in the middle. Ask with strategy='direct' to have it.")


def share_of(request: Request, wanted: int, parts: int) -> int:
    """The most tokens of one of so many parts that wants this many: at most its share of ``max_tokens``."""
    most = request.options.max_tokens
    return wanted if most is None else min(wanted, max(1, most // max(1, parts)))
