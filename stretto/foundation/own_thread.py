"""A function in a thread of its own, for code that may never return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

__all__ = ["in_own_thread"]

T = TypeVar("T")


async def in_own_thread(function: Callable[[], T], name: str) -> T:
    """Call a function in a new thread, with the context variables of this task. Raises what it raises.

    A cancellation comes back at once. The thread cannot be ended: it goes on until the function returns, which nobody
    hears of, and a program that ends does not wait for it.
    """
    ended: Future[tuple[T | None, BaseException | None]] = Future()
    ended.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            ended.set_result((function(), None))
        except BaseException as error:  # noqa: BLE001 - as a value: a future refuses a StopIteration
            ended.set_result((None, error))

    Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    value, error = await asyncio.wrap_future(ended)
    if error is None:
        return value  # type: ignore[return-value]  # `None` only where the function returns that
    if isinstance(error, Exception):
        raise error
    raise RuntimeError(f"{type(error).__name__}: {error}")  # a SystemExit of that thread ends nothing here
