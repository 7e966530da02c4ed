"""How long the first text of a call may take: by the length of its prompt, and by what earlier calls took."""

from __future__ import annotations

from collections import deque

__all__ = ["FirstTexts"]

SHORT = 1_000
"""Tokens of a prompt that take no time worth counting to read."""

_READ_PER_S = 50.0  # tokens: a large model on a processor
_READ_PER_S_BY_PROVIDERS = 1_000.0
_SLACK = 4.0  # times what was measured: a server may be busier now
_SAMPLES = 50


class FirstTexts:
    """The times to first text of one backend.

    Args:
        usual_s: the limit for short prompts.
        at_provider: the calls go to a provider, whose machines read prompts fast.
    """

    def __init__(self, usual_s: float, *, at_provider: bool = False) -> None:
        self.usual_s = usual_s
        self._assumed = 1 / (_READ_PER_S_BY_PROVIDERS if at_provider else _READ_PER_S)
        self._measured: deque[float] = deque(maxlen=_SAMPLES)  # seconds per token
        self._last_answered_s = float("-inf")

    def limit_s(self, tokens: int) -> float:
        """Seconds that the first text of a prompt of so many tokens may take."""
        per_token = _SLACK * max(self._measured) if self._measured else self._assumed
        return self.usual_s + max(0, tokens - SHORT) * per_token

    def note(self, tokens: int, began_s: float, seconds: float) -> None:
        """Take in a first text: of which prompt, when its call began, and how long it took."""
        self._last_answered_s = max(self._last_answered_s, began_s)
        if tokens > SHORT:
            self._measured.append(seconds / tokens)

    def overtook(self, began_s: float) -> bool:
        """Whether a call that began later has its first text already: then an earlier one hangs, and is not slow."""
        return self._last_answered_s > began_s
