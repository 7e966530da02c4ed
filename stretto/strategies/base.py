"""What a strategy is: something that turns one request into branches and one merged text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from stretto.request import Request
from stretto.route import Route

if TYPE_CHECKING:
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.fan_out import FanOut


@runtime_checkable
class Strategy(Protocol):
    r"""A way to write an answer: which generations it consists of, and how they become one text.

    Pass one as ``strategy=`` of a request, or register it: ``AsyncStretto(strategies=[MyStrategy()])``. A registered
    strategy is called by its name, and the router weighs its offers against those of the others. One object serves
    all requests of a client, several at a time, so what belongs to one request is kept in variables of `run`.

    A strategy starts *branches* (one generation each) on the runner, and adds fixed text and branches to the *merge*,
    in the order in which they are read. It starts no task, keeps no deadline, counts no tokens and tries nothing
    again: the runner does, and ends every branch when the answer is cancelled.

    >>> class BothSides:
    ...     name = "both_sides"
    ...
    ...     def offer(self, case: Case) -> Offer | None:
    ...         if "for and against" not in case.text:
    ...             return None
    ...         return Offer(confidence=0.9, cause="Both sides at the same time: they do not build on each other.")
    ...
    ...     async def run(self, request: Request, route: Route, runner: FanOut) -> None:
    ...         for side in ("for", "against"):
    ...             asked = Message(role="user", content=f"{request.question} Only what speaks {side} it.")
    ...             prompt = Prompt((*request.history, asked))
    ...             branch = runner.start(BranchSpec(side, "point", lambda prompt=prompt: prompt, request.options))
    ...             runner.merge.add(f"What speaks {side} it:\n")
    ...             runner.merge.add_branch(branch)
    ...         await runner.merge.finish()
    """

    @property
    def name(self) -> str:
        """The name a caller asks for it by, and that routes tell. Not "auto", and no other strategy's."""
        ...

    def offer(self, case: Case) -> Offer | None:
        """Say how well it would serve this request and at what cost; ``None``: not at all.

        Called for every request, so it takes a fraction of a millisecond and makes no call. A strategy that
        is only used by name returns ``None``. What it raises is logged and counts as ``None``, except for
        `InvalidRequestError`, which ends the request.
        """
        ...

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:
        """Start branches on the runner and add them to its merge; return once ``runner.merge.finish()`` has.

        A branch that fails is a value, not an exception: its title stays in the text, and the others go on. What this
        method raises ends the answer; raise `StrettoError`. To turn to one straight answer after all, say why with
        ``runner.warn`` and return ``await Direct().run(request, route, runner)`` (`stretto.strategies.direct`).
        """
        ...
