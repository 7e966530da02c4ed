"""Lets a process load one model at a time, and none if it was forked from one that has loaded a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stretto.foundation.threads import Fork
from stretto.values.errors import BackendError

_fork = Fork()
_changed = threading.Condition()
_loading = False


@contextmanager
def turn_to_load(name: str, given_up: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other model is being loaded in this process, and block the others meanwhile.

    transformers replaces functions and defaults of torch for all threads while it loads a model.

    Args:
        name: of the model.
        given_up: whether the caller no longer wants it; checked again after `look_again`.

    Raises `BackendError` when it is given up, and in a process that was forked after a model was loaded, because
    torch's threads and locks do not survive a fork.
    """
    global _loading  # noqa: PLW0603 - one per process, like the state it protects
    refuse_after_fork(name)
    with _changed:
        _changed.wait_for(lambda: given_up() or not _loading)
        if given_up():
            raise BackendError(f"The backend {name} was closed before its model was loaded.", backend=name)
        _loading = True
    try:
        yield
    finally:
        with _changed:
            _loading = False
            _changed.notify_all()


def refuse_after_fork(name: str) -> None:
    """Raise `BackendError` in a process that was forked after a model was loaded."""
    if _fork.happened():
        raise BackendError(
            f"{name} cannot be loaded here: this process was forked from one that had loaded a model, and torch's "
            "threads do not survive a fork. Start the process with the method 'spawn' (see multiprocessing), or "
            "load models in children only.",
            backend=name,
        )


def look_again() -> None:
    """Let waiting callers check whether they are given up."""
    with _changed:
        _changed.notify_all()
