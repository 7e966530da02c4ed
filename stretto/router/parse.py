"""The parsed question of a request. Each part is parsed once and shared by the router and the chosen strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stretto.foundation.lazy import lazy
from stretto.language.counting import Points, points_in
from stretto.language.folding import fold
from stretto.language.forms import FormName, depth_wanted, form_named, is_of_each, words_wanted
from stretto.language.tails import tails
from stretto.router.demands import items_wanted, wants_brevity, wants_format
from stretto.router.excerpt import excerpt, question_in_context
from stretto.router.given import Change, Doubt, Given, given_in, ordered_change
from stretto.values.request import Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.strategies.items.splitting import NotSplit, Split


USUAL_POINTS = 6  # if the question names no number; the mean in the Skeleton-of-Thought paper is 6.8


@dataclass
class Parse:
    """A question and what is parsed from it, lazily. The route carries it to the strategy.

    Attributes:
        question: the last user turn, which `split` splits into items.
        text: the question, preceded by the previous one if it cannot be understood alone. All else is parsed from it.
        request: the request, for `given`.
    """

    # Not frozen: a frozen dataclass takes longer to create, and has no cached properties.
    question: str
    text: str
    request: Request | None = None

    @classmethod
    def of(cls, request: Request) -> Parse:
        """Return the parse of a request; nothing is parsed yet."""
        return cls(request.question, question_in_context(request), request)

    def __eq__(self, other: object) -> bool:
        """Treat all as equal, so that routes compare by their decisions, whatever has been parsed so far."""
        return other is None or isinstance(other, Parse)

    __hash__ = None  # type: ignore[assignment]  # equality without a meaningful hash

    @lazy
    def folded(self) -> str:
        """The beginning and end of the text, folded."""
        return fold(excerpt(self.text))

    @lazy
    def points(self) -> Points:
        return points_in(self.folded)

    @lazy
    def items(self) -> int:
        """The number of items that the question contains or asks for: by `split`, or else by its form."""
        from stretto.strategies.items.splitting import Split  # noqa: PLC0415 - its patterns are slow to compile

        split = self.split
        return (len(split.items) or split.count) if isinstance(split, Split) else items_wanted(self.text)

    @lazy
    def words(self) -> int | None:
        """The length in words that the question asks for, if it names one for the whole answer."""
        words = words_wanted(self.folded)
        if words is None or not is_of_each(self.folded):
            return words
        return words * (self.points.asked or USUAL_POINTS)

    @lazy
    def depth(self) -> float:
        """The length of each part that the question asks for, as a multiple of the usual length."""
        return depth_wanted(self.folded)

    @lazy
    def form(self) -> FormName | None:
        """The form of the answer that the question asks for, if it names one."""
        return form_named(self.folded)

    @lazy
    def brevity(self) -> str | None:
        """The words that ask for a short answer as a whole."""
        return wants_brevity(self.text)

    @lazy
    def format(self) -> str | None:
        """The words that ask for a machine-readable answer."""
        return wants_format(self.text)

    @lazy
    def tail(self) -> str | None:
        """The words that ask for something that needs the finished list."""
        return wants_finished_list(self.text)

    @lazy
    def given(self) -> Given | Doubt | None:
        """The text to be changed, or why that is in doubt; ``None`` if there is none."""
        return None if self.request is None else given_in(self.request)

    @lazy
    def changes(self) -> Change | None:
        """The change to a text that the question asks for, wherever that text is."""
        return ordered_change(self.question)

    @lazy
    def split(self) -> Split | NotSplit:
        """The task with its items or samples, or why the question cannot be split."""
        from stretto.strategies.items.splitting import split  # noqa: PLC0415 - its patterns are slow to compile

        return split(self.question)


def parse_of(request: Request, route: Route) -> Parse:
    """Return the parse that the route carries, or a new one if that belongs to another question."""
    carried = route.parse
    return carried if isinstance(carried, Parse) and carried.question == request.question else Parse.of(request)


def wants_finished_list(text: str) -> str | None:
    """Return the words that ask for something that needs the finished list, or ``None``."""
    known = tails()
    text = fold(excerpt(text)).strip()
    for link in known.link.finditer(text):
        if found := known.linked.match(text, link.end()):
            return found[1].strip(" ,?")
    other = known.anywhere.search(text)
    if other is None and known.other_letter.search(text):
        other = known.other_scripts.search(text)
    return other[0].strip(" ,.;:!?\n") if other else None
