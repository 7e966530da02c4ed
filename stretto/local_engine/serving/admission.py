"""Which of the requests that wait to be read are read next, together."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["common_prefix", "next_wave"]

_FORWARD = 64  # prompt tokens that take about as long as a forward more
_WORTH_WAITING = 8


def next_wave(prompts: Sequence[tuple[int, ...]], known: Sequence[int], rows: int, *, packed: bool) -> list[int]:
    """Choose requests to be read together; at least one, the one with the least to read first.

    Reading a prompt together with others delays these, reading it later delays itself and those behind it: it is read
    with them where all requests together get their first token sooner. One that begins as a prompt being read does,
    beyond what is known of it, waits until it can copy that.

    Args:
        prompts: of the requests, at least one.
        known: tokens of each that need not be read.
        rows: to read in one forward at most, unless one prompt alone is longer.
        packed: whether a forward costs by the tokens there are. If not, by the longest of its sequences.
    """
    left = [len(prompt) - length for prompt, length in zip(prompts, known, strict=True)]
    chosen: list[int] = []
    total = 0
    order = sorted(range(len(prompts)), key=lambda number: left[number])
    for place, number in enumerate(order):
        own = left[number] if packed else left[number] * (len(chosen) + 1) - total
        if chosen and (total + own > rows or len(chosen) * own > (len(order) - place) * _FORWARD):
            break
        if any(_begin_alike(prompts[number], prompts[other], known[number]) for other in chosen):
            continue
        chosen.append(number)
        total += own
    return chosen


def _begin_alike(prompt: tuple[int, ...], other: tuple[int, ...], known: int) -> bool:
    if prompt[:_WORTH_WAITING] != other[:_WORTH_WAITING]:
        return False
    return common_prefix(prompt, other) - known >= _WORTH_WAITING


def common_prefix(prompt: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with, the last one of the first prompt, which is read in any case, left out."""
    limit = min(len(prompt) - 1, len(other))
    return next((place for place in range(limit) if prompt[place] != other[place]), limit)
