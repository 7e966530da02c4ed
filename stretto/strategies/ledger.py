"""Tracks the usage of an answer against its budget."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.answer import Usage
from stretto.errors import BudgetExceededError
from stretto.request import Budget

LEAST_ANSWER = 16  # tokens; a call limited to fewer is not worth its prompt


@dataclass(eq=False)
class Reservation:
    """Tokens and calls reserved for a call in flight and its retries.

    ``tokens``: reserved until the call has ended; ``calls``: sent, with their usage not reported yet.
    """

    ledger: Ledger
    tokens: int = 0
    calls: int = 1

    def refusal(self) -> str | None:
        """Why a call may not be repeated; ``None`` if it may."""
        if self.ledger.calls_left != 0:
            return None
        return f"the budget of max_calls={self.ledger.budget.max_calls} is used up"

    def take(self) -> None:
        """Count one more call before it is sent."""
        self.calls += 1
        self.ledger.under_way += 1


class Ledger:
    """Counts usage against a budget; calls in flight hold a reservation until their usage is known.

    Retries and hedges count as calls: their senders ask the reservation first (`backends.allowance`).
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.usage = Usage()
        self.under_way = 0
        self._reserved = 0

    @property
    def calls_left(self) -> int | None:
        """Number of calls that may still be sent; ``None``: no limit."""
        most = self.budget.max_calls
        return None if most is None else max(0, most - self.usage.calls - self.under_way)

    def reserve(self, prompt_tokens: int, max_tokens: int | None) -> tuple[int | None, Reservation]:
        """Reserve the cost of one call.

        Returns the limit of generated tokens (``None``: no limit) and the reservation, which goes back to `settle`.
        Raises `BudgetExceededError`.
        """
        total = self.budget.max_tokens_total
        if self.calls_left == 0:
            raise BudgetExceededError(
                f"The budget of max_calls={self.budget.max_calls} is used up. "
                "Allow more, or ask with strategy='direct'."
            )
        if total is None:
            self.under_way += 1
            return max_tokens, Reservation(self)
        left = total - self.usage.total_tokens - self._reserved - prompt_tokens
        if left < min(LEAST_ANSWER, max_tokens or LEAST_ANSWER):
            raise BudgetExceededError(
                f"The budget of max_tokens_total={total} is used up: {self.usage.total_tokens} tokens are spent, "
                f"{self._reserved} are held by running calls, the next prompt has about {prompt_tokens}. Allow more."
            )
        self.under_way += 1
        allowed = left if max_tokens is None else min(left, max_tokens)
        self._reserved += prompt_tokens + allowed
        return allowed, Reservation(self, prompt_tokens + allowed)

    def settle(self, reservation: Reservation) -> None:
        """Release a reservation after the call has ended and its usage was added."""
        self.under_way -= reservation.calls
        self._reserved -= reservation.tokens
        reservation.calls = reservation.tokens = 0

    def add(self, usage: Usage, reservation: Reservation | None = None) -> None:
        """Add reported usage; reported calls are no longer in flight."""
        self.usage = self.usage + usage
        if reservation is not None:
            reported = min(usage.calls, reservation.calls)
            reservation.calls -= reported
            self.under_way -= reported
