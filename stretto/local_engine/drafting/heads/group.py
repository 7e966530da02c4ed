"""Groups of drafters with the same head: one run of the head serves all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from torch import Tensor

from stretto.local_engine.drafting.heads.head import Reader
from stretto.local_engine.drafting.heads.recurrent import Nodes, RecurrentReader, answered

if TYPE_CHECKING:
    from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter

Answer = tuple[Tensor | None, float]
"""Logits of a head, and this drafter's share of the milliseconds that they took."""

Growing = Generator[Nodes | None, Answer, None]
"""A growing draft: it asks what follows the text (``None``) or some nodes, and continues with the answer."""


class DrafterGroup:
    """Drafters of one head in one engine.

    A head is small: on a GPU launching its kernels takes longer than running them, and on a CPU reading its weights
    dominates. So when one drafter is asked, all that will be asked in the same step draft with it. The drafter of a
    request that has left is dropped automatically.

    Args:
        clock: the clock that steps are timed with, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._members: WeakSet[HeadDrafter] = WeakSet()

    def join(self, member: HeadDrafter) -> None:
        self._members.add(member)

    def draft(self, requester: HeadDrafter) -> None:
        """Grow the drafts of this drafter and of all that wait for one."""
        members = [requester, *(member for member in self._members if member is not requester and member.waits)]
        growing = [(member, draft) for member in members if (draft := member.begin()) is not None]
        asking = [(member.reader, draft, next(draft)) for member, draft in growing]
        while asking:
            began = self.clock()
            found = _answers([reader for reader, *_ in asking], [nodes for *_, nodes in asking])
            took_ms = 1e3 * (self.clock() - began) / len(asking)
            going_on = []
            for (reader, draft, _), logits in zip(asking, found, strict=True):
                with suppress(StopIteration):
                    going_on.append((reader, draft, draft.send((logits, took_ms))))
            asking = going_on


def _answers(readers: Sequence[Reader], requests: Sequence[Nodes | None]) -> Sequence[Tensor | None]:
    recurrent = [reader for reader in readers if isinstance(reader, RecurrentReader)]
    if len(recurrent) == len(readers):
        return answered(recurrent, requests)
    return [
        reader.first() if nodes is None else reader.after(*nodes)
        for reader, nodes in zip(readers, requests, strict=True)
    ]
