"""What an answer has cost so far, and whether its budget allows one more call."""

from __future__ import annotations

from stretto.answer import Usage
from stretto.errors import BudgetExceededError
from stretto.request import Budget

LEAST_ANSWER = 16  # tokens; a call that may write less than this is not worth its prompt


class Ledger:
    """Counts usage against a budget; calls in flight hold a reservation until their usage is known.

    Retries of a call are counted as calls, but a call that is under way is not kept from retrying.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.usage = Usage()
        self._under_way = 0
        self._reserved = 0

    def reserve(self, prompt_tokens: int, max_tokens: int | None) -> tuple[int | None, int]:
        """Take out what one call may cost.

        Returns the most tokens it may generate (``None``: no limit) and the reservation to hand
        back to `settle`. Raises `BudgetExceededError`.
        """
        calls, total = self.budget.max_calls, self.budget.max_tokens_total
        if calls is not None and self.usage.calls + self._under_way >= calls:
            raise BudgetExceededError(
                f"The budget of max_calls={calls} is used up. Allow more, or ask with strategy='direct'."
            )
        if total is None:
            self._under_way += 1
            return max_tokens, 0
        left = total - self.usage.total_tokens - self._reserved - prompt_tokens
        if left < min(LEAST_ANSWER, max_tokens or LEAST_ANSWER):
            raise BudgetExceededError(
                f"The budget of max_tokens_total={total} is used up: {self.usage.total_tokens} tokens are spent, "
                f"{self._reserved} are held by running calls, the next prompt has about {prompt_tokens}. Allow more."
            )
        self._under_way += 1
        allowed = left if max_tokens is None else min(left, max_tokens)
        self._reserved += prompt_tokens + allowed
        return allowed, prompt_tokens + allowed

    def settle(self, reservation: int) -> None:
        """Give a reservation back: the call has ended and its usage was added."""
        self._under_way -= 1
        self._reserved -= reservation

    def add(self, usage: Usage) -> None:
        """Add what a call reported."""
        self.usage = self.usage + usage
