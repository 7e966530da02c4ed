"""Let the first of multiple calls with a long common prefix go ahead, so that the others hit the prompt cache."""

from __future__ import annotations

import math

import anyio

from stretto.backends.known_models import tokens_of
from stretto.router.affordable import least_shared
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.values.request import Preference

LONGEST_WAIT_S = 5.0  # a reasoning model can be silent for long


class GoingAhead:
    """The first calls of one answer, by prefix."""

    def __init__(self, preference: Preference) -> None:
        self._preference = preference
        self._first: dict[tuple[int, str], RunningBranch] = {}

    async def wait(self, running: RunningBranch, target: PromptTarget) -> None:
        """Wait until the backend has cached a call's shared prefix: the earlier call has sent its first text."""
        least = least_shared(self._preference, target.capabilities)
        prefix = "" if least == math.inf else running.spec.prompt(target).prefix
        if not prefix or tokens_of(prefix) < least:
            return
        first = self._first.setdefault((id(target.backend), prefix), running)
        if first is not running:
            with anyio.move_on_after(LONGEST_WAIT_S):
                await first.reached(1)
