"""What the engine is asked for, and what it hands back: token ids in, pieces of text out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.errors import StrettoError

__all__ = ["Figures", "Finished", "Generation", "Piece", "Reason", "TokenLogprob"]

Reason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One request to the engine.

    Attributes:
        prompt: token ids, at least one.
        max_new_tokens: after so many tokens it ends with the reason ``length``.
        end_ids: token ids that end it; they are counted, and are no part of the text.
        stop: texts that end it; neither they nor what follows them is part of the text.
        temperature: 0 takes the most probable token each time; then the next four are not used.
        top_p: sample among the most probable tokens whose probabilities add up to this.
        top_k: sample among this many most probable tokens; 0 for all.
        min_p: sample among tokens at least this fraction as probable as the most probable one.
        seed: of this request's own random numbers; ``None`` draws one.
        repetition_penalty: above 1, tokens of the prompt and the answer so far become less likely; 1 for none.
        logit_bias: numbers added to the logits of some tokens, after the penalty.
        decoding: name of the decoding method; see `stretto.local_engine.drafting.catalogue`.
        response_format: a JSON schema, or a regular expression, that the answer is held to; it needs ``end_ids``. An
            answer that ends with the reason ``length`` is the beginning of one that matches.
        logprobs: report the log-probability of each token, and of so many of the most probable ones beside it; they
            are the model's own, before temperature, penalties, limits and ``response_format``.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    end_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    decoding: str = "autoregressive"
    response_format: Mapping[str, Any] | str | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How probable the model found a token of the answer.

    Attributes:
        token: its id.
        logprob: natural logarithm of its probability.
        top: the most probable tokens at its place with theirs, the most probable one first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that became certain, and the tokens generated since the piece before it.

    Attributes:
        text: never empty; but where log-probabilities were asked for, the last piece may hold tokens only.
        tokens: an end token included.
        logprobs: of each of ``tokens``, if they were asked for.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """How a generation went, in forwards.

    Attributes:
        decoding: name of the method.
        steps: forwards after the prompt was read.
        rows: evaluated in these forwards: the last committed token and the draft.
        tokens: committed by these forwards. The first token of an answer is not among them: it comes with the prompt.
        drafted: nodes evaluated, by source.
        accepted: those that were accepted.
        changed: tokens that a lossy method took without verification and that the model, given the text before each,
            would have chosen otherwise; 0 for every other method.
        warnings: what went wrong without harm to the answer: a drafter that failed.
    """

    decoding: str = "autoregressive"
    steps: int = 0
    rows: int = 0
    tokens: int = 0
    drafted: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, int] = field(default_factory=dict)
    changed: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def tokens_per_step(self) -> float:
        """Tokens committed by one forward, on average; 1 without drafts."""
        return self.tokens / self.steps if self.steps else 1.0

    @property
    def rows_per_step(self) -> float:
        """Rows evaluated in one forward, on average; 1 without drafts."""
        return self.rows / self.steps if self.steps else 1.0

    @property
    def divergence(self) -> float:
        """Share of the tokens that a lossy method changed."""
        return self.changed / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a generation; nothing follows it.

    Attributes:
        reason: an end token or a stop text, the limit of tokens, ``cancelled``, or a failure.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens whose keys and values were computed for another request: one that ran when
            this one was read, or an earlier one that was kept.
        completion_tokens: tokens generated, an end token included.
        error: what failed, where ``reason`` is ``error``.
        figures: how it went; ``None`` if it never ran.
    """

    reason: Reason
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: StrettoError | None = None
    figures: Figures | None = field(default=None, compare=False)
