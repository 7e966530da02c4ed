"""From how many shared tokens on calls wait for the first of them, so that they read from the provider's cache."""

from __future__ import annotations

import math

from stretto.backends.base import Capabilities
from stretto.values.request import Preference

__all__ = ["least_shared"]

BALANCED = 4_000  # tokens that are worth the wait for a first text to somebody who has no preference


def least_shared(preference: Preference, capabilities: Capabilities) -> float:
    """Tokens of a common beginning from which the others wait for the first call; infinite where none does.

    A cache holds a beginning once the first answer to it has begun. Until then the others would pay for all of it, and
    waiting takes as long as a first text does.
    """
    least = capabilities.prompt_cache_minimum
    if least is None or preference == "fastest":
        return math.inf
    return least if preference == "careful" else max(least, BALANCED)
