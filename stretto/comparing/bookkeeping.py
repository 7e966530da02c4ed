"""Progress, spending and reports of runs over many questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from stretto.values.errors import InvalidRequestError

Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, their total, and what comes next."""


@dataclass(frozen=True)
class Spending:
    """The most that a run may spend on all models together; ``None`` is no limit.

    The run ends before a question whose expected cost, that of the most expensive so far, exceeds what is left.

    Attributes:
        tokens: tokens read and written.
        usd: US dollars, for models whose price is known.
    """

    tokens: int | None = None
    usd: float | None = None


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum; ``None`` if one is unknown."""
    every = list(costs)
    return None if None in every else sum(each for each in every if each is not None)


class Steps:
    """Reports the progress of a run."""

    def __init__(self, whole: int, progress: Progress | None) -> None:
        self._done, self._whole, self._progress = 0, whole, progress or (lambda *_: None)

    def next(self, doing: str) -> None:
        self._progress(self._done, self._whole, doing)
        self._done += 1


class Ledger:
    """The amount spent, and whether the most expensive question so far still fits the budget."""

    def __init__(self, budget: Spending | None) -> None:
        self._budget = budget or Spending()
        self._tokens: list[int] = []
        self._usd: list[float] = []

    def add(self, tokens: int, cost_usd: float | None) -> None:
        """Count a question. Raises `InvalidRequestError` if its cost is needed but unknown."""
        self._tokens.append(tokens)
        if cost_usd is None and self._budget.usd is not None:
            raise InvalidRequestError(
                "The budget is in US dollars, and the price of a model is unknown. Give a budget in tokens."
            )
        self._usd.append(cost_usd or 0.0)

    @property
    def allows_another(self) -> bool:
        """Whether another question may be started."""
        if not self._tokens:
            return True
        tokens, usd = self._budget.tokens, self._budget.usd
        return (tokens is None or sum(self._tokens) + max(self._tokens) <= tokens) and (
            usd is None or sum(self._usd) + max(self._usd) <= usd
        )


def write_report(file: str | Path, kind: str, page: Callable[[], str], as_json: Callable[[], str]) -> Path:
    """Write a report as its page (``.html``) or as JSON; ``kind`` names it in errors. Raises `InvalidRequestError`."""
    path = Path(file).expanduser()
    if path.suffix.lower() not in (".html", ".json"):
        raise InvalidRequestError(f"{str(path)!r} cannot be written: a {kind} is saved as .html or .json.")
    try:
        path.write_text(page() if path.suffix.lower() == ".html" else as_json(), encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    return path
