"""The models of a client by role, for strategies that ask several of them."""

from __future__ import annotations

from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError
from stretto.foundation.arguments import shown
from stretto.strategies.runner import Runner

__all__ = ["backend_for"]


def backend_for(runner: Runner, given: str | Backend, option: str) -> Backend:
    """The backend of a role, or the backend that was given itself. Raises `InvalidRequestError`."""
    if not isinstance(given, str):
        return given
    found = runner.backends.get(given)
    if found is None:
        known = ", ".join(map(repr, runner.backends))
        raise InvalidRequestError(
            f"strategy_options= holds {option}={shown(given)}, and this client has no such role. It has {known}; "
            "name more with roles= of the client."
        )
    return found
