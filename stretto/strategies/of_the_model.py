"""What is known of an answer's model, from checks and earlier answers: its speed, its lengths, what it holds."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.abilities import abilities_of
from stretto.backends.base import Backend, Measured, measured_by
from stretto.backends.load import load_of
from stretto.local_engine.drafting.step_cost import CostTable
from stretto.request import Request
from stretto.route import Shape
from stretto.router.forecast import TOKENS_BY_SHAPE
from stretto.router.lengths import lengths_of
from stretto.router.standing import Kind, standing_of
from stretto.strategies.branch import RunningBranch

__all__ = ["OfTheModel"]


class OfTheModel:
    """What is known of one model, which an answer adds to.

    Args:
        backend: of the answer.
        language: of the question; what a model holds differs by language.
    """

    def __init__(self, backend: Backend, language: str) -> None:
        self._backend = backend
        self._language = language

    @property
    def measured(self) -> Measured | None:
        """What the backend has measured of its speed, if it is a local one."""
        return measured_by(self._backend)

    def cost_of(self, streams: int) -> float | None:
        """How many times as long a token takes while so many calls run; ``None`` where that was not measured."""
        load, kept = load_of(self._backend), abilities_of(self._backend)
        table = load.step_ms
        if not table:
            seen = {**({} if kept is None else kept.tokens_per_s), **load.tokens_per_s}
            table = {number: 1000 / rate for number, rate in seen.items()}
        if 1 not in table or max(table) < 2:
            return None
        cost = CostTable(table)
        return cost(streams) / cost(1)

    def is_proven(self, kind: Kind) -> bool:
        """Whether its last answers of this kind went well, in the answer's language."""
        return standing_of(self._backend, kind, self._language).proven

    def note_standing(self, kind: Kind, request: Request, *, held: bool) -> None:
        """Note whether it held an answer of this kind (`stretto.router.standing`) in the answer's language.

        A failure counts only where the router had chosen to answer like this.
        """
        if held or request.strategy == "auto":
            standing_of(self._backend, kind, self._language).note(held=held)

    def note_lengths(self, shape: Shape, branches: Sequence[RunningBranch]) -> None:
        """Note how long a direct answer to a question of this shape turned out, an outline, or its points.

        What was cut short tells nothing, unless it was long already.
        """
        lengths = lengths_of(self._backend)
        for running in branches:
            branch = running.branch
            if branch is None or branch.tool_calls or branch.writers:
                continue
            tokens = branch.usage.completion_tokens - branch.usage.discarded_tokens
            ended = tokens > 0 and branch.status == "finished" and branch.finish_reason == "stop"
            if branch.kind == "outline" and ended:
                lengths.note("outline", tokens)
            elif branch.kind == "point" and ended:
                lengths.note("point", tokens)
            elif branch.kind == "direct" and running.in_answer:
                cut_late = branch.finish_reason == "length" and tokens >= TOKENS_BY_SHAPE[shape]
                if ended or cut_late:
                    lengths.note(shape, tokens)
