"""Lets backends ask their servers what they can do, before the router reads it."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from stretto.backends.base import AsksItsServer, Backend, method_of

__all__ = ["ask_servers"]

LONGEST_S = 1.0
SHARE = 0.1  # of the time that an answer may take


async def ask_servers(backends: Iterable[Backend], deadline_s: float | None = None) -> None:
    """Ask the servers that were not asked yet, all at the same time, for a second or a tenth of the deadline.

    If a server does not answer in that time, its abilities stay unknown; it is asked again with a later request.
    """
    asking = [ask for each in backends if (ask := method_of(each, AsksItsServer.ask_server)) is not None]
    if not asking:
        return
    within_s = LONGEST_S if deadline_s is None else min(LONGEST_S, deadline_s * SHARE)
    async with anyio.create_task_group() as tasks:
        for ask in asking:
            tasks.start_soon(ask, within_s)
