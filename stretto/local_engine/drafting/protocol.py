"""The protocol of a drafter: it proposes a tree of tokens, and learns what became of it.

It uses plain Python values and NumPy arrays only, so that a drafter needs no tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stretto.local_engine.draft_tree import DraftTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Autoregressive", "DraftContext", "DraftOutcome", "DraftSource", "Drafter"]


@dataclass(slots=True)
class DraftContext:
    """What a drafter sees of its sequence.

    Provisional: it may change in any release.

    Attributes:
        tokens: prompt and answer so far; the engine appends to it and never removes any.
        prompt_length: number of tokens of the prompt.
        vocabulary: token ids are below this.
        greedy: whether the most probable token is taken each time: no sampling, no penalty, no bias, no constraint.
        ends: tokens that end the answer; nothing behind one is accepted.
        rank: ``rank(logits, path, k)`` gives the k tokens that this request's sampler ranks highest, best first, after
            a path of drafted tokens, where the model gives these logits # [vocabulary]. It uses the request's
            temperature, limits, penalties, bias and constraint, and the random numbers of that position. `None` outside
            an engine.
    """

    tokens: list[int]
    prompt_length: int
    vocabulary: int
    greedy: bool = True
    ends: frozenset[int] = frozenset()
    rank: Callable[[Any, Sequence[int], int], list[int]] | None = None


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """What became of a draft.

    Provisional: it may change in any release.

    Attributes:
        rows: for each node of the draft, the row in which it was evaluated; -1 if it was pruned.
        top_tokens: for each row its most probable next tokens, best first; row 0 is the last token committed before
            this step # [rows, k], k being the drafter's `Drafter.wants_top`
        top_probabilities: their probabilities, at temperature 1, before penalties and limits # [rows, k]
        path: the tokens committed by this step: the accepted ones and, last, the one that the model chose itself.
        accepted: the draft's nodes that were accepted, in order; none of them deeper than ``len(path) - 1``.
        states: for each row the hidden states of the layers that the drafter names in ``wants_states``, side by side,
            as a tensor on the model's device # [rows, layers * hidden]
        prompt_states: the same of the tokens in front of the last one of the prompt, once after the prompt was read;
            fewer than there are where the first ones were known already, or are many # [tokens, layers * hidden]
    """

    rows: Sequence[int]
    top_tokens: NDArray[np.int64]
    top_probabilities: NDArray[np.float32]
    path: Sequence[int]
    accepted: Sequence[int]
    states: Any = None
    prompt_states: Any = None


@runtime_checkable
class Drafter(Protocol):
    """Proposes what comes next in one sequence. Each sequence has its own.

    Provisional: it may change in any release.

    A drafter that reads the model's hidden states names their layers in a further attribute, ``wants_states``, as
    `stretto.local_engine.model.forward.rows.LayerStates` numbers them; it does not change.

    Attributes:
        name: of the method; also the source of its nodes in the figures of an answer.
        wants_top: number of most probable tokens of each row that it needs in `DraftOutcome`; 0 for none.
    """

    name: str
    wants_top: int

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """Draft at most ``rows`` nodes after ``context.tokens``, fewer or none if that is faster.

        If there are more, the least likely to survive are pruned. A tree with a step cost may have more: its nodes
        compete with those of the other requests. Proposing twice without `learn` in between gives the same draft.
        Random choices must depend on the request's seed only.
        """
        ...

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """Learn from a step; ``context.tokens`` ends with ``outcome.path`` already.

        It is also called once after the prompt was read, without nodes, with row 0 for the prompt's last token.
        """
        ...


class DraftSource(Protocol):
    """Where ``auto`` takes guesses from, beside repetitions.

    Attributes:
        name: of the source in the figures of an answer.
        kinds: for each node of the last draft, what kind of guess it is, a number below 16; guesses of a kind are right
            about as often.
    """

    name: str
    kinds: list[int]

    def standing(self, context: DraftContext) -> int:
        """Read on, in microseconds, and tell how much there is to draft: 0 nothing, 1 something, 2 much."""
        ...

    def propose(self, context: DraftContext, rows: int) -> DraftTree: ...


class Autoregressive:
    """Proposes nothing."""

    name = "autoregressive"
    wants_top = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:  # noqa: ARG002 - the protocol's arguments
        return DraftTree()

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None: ...
