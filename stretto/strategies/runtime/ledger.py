"""Track the usage of an answer against its budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from stretto.backends.base import Backend
from stretto.router.affordable import price_needed
from stretto.values.answer import Usage
from stretto.values.budget import Budget
from stretto.values.errors import BudgetExceededError

LEAST_ANSWER = 16  # tokens; a call limited to fewer is not worth its prompt


@dataclass(eq=False)
class Reservation:
    """Tokens and calls reserved for a call in flight and its retries.

    ``tokens``: reserved until the call has ended; ``calls``: sent, but with no usage reported yet; ``outer``: the
    reservation in the ledger of the whole answer.
    """

    ledger: Ledger
    tokens: int = 0
    calls: int = 1
    outer: Reservation | None = None

    def refusal(self) -> str | None:
        """Return why a call may not be repeated; ``None`` if it may."""
        if self.ledger.calls_left != 0:
            return None if self.outer is None else self.outer.refusal()
        return f"the budget of {self.ledger.names[0]}={self.ledger.budget.max_calls} is used up"

    def take(self) -> None:
        """Count one more call before it is sent."""
        self.calls += 1
        self.ledger.under_way += 1
        if self.outer is not None:
            self.outer.take()


class Ledger:
    """Counts usage against a budget; calls in flight keep a reservation until their usage is known.

    Retries and hedges count as calls: they check the reservation first (`backends.allowance`).

    Args:
        budget: of calls, tokens and money.
        whole: the ledger of the whole answer, if this one covers only some of its calls.
        names: what calls and tokens of the budget are called in errors.

    Attributes:
        spent: what the answer has cost so far in US dollars; ``None`` if a price is unknown.
        price_known: whether a model's price is known.
    """

    def __init__(
        self,
        budget: Budget,
        whole: Ledger | None = None,
        names: tuple[str, str] = ("max_calls", "max_tokens_total"),
    ) -> None:
        self.budget = budget
        self.names = names
        self._whole = whole
        self.usage = Usage()
        self.spent: Callable[[], float | None] = lambda: None
        self.price_known: Callable[[Backend], bool] = lambda _: True
        self.under_way = 0
        self._reserved = 0
        self._settled = anyio.Event()

    @property
    def calls_left(self) -> int | None:
        """The number of calls that can still be sent; ``None``: no limit."""
        most = self.budget.max_calls
        return None if most is None else max(0, most - self.usage.calls - self.under_way)

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens of prompts must be counted before they are sent."""
        own = self.budget.max_tokens_total is not None
        return own or (self._whole is not None and self._whole.counts_tokens)

    def check_price(self, backend: Backend) -> None:
        """Raise `BudgetExceededError` if the budget limits money and the price of this model is unknown."""
        most = self.budget.max_cost
        if most is not None and not self.price_known(backend):
            raise price_needed(most, backend.name)

    async def reserve(self, prompt_tokens: int, max_tokens: int | None) -> tuple[int | None, Reservation]:
        """Reserve the cost of one call; wait while running calls have reserved tokens that it needs.

        Returns the limit of generated tokens (``None``: no limit) and the reservation, to be passed to `settle`.
        Raises `BudgetExceededError`.
        """
        while (holder := self._holder(prompt_tokens, max_tokens)) is not None:
            await holder._settled.wait()
        return self._reserve_now(prompt_tokens, max_tokens)

    def _holder(self, prompt_tokens: int, max_tokens: int | None) -> Ledger | None:
        """Return the ledger whose running calls have reserved tokens that a call needs."""
        total = self.budget.max_tokens_total
        if total is not None and self._reserved:
            left = total - self.usage.total_tokens - self._reserved - prompt_tokens
            if max_tokens is None or left < max_tokens:
                return self
        return None if self._whole is None else self._whole._holder(prompt_tokens, max_tokens)

    def _reserve_now(self, prompt_tokens: int, max_tokens: int | None) -> tuple[int | None, Reservation]:
        if self._whole is None:
            return self._reserve(prompt_tokens, max_tokens)
        allowed, outer = self._whole._reserve_now(prompt_tokens, max_tokens)
        try:
            allowed, reservation = self._reserve(prompt_tokens, allowed)
        except BudgetExceededError:
            self._whole.settle(outer)
            raise
        reservation.outer = outer
        return allowed, reservation

    def _reserve(self, prompt_tokens: int, max_tokens: int | None) -> tuple[int | None, Reservation]:
        total, most = self.budget.max_tokens_total, self.budget.max_cost
        if most is not None and (spent := self.spent() or 0.0) >= most:
            raise BudgetExceededError(f"The budget of max_cost={most:g} US dollars is used up: {spent:.4g} are spent.")
        if self.calls_left == 0:
            raise BudgetExceededError(
                f"The budget of {self.names[0]}={self.budget.max_calls} is used up. "
                + ("Allow more." if self._whole is not None else "Allow more, or ask with strategy='direct'.")
            )
        if total is None:
            self.under_way += 1
            return max_tokens, Reservation(self)
        left = total - self.usage.total_tokens - self._reserved - prompt_tokens
        if left < min(LEAST_ANSWER, max_tokens or LEAST_ANSWER):
            raise BudgetExceededError(
                f"The budget of {self.names[1]}={total} is used up: {self.usage.total_tokens} tokens are spent, "
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
        settled, self._settled = self._settled, anyio.Event()
        settled.set()
        if self._whole is not None and reservation.outer is not None:
            self._whole.settle(reservation.outer)

    def add(self, usage: Usage, reservation: Reservation | None = None) -> None:
        """Add reported usage; reported calls are no longer in flight."""
        self.usage = self.usage + usage
        if self._whole is not None:
            self._whole.add(usage, None if reservation is None else reservation.outer)
        if reservation is not None:
            reported = min(usage.calls, reservation.calls)
            reservation.calls -= reported
            self.under_way -= reported
