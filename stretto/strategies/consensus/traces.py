"""Watches samples while they are written, and ends those of which the model is less sure than of the finished ones.

After DeepConf (Fu et al., arXiv 2508.15260): how sure a model is of a trace is told by its weakest window, the lowest
mean log-probability of so many tokens in a row. The bar is the weakest finished sample, once enough have finished: of
equally good samples, one in n + 1 falls below the weakest of n, and loses its vote for nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from stretto.strategies.quality.text_guard import TextGuard
from stretto.values.token_records import TokenLogprob

__all__ = ["SampleWatch", "Trace", "bar_of"]


class Trace:
    """The log-probabilities of one sample, read as its text comes.

    Args:
        window: tokens whose mean tells how sure the model is.
    """

    def __init__(self, window: int) -> None:
        self._last: deque[float] = deque(maxlen=window)
        self._sum = 0.0
        self._lowest = math.inf
        self._total, self.tokens = 0.0, 0

    @property
    def mean(self) -> float | None:
        """The mean log-probability of all tokens; ``None`` where none was told."""
        return self._total / self.tokens if self.tokens else None

    @property
    def weakest(self) -> float | None:
        """The lowest mean of a window so far; of a shorter text its mean, and ``None`` where none was told."""
        return self._lowest if self._lowest < math.inf else self.mean

    def hear(self, logprobs: Sequence[TokenLogprob]) -> None:
        """Take the next tokens in."""
        for each in logprobs:
            logprob = max(each.logprob, -100.0)  # servers write -9999 for what was impossible
            if len(self._last) == self._last.maxlen:
                self._sum -= self._last[0]
            self._last.append(logprob)
            self._sum += logprob
            self._total, self.tokens = self._total + logprob, self.tokens + 1
            if len(self._last) == self._last.maxlen:
                self._lowest = min(self._lowest, self._sum / len(self._last))

    def is_below(self, bar: float | None) -> bool:
        """Whether the last whole window is weaker than a bar."""
        whole = len(self._last) == self._last.maxlen
        return bar is not None and whole and self._sum / len(self._last) < bar


def bar_of(finished: Sequence[Trace], warm_up: int) -> float | None:
    """How sure the model has to stay of a sample that still runs; ``None`` while fewer than ``warm_up`` have ended."""
    weakest = [each.weakest for each in finished if each.weakest is not None]
    return min(weakest) if len(weakest) >= warm_up else None


class SampleWatch:
    """Passes the text of a sample on, and tells at each piece whether it has begun to repeat itself."""

    fault = ""  # the sample is cancelled instead: none of it is kept

    def __init__(self, heard: Callable[..., None]) -> None:
        self._heard = heard
        self._loops = TextGuard()

    def feed(self, text: str) -> str:
        """Pass the text on."""
        self._loops.feed(text)
        self._heard(looping=bool(self._loops.fault))
        return text

    def finish(self) -> str:
        """Nothing was held back."""
        self._heard(looping=False)
        return ""
