"""Lets the first of several calls with a long common beginning go ahead, so that the others pay less for it."""

from __future__ import annotations

import math

import anyio

from stretto.backends.known_models import tokens_of
from stretto.router.affordable import least_shared
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.values.request import Preference

LONGEST_WAIT_S = 5.0  # a model that thinks first may be silent for long


class GoingAhead:
    """The first calls of one answer by what they begin with."""

    def __init__(self, preference: Preference) -> None:
        self._preference = preference
        self._first: dict[tuple[int, str], RunningBranch] = {}

    async def wait(self, running: RunningBranch, target: PromptTarget) -> None:
        """Wait until the cache of the backend holds what a call shares with an earlier one: its first text is there."""
        least = least_shared(self._preference, target.capabilities)
        prefix = "" if least == math.inf else running.spec.prompt(target).prefix
        if not prefix or tokens_of(prefix) < least:
            return
        first = self._first.setdefault((id(target.backend), prefix), running)
        if first is not running:
            with anyio.move_on_after(LONGEST_WAIT_S):
                await first.reached(1)
