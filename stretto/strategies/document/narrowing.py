"""Cuts passages smaller that mention the question's words often: the more a passage holds, the more a reader misses.

Only those passages are cut again. All others, and the numbers of all, are the same for every question, so that their
prompts can still be served from caches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from stretto.strategies.document.library import Place
from stretto.strategies.document.run import Reading
from stretto.strategies.document.sizes import USUAL_LEAST, useful_slots

__all__ = ["narrowed"]

_WORD = re.compile(r"\w{4,}")
_MOST_WORDS = 8  # of the question
_COMMON = 0.5  # share of the passages from which a word that stands in them does not tell them apart
_MENTIONS = 8  # of the question's words in a passage that is read whole
_MOST_PARTS = 8
_WAVES = 4  # one more wave of calls may come for this many: a quarter of the time


def narrowed(reading: Reading, places: Sequence[Place]) -> list[Place]:
    """These passages, dense ones in parts: one for every eight mentions of the question's words, from 400 tokens on.

    Words that stand in more than half of the passages do not count. The densest passages come first where there are
    more of them than calls: with the preference ``careful``, as many as the rate limits and the budget leave; with
    ``balanced``, those that run beside the others, and one wave for every four; with ``fastest``, none.
    """
    room = _room(reading, len(places))
    if room <= 0 or len(places) < 2:
        return list(places)
    mentions = dict(zip((place.number for place in places), _mentions(reading, places), strict=True))
    parted: dict[int, list[Place]] = {}
    for place in sorted(places, key=lambda place: -mentions[place.number] / max(1, place.chunk.tokens)):
        most = min(mentions[place.number] // _MENTIONS, place.chunk.tokens // USUAL_LEAST, _MOST_PARTS, room + 1)
        for wanted in range(most, 1, -1):
            parts = reading.parts(place, math.ceil(place.chunk.tokens / wanted))
            if len(parts) <= room + 1:  # whole paragraphs may fill more parts than are wanted
                parted[place.number] = parts
                room -= len(parts) - 1
                break
    return [part for place in places for part in parted.get(place.number, [place])]


def _room(reading: Reading, calls: int) -> int:
    """How many further calls there may be."""
    request, runner = reading.request, reading.runner
    if request.preference == "fastest":
        return 0
    slots = useful_slots(runner.capabilities, runner.measured())
    beside = -calls % slots + slots * (calls // slots // _WAVES)
    left = min(runner.limits_left().get("requests", math.inf), request.budget.max_calls or math.inf)
    most = math.inf if request.preference == "careful" else beside
    return int(min(most, left / 2 - calls, calls * _MOST_PARTS))  # half is kept for what is read again and put together


def _mentions(reading: Reading, places: Sequence[Place]) -> list[int]:
    """How often the question's words stand in each passage, also within longer words."""
    words = sorted(set(_WORD.findall(reading.request.question.lower())), key=len)[-_MOST_WORDS:]
    texts = [reading.library.text(place).lower() for place in places]
    counted = [[text.count(word) for text in texts] for word in words]
    telling = [counts for counts in counted if sum(map(bool, counts)) <= _COMMON * len(places)]
    return [sum(each) for each in zip(*telling, strict=True)] or [0] * len(places)
