"""What a drafter is: something that proposes a tree of tokens, and learns from what became of it.

Plain Python values and arrays only, so that a drafter needs no tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stretto.local_engine.draft_tree import DraftTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Context", "Drafter", "Outcome"]


@dataclass(slots=True)
class Context:
    """What a drafter sees of its sequence.

    Attributes:
        tokens: prompt and answer so far; the engine appends to it, nothing is ever taken away.
        prompt_length: how many of them are the prompt.
        vocabulary: token ids are below this.
        greedy: whether the most probable token is taken each time: no sampling, no penalty, no bias, no constraint.
        ends: tokens that end the answer; nothing behind one is accepted.
        held: whether the answer is held to a format: some of what is drafted may not follow, and is left out.
        rank: which tokens the request would choose if its model said these logits # [vocabulary] after a path of
            drafted tokens, so many of them, its first choice first: with its temperature, limits, penalties, bias and
            constraint, and with the random numbers of that place. `None` outside an engine.
    """

    tokens: list[int]
    prompt_length: int
    vocabulary: int
    greedy: bool = True
    ends: frozenset[int] = frozenset()
    held: bool = False
    rank: Callable[[Any, Sequence[int], int], list[int]] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a draft.

    Attributes:
        rows: for each node of the draft, the row in which it was evaluated; -1 if it was pruned.
        top_tokens: for each row its most probable next tokens, the most probable one first; row 0 is the last
            token committed before this step. # [rows, k], k as the drafter wants it
        top_probabilities: their probabilities, at temperature 1, before penalties and limits. # [rows, k]
        path: the tokens committed by this step: the accepted ones and, last, the one the model chose itself.
        accepted: the draft's nodes that were accepted, in order; none of them deeper than ``len(path) - 1``.
    """

    rows: Sequence[int]
    top_tokens: NDArray[np.int64]
    top_probabilities: NDArray[np.float32]
    path: Sequence[int]
    accepted: Sequence[int]

    def seen_by(self, nodes: Sequence[int]) -> Outcome:
        """The same for a draft that was merged into this one; ``nodes`` tells where its nodes are now."""
        taken = set(self.accepted)
        return Outcome(
            rows=[self.rows[node] for node in nodes],
            top_tokens=self.top_tokens,
            top_probabilities=self.top_probabilities,
            path=self.path,
            accepted=[own for own, node in enumerate(nodes) if node in taken],
        )


@runtime_checkable
class Drafter(Protocol):
    """Proposes what comes next in one sequence. Each sequence has its own.

    Attributes:
        name: of the method; the source of its nodes in the statistics.
        wants_top: how many most probable tokens of each row it wants to see in `Outcome`; 0 for none.
    """

    name: str
    wants_top: int

    def propose(self, context: Context, rows: int) -> DraftTree:
        """Draft at most ``rows`` nodes after ``context.tokens``; fewer, or none, where that pays more.

        More are pruned by their survival; where the tree has a step cost, by what others' nodes are worth. Nothing is
        sampled at random that the request's seed does not fix.
        """
        ...

    def learn(self, context: Context, outcome: Outcome) -> None:
        """Take note of a step; ``context.tokens`` ends with ``outcome.path`` already.

        Also called once after the prompt was read, with no nodes and row 0 for the prompt's last token.
        """
        ...
