"""What a run over many questions has done and spent, whether it may go on, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from stretto.values.errors import InvalidRequestError

Progress = Callable[[int, int, str], None]
"""Called with the steps that are done, all steps, and what comes next."""


@dataclass(frozen=True)
class Spending:
    """The most that a run may spend, all models together; ``None`` is no limit.

    A question whose expected price, that of the dearest question so far, does not fit any more is not begun.

    Attributes:
        tokens: read and written.
        usd: US dollars, for models whose price is known.
    """

    tokens: int | None = None
    usd: float | None = None


def total(costs: Iterable[float | None]) -> float | None:
    """All of them together; ``None`` where one is unknown."""
    every = list(costs)
    return None if None in every else sum(each for each in every if each is not None)


class Steps:
    """Tells the progress of a run of so many steps."""

    def __init__(self, whole: int, progress: Progress | None) -> None:
        self._done, self._whole, self._progress = 0, whole, progress or (lambda *_: None)

    def next(self, doing: str) -> None:
        self._progress(self._done, self._whole, doing)
        self._done += 1


class Ledger:
    """What was spent, and whether the dearest question so far still fits."""

    def __init__(self, budget: Spending | None) -> None:
        self._budget = budget or Spending()
        self._tokens: list[int] = []
        self._usd: list[float] = []

    def add(self, tokens: int, cost_usd: float | None) -> None:
        """Count a question. Raises `InvalidRequestError` where its price has to be known and is not."""
        self._tokens.append(tokens)
        if cost_usd is None and self._budget.usd is not None:
            raise InvalidRequestError(
                "The budget is in US dollars, and the price of a model is unknown. Give a budget in tokens."
            )
        self._usd.append(cost_usd or 0.0)

    @property
    def allows_another(self) -> bool:
        """Whether another question may be begun."""
        if not self._tokens:
            return True
        tokens, usd = self._budget.tokens, self._budget.usd
        return (tokens is None or sum(self._tokens) + max(self._tokens) <= tokens) and (
            usd is None or sum(self._usd) + max(self._usd) <= usd
        )


def write_report(file: str | Path, kind: str, page: Callable[[], str], as_json: Callable[[], str]) -> Path:
    """Write a report as its page (``.html``) or as JSON; ``kind`` is what it is of. Raises `InvalidRequestError`."""
    path = Path(file).expanduser()
    if path.suffix.lower() not in (".html", ".json"):
        raise InvalidRequestError(f"{str(path)!r} cannot be written: a {kind} is saved as .html or .json.")
    try:
        path.write_text(page() if path.suffix.lower() == ".html" else as_json(), encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    return path
