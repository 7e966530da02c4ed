"""``max_tokens`` of an answer in parts: the limit for all its parts together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import NOT_TEXT
from stretto.strategies.runtime.ledger import LEAST_ANSWER
from stretto.values.errors import BudgetExceededError


class NoRoomError(BudgetExceededError):
    """The other parts have used up ``max_tokens``."""


class AnswerLimit:
    """Shares ``max_tokens`` among the parts of an answer.

    A part that is being written keeps its reservation until its tokens are known. A part that asks for more than is
    left waits for the running ones. It gets what is left once none of them runs, so the sum never exceeds the limit.

    Outlines, plans and the reading of passages are not text of the answer and do not count. Each of multiple choices
    has the whole limit, as in OpenAI's API, and so has a direct answer that runs alongside one in parts.

    Args:
        most: tokens of the whole answer; ``None``: no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._parts: list[RunningBranch] = []
        self._reserved: dict[RunningBranch, int] = {}
        self._changed = anyio.Event()

    @asynccontextmanager
    async def room(self, part: RunningBranch) -> AsyncGenerator[int | None]:
        """Reserve the tokens of one call, waiting if needed; yield the most tokens that it can generate.

        Raises `NoRoomError` if too little is left to begin a part.
        """
        wanted = part.spec.options.max_tokens
        if self._most is None or part.spec.kind in NOT_TEXT:
            yield wanted
            return
        if part not in self._parts:
            self._parts.append(part)
        room = await self._wait(part, min(wanted or self._most, self._most))
        self._reserved[part] = room
        try:
            yield room
        finally:
            del self._reserved[part]
            self._changed.set()

    async def _wait(self, part: RunningBranch, wanted: int) -> int:
        while True:
            others = [each for each in self._parts if _same_answer(each, part) and not each.discarded]
            reserved = sum(self._reserved.get(each, 0) for each in others)
            written = sum(each.usage.completion_tokens - each.usage.discarded_tokens for each in others)
            left = (self._most or 0) - reserved - written
            if left >= wanted:
                return wanted
            if not reserved:
                break
            if self._changed.is_set():  # another waiting part may have replaced it
                self._changed = anyio.Event()
            await self._changed.wait()
        if left < min(wanted, LEAST_ANSWER):
            raise NoRoomError(
                f"max_tokens={self._most} leaves no room for this part: {max(0, left)} tokens are left. Allow more."
            )
        return left


def _same_answer(one: RunningBranch, other: RunningBranch) -> bool:
    return (one.spec.choice, one.spec.version) == (other.spec.choice, other.spec.version)
