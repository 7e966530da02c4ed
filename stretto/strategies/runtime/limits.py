"""How long parts may get, and options that they do not get as they are: ``stop``, ``max_tokens``, ``part_tokens``."""

from __future__ import annotations

from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request

__all__ = ["ROOM", "THINKING", "TOKENS_PER_WORD", "share_of", "tell_limits"]

TOKENS_PER_WORD = 2.0  # allows for other languages and for code
ROOM = 3  # a part is cut at this multiple of its budget
THINKING = 2_000  # tokens a reasoning model may spend before it writes; providers count them as completion tokens


def tell_limits(request: Request, runner: Runner) -> None:
    """Warn about ``stop``, which parts do not get."""
    if request.options.stop:
        runner.warn(
            "stop was left out: it would cut parts in the middle. Ask with strategy='direct' to have it.", "option"
        )


def share_of(request: Request, wanted: int, parts: int) -> int:
    """The most tokens of one of so many parts that wants this many: at most its share of ``max_tokens``."""
    most = request.options.max_tokens
    return wanted if most is None else min(wanted, max(1, most // max(1, parts)))
