"""Hooks with which a program watches every answer, for metrics, traces and logs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import TypeVar

from stretto.foundation.arguments import safe_repr
from stretto.observe.telemetry import note_retry
from stretto.values.answer import FinishReason, Usage
from stretto.values.errors import SettingsError, StrettoError
from stretto.values.route import Route

T = TypeVar("T")

_log = logging.getLogger("stretto.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """One generation of a branch has ended, successfully or not; includes its retries and hedges.

    Attributes:
        backend: the model name, ``provider:model``.
        branch_id: the branch that made the call, as in the events and the answer.
        kind: what the branch writes.
        attempt: 1, or 2 if the branch asked again in a different way.
        seconds: from sending the call to its end, waits between retries included.
        first_text_s: from sending it to its first text; ``None``: no text came.
        usage: tokens and calls of this generation; ``usage.retries`` and ``usage.hedges`` count repetitions.
        finish_reason: why it ended; ``None`` if it failed or was cancelled.
        error: the error if it failed; ``None`` if it succeeded or was cancelled.
    """

    backend: str
    branch_id: str
    kind: str
    attempt: int
    seconds: float
    first_text_s: float | None
    usage: Usage
    finish_reason: FinishReason | None
    error: Exception | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlanned:
    """A call failed with a transient error and will be retried.

    Attributes:
        backend: the model name, ``provider:model``.
        attempt: the number of the failed attempt, from 1.
        wait_s: seconds until the next attempt.
        error: why it failed.
        usage: what the failed attempt cost.
    """

    backend: str
    attempt: int
    wait_s: float
    error: StrettoError
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks of a client while it answers: ``AsyncStretto(hooks=Hooks(on_call=print))``.

    They are plain functions of one argument, called on the client's event loop, so they must be quick: hand slow work
    to a queue or a thread. Return values are ignored. A hook that raises does not affect the answer; the first failure
    of each hook is logged with its traceback (logger ``stretto.hooks``), later ones are not.

    Attributes:
        on_route: called with each chosen `Route`, including those of ``client.route``.
        on_call: called with a `CallEnded` after each generation.
        on_retry: called with a `RetryPlanned` before the wait for the next attempt.

    Raises `SettingsError` for a hook that is not callable, or is a coroutine function.
    """

    on_route: Callable[[Route], object] | None = None
    on_call: Callable[[CallEnded], object] | None = None
    on_retry: Callable[[RetryPlanned], object] | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            hook = getattr(self, each.name)
            if hook is not None and (not callable(hook) or inspect.iscoroutinefunction(hook)):
                raise SettingsError(
                    f"{each.name}={safe_repr(hook)} cannot be used: a hook is a plain function, not async."
                )


class Watchers:
    """Calls the hooks of one client and keeps their failures away from the answers."""

    def __init__(self, hooks: Hooks | None = None) -> None:
        self._hooks = hooks or Hooks()
        self._failed: set[str] = set()

    def route_chosen(self, route: Route) -> None:
        self._call("on_route", self._hooks.on_route, route)

    def call_ended(self, call: CallEnded) -> None:
        self._call("on_call", self._hooks.on_call, call)

    def retry_planned(self, retry: RetryPlanned) -> None:
        """Report a retry to the hooks and the trace."""
        note_retry(retry.wait_s, retry.attempt, retry.error)
        self._call("on_retry", self._hooks.on_retry, retry)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Make `watchers` return this object in the calling task and those it starts."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def _call(self, name: str, hook: Callable[[T], object] | None, value: T) -> None:
        if hook is None:
            return
        try:
            hook(value)
        except Exception:  # noqa: BLE001 - a hook is the caller's code; the answer continues
            if name not in self._failed:
                self._failed.add(name)
                _log.exception("the hook %s failed; the answer continues, further failures are not logged", name)


_current: ContextVar[Watchers] = ContextVar("stretto_watchers", default=Watchers())  # noqa: B039 - has no hooks


def watchers() -> Watchers:
    """Return the watchers of the answer that the calling task works on; outside of one, watchers without hooks.

    Like the budget (`stretto.backends.allowance`), they reach the wrappers without being part of a backend's protocol.
    """
    return _current.get()
