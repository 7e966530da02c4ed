"""What code reads from a question: each part once, for the router and for the strategy that it chooses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stretto.language.counting import Points, points_in
from stretto.language.folding import fold
from stretto.language.forms import FormName, depth_wanted, form_named, words_wanted
from stretto.request import Request
from stretto.route import Route
from stretto.router.demands import items_wanted, wants_brevity, wants_format
from stretto.router.reading import excerpt, question_in_context
from stretto.router.tails import wants_finished_list

if TYPE_CHECKING:
    from stretto.strategies.items.splitting import NotSplit, Split


@dataclass
class Parse:
    """The question of one request, and what is read from it. It travels on the route to the strategy.

    Attributes:
        question: the last user turn; what is taken apart into items.
        text: the same behind the question before it, where it cannot be understood alone. All else is read from this.
    """

    # Not frozen: freezing takes longer than all else about it.
    question: str
    text: str

    @classmethod
    def of(cls, request: Request) -> Parse:
        """The parse of a request, of which nothing has been read yet."""
        return cls(request.question, question_in_context(request))

    def __eq__(self, other: object) -> bool:
        """Any two are equal: a route is compared by its decision, whoever has read the question so far."""
        return other is None or isinstance(other, Parse)

    __hash__ = None  # type: ignore[assignment]  # a class with its own equality has no hash unless it says so

    @cached_property
    def folded(self) -> str:
        """Head and tail of the text, folded."""
        return fold(excerpt(self.text))

    @cached_property
    def points(self) -> Points:
        """How many points the answer is to have."""
        return points_in(self.folded)

    @cached_property
    def items(self) -> int:
        """Items that the prompt supplies or asks for."""
        return items_wanted(self.text)

    @cached_property
    def words(self) -> int | None:
        """Words that the answer is to have, if the question names a number."""
        return words_wanted(self.folded)

    @cached_property
    def depth(self) -> float:
        """How long parts of the answer are to be, as a multiple of the usual."""
        return depth_wanted(self.folded)

    @cached_property
    def form(self) -> FormName | None:
        """The form of an answer in points, if the question names one."""
        return form_named(self.folded)

    @cached_property
    def brevity(self) -> str | None:
        """The words that ask for a short answer as a whole."""
        return wants_brevity(self.text)

    @cached_property
    def format(self) -> str | None:
        """The words that ask for a machine-readable answer."""
        return wants_format(self.text)

    @cached_property
    def tail(self) -> str | None:
        """The words that ask for something only the finished list can give."""
        return wants_finished_list(self.text)

    @cached_property
    def split(self) -> Split | NotSplit:
        """The question taken apart into one task and its items or samples, or why that cannot be done."""
        from stretto.strategies.items.splitting import split  # noqa: PLC0415 - its patterns are slow to compile

        return split(self.question)


def parse_of(request: Request, route: Route) -> Parse:
    """The parse that a route carries, if it is of this question; else a new one."""
    carried = route.parse
    return carried if isinstance(carried, Parse) and carried.question == request.question else Parse.of(request)
