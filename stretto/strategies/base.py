"""The protocol of strategies, which turn a request into branches and one merged text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stretto.values.request import Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.runtime.runner import Runner
    from stretto.values.answer import Agreement, Choice, FinishReason
    from stretto.values.citation import Citation, PassageRecord
    from stretto.values.tool_calls import ToolCall


@dataclass(frozen=True, kw_only=True)
class StrategyResult:
    """What a strategy reports about the answer it wrote, in addition to the merged text.

    Provisional: it may change in any release.

    Attributes:
        strategy: the strategy that wrote the answer in the end, if it is not the route's.
        reason: what the strategy found out, as a sentence that follows the reason of the route.
        parsed: the value of an answer that has to follow a format.
        citations: for ``Answer.citations``.
        passages: for ``Answer.passages``.
        tool_calls: for ``Answer.tool_calls``.
        turns: for ``Answer.tool_turns``, if the answer took more than one.
        thoughts: for ``Answer.thoughts``.
        extra: for ``Answer.extra``.
        choices: for ``Answer.choices``.
        agreement: for ``Answer.agreement``.
        ends_as: the finish reason in the strategy's judgement, if no branch ends worse.
        by_itself: the strategy wrote the answer itself, so it does not fail when its branches do.
    """

    strategy: str = ""
    reason: str = ""
    parsed: Any = None
    citations: tuple[Citation, ...] = ()
    passages: tuple[PassageRecord, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    turns: tuple[Mapping[str, Any], ...] = ()
    thoughts: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    agreement: Agreement | None = None
    ends_as: FinishReason | None = None
    by_itself: bool = False


@runtime_checkable
class Strategy(Protocol):
    r"""A way to generate an answer: its generations, and how they become one text.

    Pass one as ``strategy=`` of a request, or register it: ``AsyncStretto(strategies=[MyStrategy()])``. A registered
    strategy can be chosen by name, and the router weighs its offers against those of the others. One object serves all
    requests of a client concurrently, so keep the state of a request in local variables of `run`.

    A class attribute ``options``, a pydantic model, defines what ``strategy_options`` of a request can contain. They
    are checked before the first call; `run` reads them with ``MyOptions(**request.strategy_options)``.

    A strategy starts *branches* (one generation each) on the runner, and adds fixed text and branches to the *merge*,
    in the order of the reader. The runner does the rest: tasks, deadlines, token counts, retries, and ending every
    branch when the answer is cancelled.

    >>> class BothSides:
    ...     name = "both_sides"
    ...
    ...     def offer(self, case: Case) -> Offer | None:
    ...         if "for and against" not in case.text:
    ...             return None
    ...         return Offer(confidence=0.9, reason="Both sides at the same time: they do not build on each other.")
    ...
    ...     async def run(self, request: Request, route: Route, runner: Runner) -> None:
    ...         for side in ("for", "against"):
    ...             asked = Message(role="user", content=f"{request.question} Only what speaks {side} it.")
    ...             prompt = ModelRequest((*request.history, asked))
    ...             branch = runner.start(BranchSpec(side, "section", lambda _, prompt=prompt: prompt, request.options))
    ...             runner.merge.add(f"What speaks {side} it:\n")
    ...             runner.merge.add_branch(branch)
    ...         await runner.merge.finish()
    """

    @property
    def name(self) -> str:
        """The name that callers and routes use; neither "auto" nor the name of another strategy."""
        ...

    def offer(self, case: Case) -> Offer | None:
        """Return how well the strategy suits this request and at what cost; ``None``: not at all.

        This runs for every request, so it must take a fraction of a millisecond and make no call. A strategy that is
        only used by name returns ``None``. For a long request, it runs in a thread. Exceptions are logged and count as
        ``None``, except for `InvalidRequestError`, which ends the request.
        """
        ...

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult | None:
        """Start branches on the runner and add them to its merge; return after ``runner.merge.finish()``.

        The result goes into the answer, in addition to the merged text; ``None``: nothing does.

        A branch that fails is a value, not an exception: its title stays in the text, and the others continue. An
        exception in this method, or in a function that makes a prompt, ends the answer and reaches the caller
        unchanged. The deadline ends this method one second after the branches. To fall back to one generation, pass the
        reason to ``runner.warn`` and return ``await Direct().run(request, route, runner)``
        (`stretto.strategies.direct`).
        """
        ...
