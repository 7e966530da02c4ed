"""One answer of one method, and what all methods have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Method", "Run", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of a method.

    Attributes:
        prompt: token ids.
        limit: tokens of the answer at most; an end token ends it too.
        temperature: 0 for greedy.
        seed: of the random numbers.
        clock: in seconds; of the wall, or of this process.
    """

    prompt: tuple[int, ...]
    limit: int
    temperature: float = 0.0
    seed: int = 0
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class Run:
    """What a method did.

    Attributes:
        tokens: the answer, an end token included.
        arrivals: seconds since the request, and how many tokens came then; at least one.
        steps: forwards of the model after the one that gave the first tokens.
        rows: tokens that went through the model in these.
    """

    tokens: Sequence[int]
    arrivals: Sequence[tuple[float, int]]
    steps: int
    rows: int

    @property
    def first_s(self) -> float:
        """Seconds to the first token: reading the prompt."""
        return self.arrivals[0][0]

    @property
    def decoding_s(self) -> float:
        """Seconds from the first token to the last."""
        return self.arrivals[-1][0] - self.arrivals[0][0]

    @property
    def decoded(self) -> int:
        """Tokens that came in that time."""
        return sum(count for _, count in self.arrivals[1:])


class Method(Protocol):
    """A way to decode.

    Attributes:
        name: for people.
        peer: whether it is somebody else's.
    """

    name: str
    peer: bool

    def answer(self, task: Task) -> Run:
        """Answer once; each answer is independent, nothing is remembered."""
        ...
