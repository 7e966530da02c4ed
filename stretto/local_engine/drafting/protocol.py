"""Protocol of a drafter, which proposes a tree of tokens and learns from the outcome.

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


@dataclass(slots=True)
class DraftContext:
    """A drafter's view of its sequence.

    Provisional: it may change in any release.

    Attributes:
        tokens: prompt and answer so far; the engine only appends to it.
        prompt_length: number of tokens of the prompt.
        vocabulary: token ids are below this.
        greedy: whether the most probable token is always taken: no sampling, penalty, bias or constraint.
        ends: tokens that end the answer; nothing after one is accepted.
        rank: ``rank(logits, path, k)`` returns the k tokens that this request's sampler ranks highest, best first,
            for the logits # [vocabulary] after a path of drafted tokens. It uses the request's temperature, limits,
            penalties, bias and constraint, and the random numbers of that position. `None` outside an engine.
    """

    tokens: list[int]
    prompt_length: int
    vocabulary: int
    greedy: bool = True
    ends: frozenset[int] = frozenset()
    rank: Callable[[Any, Sequence[int], int], list[int]] | None = None


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """Outcome of a draft.

    Provisional: it may change in any release.

    Attributes:
        rows: for each node of the draft, the row in which it was evaluated; -1 if it was pruned.
        top_tokens: for each row its most probable next tokens, best first; row 0 is the last token committed before
            this step # [rows, k], k being the drafter's `Drafter.wants_top`
        top_probabilities: their probabilities, at temperature 1, before penalties and limits # [rows, k]
        path: the tokens committed by this step: the accepted ones and, last, the one that the model chose itself.
        accepted: the accepted nodes of the draft, in order; none of them deeper than ``len(path) - 1``.
        states: for each row, the concatenated hidden states of the layers that the drafter names in ``wants_states``,
            as a tensor on the model's device # [rows, layers * hidden]
        prompt_states: the same for the prompt's tokens before its last one, once after the prompt was read; the first
            tokens are missing if they were known already or the prompt is long # [tokens, layers * hidden]
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
    """Proposes what comes next in one sequence. Each sequence has its own drafter.

    Provisional: it may change in any release.

    A drafter that reads the model's hidden states names their layers in a further, constant attribute,
    ``wants_states``, numbered as in `stretto.local_engine.model.forward.rows.LayerStates`.

    Attributes:
        name: name of the method; also the source of its nodes in the figures of an answer.
        wants_top: number of most probable tokens of each row that it needs in `DraftOutcome`; 0 for none.
    """

    name: str
    wants_top: int

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """Draft at most ``rows`` nodes after ``context.tokens``, fewer or none if that is faster.

        If there are more, the least likely to survive are pruned. A tree with a step cost can have more: its nodes
        compete with those of the other requests. Proposing twice without `learn` in between gives the same draft.
        Random choices must depend on the request's seed only.
        """
        ...

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """Learn from a step; ``context.tokens`` already ends with ``outcome.path``.

        It is also called once after the prompt was read, without nodes, with row 0 for the prompt's last token.
        """
        ...


class DraftSource(Protocol):
    """Source of guesses for ``auto``, in addition to repetitions.

    Attributes:
        name: name of the source in the figures of an answer.
        kinds: for each node of the last draft, the kind of its guess, a number below 16; guesses of one kind are right
            about equally often.
    """

    name: str
    kinds: list[int]

    def standing(self, context: DraftContext) -> int:
        """Read new tokens, in microseconds, and return how much there is to draft: 0 nothing, 1 something, 2 much."""
        ...

    def propose(self, context: DraftContext, rows: int) -> DraftTree: ...


class Autoregressive:
    """Proposes nothing."""

    name = "autoregressive"
    wants_top = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:  # noqa: ARG002 - the protocol's arguments
        return DraftTree()

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None: ...
