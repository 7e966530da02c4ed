"""What was written before: the texts in which the drafts of a request are looked for, kept apart by tenant."""

from __future__ import annotations

from collections import OrderedDict

from stretto.local_engine.drafting.sources.texts import Texts
from stretto.local_engine.generation import Generation

__all__ = ["EarlierAnswers"]

_TENANTS = 32  # whose answers are kept, those who asked last
_ANSWERS = 8  # of which the parts are kept, where answers are not
_TOKENS = 8192  # of the parts of one answer

_Held = OrderedDict[str | int | None, Texts]


class EarlierAnswers:
    """Answers by tenant, and the parts of one answer where nothing is kept of a tenant.

    Args:
        limit: tokens kept of each tenant; 0 keeps nothing beyond an answer.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_tenants: _Held = OrderedDict()
        self._of_answers: _Held = OrderedDict()

    def of(self, request: Generation) -> Texts | None:
        """Where a request may look, and where its answer is kept."""
        tenant, answer = request.tenant, request.answer
        if self._limit and tenant != "":
            return _kept(self._of_tenants, tenant, self._limit, _TENANTS)
        return None if answer is None else _kept(self._of_answers, answer, _TOKENS, _ANSWERS)


def _kept(held: _Held, key: str | int | None, limit: int, most: int) -> Texts:
    """The texts of a key, which is the latest now; the oldest ones go where there are too many."""
    if key not in held:
        held[key] = Texts(limit)
        while len(held) > most:
            held.popitem(last=False)
    held.move_to_end(key)
    return held[key]
