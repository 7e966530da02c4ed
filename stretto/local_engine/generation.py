"""Requests to the engine and their results: token ids in, pieces of text out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from stretto.values.errors import InvalidRequestError, StrettoError

Reason = Literal["stop", "length", "cancelled", "error"]

Stage = Literal["submitted", "admitted", "prompt_read", "first_token"]
"""Stages of a request before its first text: it is queued; it has a slot and its prompt is being read; the prompt is
read; the first token is chosen."""


@dataclass(frozen=True, slots=True)
class JoinedPaths:
    """Adjacent parts of a prompt that were written in parallel: none of them sees another.

    Each was written after the tokens that all of them see. What follows sees all of them at consecutive positions. With
    ``beside``, it sees them at the positions that they were written at and continues after the longest one, as models
    that fork by themselves are trained to: Yang et al., "Multiverse", arXiv:2506.09991.

    Attributes:
        shared: tokens before the first path.
        lengths: length of each path, in tokens.
        beside: whether all paths begin at the same position.
    """

    shared: int
    lengths: tuple[int, ...]
    beside: bool = False

    @property
    def end(self) -> int:
        """Number of prompt tokens up to the end of the last path."""
        return self.shared + sum(self.lengths)

    def each(self, prompt: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return what each path sees of a prompt: the shared tokens, then its own."""
        found, begin = [], self.shared
        for length in self.lengths:
            found.append(prompt[: self.shared] + prompt[begin : begin + length])
            begin += length
        return found


@dataclass(frozen=True, slots=True)
class Generation:
    """A request to the engine. Raises `InvalidRequestError` for a number out of range.

    Provisional: it may change in any release.

    Attributes:
        prompt: token ids, at least one.
        max_new_tokens: maximum number of tokens to generate; an answer of this length ends with the reason ``length``.
        end_ids: token ids that end the answer; they are counted, but are not part of the text.
        stop: texts that end the answer; neither they nor what follows them is part of the text.
        temperature: 0 always takes the most probable token, and ignores the next four settings. At most 100.
        top_p: sample among the most probable tokens whose probabilities add up to this.
        top_k: sample among this many of the most probable tokens; 0 for all.
        min_p: sample among tokens at least this fraction as probable as the most probable one.
        seed: seed of this request's random numbers; ``None`` draws one.
        repetition_penalty: above 1, tokens of the prompt and the answer so far become less likely; 1 for none.
        logit_bias: numbers added to the logits of some tokens, by token id, after the penalty.
        no_repeat_ngram_size: no n-gram of this size occurs twice in prompt and answer; 0 for no such limit.
        suppress_tokens: token ids that the answer must not contain.
        begin_suppress_tokens: token ids that the answer must not begin with.
        draft: token ids that the answer may resemble; "aggressive", "auto" and "suffix" draft from them.
        tenant: whom the request is for. Nothing that was read or written for one tenant speeds up a request of another:
            neither keys and values nor drafts, nor what was learned about drafts. Requests that name no tenant share
            ``None``. An empty name is for callers that cannot be told apart: earlier answers to them are not used for
            drafts.
        answer: a number shared by all generations of one answer, which draft from each other.
        adapter: name of the attached adapter that it uses; see `Engine.attach_lora`.
        joined: paths in the prompt, one fork after the other. Known keys and values of the last fork's paths are placed
            one after the other instead of being read again.
        decoding: name of the decoding method; see `stretto.local_engine.drafting.catalogue`.
        response_format: a JSON schema or a regular expression that the answer must match; it needs ``end_ids``. An
            answer that ends with the reason ``length`` is the beginning of a match.
        logprobs: report the log-probability of each token and of this many most probable tokens at its
            position, before temperature, penalties, limits and ``response_format``.
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
    no_repeat_ngram_size: int = 0
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    draft: tuple[int, ...] = ()
    tenant: str | None = None
    answer: int | None = None
    adapter: str | None = None
    joined: tuple[JoinedPaths, ...] = ()
    decoding: str = "autoregressive"
    response_format: Mapping[str, Any] | str | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        _whole("max_new_tokens", self.max_new_tokens, 1, None)
        _number("temperature", self.temperature, 0, 100)
        _number("top_p", self.top_p, 0, 1)
        _whole("top_k", self.top_k, 0, None)
        _number("min_p", self.min_p, 0, 1)
        _number("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)
        _whole("no_repeat_ngram_size", self.no_repeat_ngram_size, 0, None)
        for token, bias in self.logit_bias.items():
            _number(f"logit_bias[{token}]", bias, -1e9, 1e9)
        if self.seed is not None:
            _whole("seed", self.seed, None, None)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, 1000)
        for name in ("prompt", "draft", "end_ids", "suppress_tokens", "begin_suppress_tokens"):
            _tokens(name, getattr(self, name))
        previous_end = 0
        for paths in self.joined:
            if not previous_end <= paths.shared or min(paths.lengths, default=0) < 1 or paths.end >= len(self.prompt):
                raise InvalidRequestError(f"joined cannot hold {paths!r} in a prompt of {len(self.prompt)} tokens.")
            previous_end = paths.end
        for text in self.stop:
            if not isinstance(text, str) or not text:
                raise InvalidRequestError(f"stop cannot hold {text!r}: each is a text of at least one character.")

    @property
    def known_by(self) -> Hashable:
        """Key that two requests share if they can copy each other's keys and values."""
        return self.tenant, self.adapter, self.joined


