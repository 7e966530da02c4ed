"""Chooses the waiting requests whose prompts are read next, together."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["common_prefix", "next_wave"]

_FORWARD = 64  # prompt tokens that take about as long as one more forward
_WORTH_WAITING = 8


def next_wave(
    prompts: Sequence[tuple[int, ...]],
    known: Sequence[int],
    tokens: int,
    *,
    packed: bool,
    overdue: Sequence[bool] = (),
) -> list[int]:
    """Choose requests to be read together; at least one.

    The one with the least to read goes first. Reading a prompt together with others delays these; reading it later
    delays it and those behind it. So it is read with them where all requests together get their first token sooner.
    A prompt that begins like one that is being read waits until it can copy that part.

    Args:
        prompts: of the requests, at least one.
        known: tokens of each that need not be read.
        tokens: to read in one forward at most, unless one prompt alone is longer.
        packed: whether a forward costs by the tokens there are. If not, by the longest of its sequences.
        overdue: requests that others have gone before often enough; these go first.
    """
    left = [len(prompt) - length for prompt, length in zip(prompts, known, strict=True)]
    overdue = overdue or [False] * len(prompts)
    chosen: list[int] = []
    total = 0
    order = sorted(range(len(prompts)), key=lambda number: (not overdue[number], left[number]))
    for index, number in enumerate(order):
        longest = max((left[other] for other in chosen), default=0)
        own = left[number] if packed else max(longest, left[number]) * (len(chosen) + 1) - total
        if chosen and (total + own > tokens or len(chosen) * own > (len(order) - index) * _FORWARD):
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
    """How many tokens both begin with. The last token of the first prompt does not count: it is read in any case."""
    limit = min(len(prompt) - 1, len(other))
    return next((index for index in range(limit) if prompt[index] != other[index]), limit)
