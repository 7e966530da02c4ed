"""Smaller passages where a text is dense in what the question asks for: the more a passage holds, the more is missed.

Only those passages are cut anew. All others, and how all are numbered, stay what they are for every question, so that
their prompts can still be served from caches.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Sequence
from itertools import count
from statistics import median_low

from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.reading.chain import MOST_IN_ORDER
from stretto.strategies.document.sizes import USUAL_LEAST, useful_slots

__all__ = ["narrowed"]

_WORD = re.compile(r"\w{4,}")
_PAIR = re.compile(r"(?=([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}))")  # of letters, in scripts of words as short
_MOST_WORDS, _MOST_PAIRS = 8, 24  # of the question
_STEM = 0.7  # of a word: "invoices" and "invoice", "termination" and "terminate" begin alike
_SHORTEST_STEM = 4
_USUAL = 2  # mentions that are no more than so many times as frequent as in most passages tell nothing
_MENTIONS = 16  # in a passage from which it is cut in two
_WAVES = 4  # one more wave of calls may come for this many: a quarter of the time
_MOST_TIMES = 4  # the calls that there would be otherwise


def narrowed(reading: DocumentRun, places: Sequence[Place]) -> list[Place]:
    """Cut the dense ones of these passages in two again and again, the densest first, not below 400 tokens.

    A passage is dense that mentions the question's words sixteen times beyond what is usual, which is twice their share
    in the middle one of all passages. With the preference ``careful``, there are up to four times the calls, as many as
    the rate limits and the budget leave; with ``balanced``, those that run beside the others, and one wave for every
    four; with ``fastest``, no more.
    """
    room = _room(reading, places)
    if room <= 0 or len(places) < 2:
        return list(places)
    mentions = _mentions(reading, places)
    order = count()
    waiting = [(-mentions(place), next(order), place) for place in places]
    heapq.heapify(waiting)
    done: list[Place] = []
    while waiting and room > 0 and -waiting[0][0] >= _MENTIONS:
        place = heapq.heappop(waiting)[2]
        parts = reading.halves(place) if place.chunk.tokens >= 2 * USUAL_LEAST else [place]
        if len(parts) == 1:
            done.append(place)
            continue
        room -= 1
        for part in parts:
            heapq.heappush(waiting, (-mentions(part), next(order), part))
    return sorted([*done, *(place for *_, place in waiting)], key=lambda place: (place.document, place.chunk.start))


def _room(reading: DocumentRun, places: Sequence[Place]) -> int:
    """How many calls there may be beside one for each of these passages."""
    request, runner, calls = reading.request, reading.runner, len(places)
    in_order = reading.task.hops and calls <= MOST_IN_ORDER
    slots = 1 if in_order else useful_slots(runner.capabilities, runner.known.measured)
    later = 0 if request.deadline_s is not None else slots * (calls // slots // _WAVES)
    beside = -calls % slots + later
    most = {"fastest": 0, "balanced": beside, "careful": calls * (_MOST_TIMES - 1)}[request.preference]
    if request.deadline_s is not None:
        most = min(most, beside)
    if in_order:
        most = min(most, MOST_IN_ORDER - calls)
    # Half is kept for what is read again and put together; in rounds, most passages are read twice.
    share = 4 if reading.task.hops and not in_order else 2
    left = reading.left
    requests, tokens = left.get("requests", math.inf), left.get("tokens", math.inf)
    texts = sum(place.chunk.tokens for place in places)
    return int(min(most, requests / share - calls, (tokens / share - texts) / reading.sizes.beside - calls))


def _mentions(reading: DocumentRun, places: Sequence[Place]) -> Callable[[Place], float]:
    """Counts how often the question's words stand in a passage beyond what is usual, also within longer words."""
    stems = _stems(reading.request.question.lower())
    texts = [(reading.library.text(place).lower(), max(1, place.chunk.tokens)) for place in places]
    usual = {stem: _USUAL * median_low(text.count(stem) / tokens for text, tokens in texts) for stem in stems}

    def counted(place: Place) -> float:
        text = reading.library.text(place).lower()
        return sum(max(0.0, text.count(stem) - often * place.chunk.tokens) for stem, often in usual.items())

    return counted


def _stems(question: str) -> tuple[str, ...]:
    """How the longest words of a question begin, and pairs of letters in Chinese, Japanese and Korean."""
    words = sorted({word: None for word in _WORD.findall(question) if not _PAIR.search(word)}, key=len)
    stems = [word[: max(_SHORTEST_STEM, math.ceil(_STEM * len(word)))] for word in words[-_MOST_WORDS:]]
    pairs = list(dict.fromkeys(_PAIR.findall(question)))[:_MOST_PAIRS]
    return tuple(dict.fromkeys(stems + pairs))  # in order: passages are the same each time a program runs