def _tokens(name: str, ids: Iterable[object]) -> None:
    if set(map(type, ids)) <= {int}:  # a prompt can have many
        return
    for token in ids:
        if not isinstance(token, Integral) or isinstance(token, bool):
            raise InvalidRequestError(f"{name} cannot hold {token!r}: token ids are whole numbers.")


def _number(name: str, value: object, least: float, most: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:  # type: ignore[operator]  # it is a number there; NaN is in no range
        raise InvalidRequestError(f"{name}={value!r} cannot be used: it is a number from {least:g} to {most:g}.")


def _whole(name: str, value: object, least: int | None, most: int | None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    low = whole and least is not None and value < least  # type: ignore[operator]  # it is a number there
    high = whole and most is not None and value > most  # type: ignore[operator]  # as above
    if not whole or low or high:
        limits = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
        raise InvalidRequestError(f"{name}={value!r} cannot be used: it is a whole number{limits}.")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of a token of the answer.

    Attributes:
        token: id of the token.
        logprob: natural logarithm of its probability.
        top: the most probable tokens at its position and their log-probabilities, best first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is now final, and the tokens generated since the previous piece.

    Provisional: it may change in any release.

    Attributes:
        text: the new text; only the last piece can be without text, if log-probabilities were requested.
        tokens: the new tokens, including an end token.
        logprobs: log-probability of each of ``tokens``, if requested.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of the forwards that a generation took, and of its drafts.

    Attributes:
        decoding: name of the method.
        steps: forwards after the prompt was read.
        rows: tokens evaluated in these forwards: the last committed token and the nodes of the draft.
        tokens: tokens committed by these forwards. An answer's first token is not counted: it comes with the prompt.
        drafted: nodes evaluated, by source.
        accepted: nodes accepted, by source.
        changed: tokens that a lossy method accepted without verification, and that the model would not have chosen;
            0 for every other method.
        warnings: problems that did not affect the answer, such as a drafter that failed.
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
        """Average number of tokens committed per forward; 1 without drafts."""
        return self.tokens / self.steps if self.steps else 1.0

    @property
    def rows_per_step(self) -> float:
        """Average number of rows evaluated per forward; 1 without drafts."""
        return self.rows / self.steps if self.steps else 1.0

    @property
    def divergence(self) -> float:
        """Share of the tokens that a lossy method changed."""
        return self.changed / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a generation; nothing follows it.

    Provisional: it may change in any release.

    Attributes:
        reason: ``stop`` for an end token or a stop text, ``length`` for the token limit, ``cancelled``, ``error``.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens whose keys and values were copied from a running or an earlier request.
        completion_tokens: tokens generated, including an end token.
        error: what failed, if ``reason`` is ``error``.
        figures: counts of its steps; ``None`` if it generated nothing.
        stop_text: the stop text that ended it.
    """

    reason: Reason
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: StrettoError | None = None
    figures: Figures | None = field(default=None, compare=False)
    stop_text: str | None = field(default=None, compare=False)
