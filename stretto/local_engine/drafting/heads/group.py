"""Drafters of one head draft together: what they ask the head is answered in one run."""

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

__all__ = ["Answer", "DrafterGroup", "Growing"]

Answer = tuple[Tensor | None, float]
"""Logits that a head gives, and this drafter's share of the milliseconds it took."""

Growing = Generator[Nodes | None, Answer, None]
"""A draft that grows: it asks what follows the text (``None``) or some nodes, and goes on with the answer."""


class DrafterGroup:
    """The drafters of one head in one engine.

    A head is small, so on a GPU the start of its kernels takes longer than their work, and on a CPU the reading of its
    weights. So when one drafter is asked, all that will be asked in the same step draft with it. One whose request has
    left is gone.

    Args:
        clock: in seconds, that by which steps are timed.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._members: WeakSet[HeadDrafter] = WeakSet()

    def join(self, member: HeadDrafter) -> None:
        self._members.add(member)

    def draft(self, asked: HeadDrafter) -> None:
        """Let this drafter, and all that wait, grow their drafts."""
        members = [asked, *(member for member in self._members if member is not asked and member.waits)]
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


def _answers(readers: Sequence[Reader], asked: Sequence[Nodes | None]) -> Sequence[Tensor | None]:
    recurrent = [reader for reader in readers if isinstance(reader, RecurrentReader)]
    if len(recurrent) == len(readers):
        return answered(recurrent, asked)
    return [
        reader.first() if nodes is None else reader.behind(*nodes) for reader, nodes in zip(readers, asked, strict=True)
    ]
