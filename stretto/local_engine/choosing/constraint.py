"""Answers constrained to a JSON schema or a regular expression: which tokens can come next.

The grammars are those of llguidance (Earley parsing over a trie of the vocabulary). This module keeps one parser in
step with one answer and the drafts for it.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from stretto.local_engine.choosing.schema_grammar import brief, compile_schema
from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.text.vocabulary import vocabulary
from stretto.values.errors import InvalidRequestError, MissingDependencyError, StrettoError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

ResponseFormat = Mapping[str, Any] | str
"""A JSON schema, or a regular expression that the whole answer matches."""

_KEPT = 32
_LIMITS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], 1, bitorder="little"), np.inf, -np.inf
).astype(np.float32)
"""Limits for the logits of eight tokens, by a byte of mask bits: infinity for an allowed token, else minus infinity."""


class ConstraintError(StrettoError):
    """The grammar cannot continue: it is too complex at this position, or it allows no token."""


class Constraint:
    """A parser kept in step with one answer.

    Args:
        matcher: a matcher at the beginning of the answer; a copy of it is advanced.
        ends: end tokens; allowed only where the answer can end.
        vocabulary: the matcher knows the token ids below this; a model can have more.
        unheld: keywords of the schema that the grammar does not enforce: the answer has to be checked for them.
    """

    def __init__(self, matcher: LLMatcher, ends: frozenset[int], vocabulary: int, unheld: tuple[str, ...] = ()) -> None:
        self.unheld = unheld
        self._beginning = matcher
        self._matcher = matcher.deep_copy()
        self._ends = sorted(ends)
        self._vocabulary = vocabulary
        self._committed: list[int] = []
        self._ahead: list[int] = []  # read by the matcher after the committed tokens

    def restrict(self, logits: Tensor, path: Sequence[int]) -> None:
        """Set the logits of tokens that cannot follow ``path`` to minus infinity, in place # [vocabulary].

        ``path``: drafted tokens after the last committed one. Raises `ConstraintError` where no token can follow.
        """
        self._go_to(path)
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        count = logits.shape[0]
        limits = np.full(max(count, 8 * len(bits)), -np.inf, np.float32)
        np.take(_LIMITS, bits, axis=0, out=limits[: 8 * len(bits)].reshape(-1, 8), mode="clip")
        limits = limits[:count]
        limits[[end for end in self._ends if end < count]] = np.inf if self._matcher.is_accepting() else -np.inf
        if limits.max() < 0:
            raise ConstraintError("response_format allows no token here: nothing the model can write matches it.")
        if logits.device.type == "cpu":  # many times as fast as torch, whose threads would wait for each other
            numbers = logits.numpy()
            np.fmin(numbers, limits, out=numbers)
        else:
            torch.fmin(logits, torch.from_numpy(limits).to(logits.device, logits.dtype), out=logits)

    def legal(self, tree: DraftTree) -> list[bool]:
        """Return for each node of a draft whether it can be accepted: it is allowed, and so are its ancestors.

        Raises `ConstraintError` where the parser fails; call `recover` then.
        """
        legal: list[bool] = []
        paths: list[list[int]] = []
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            before = [] if parent == ROOT else paths[parent]
            paths.append([*before, token])
            reachable = parent == ROOT or legal[parent]
            legal.append(reachable and (token < 0 or self._allows(token, before)))  # a blank node is never accepted
        return legal

    def commit(self, tokens: Sequence[int]) -> None:
        """Advance over committed tokens."""
        read = [token for token in tokens if token not in self._ends]
        self._go_to(read)
        self._ahead = []
        self._committed += read

    def recover(self) -> None:
        """Restart after the committed tokens: a parser that has failed once cannot be used again."""
        self._matcher = self._beginning.deep_copy()
        if self._committed:
            self._matcher.consume_tokens(self._committed)
        self._ahead = []

    def _allows(self, token: int, path: list[int]) -> bool:
        if any(end in path for end in self._ends):
            return False
        self._go_to(path)
        if token in self._ends:
            return self._matcher.is_accepting()
        return token < self._vocabulary and self._matcher.validate_tokens([token]) == 1

    def _go_to(self, path: Sequence[int]) -> None:
        """Move the matcher to the end of ``path``, which follows the committed tokens."""
        pairs = enumerate(zip(self._ahead, path, strict=False))
        same = next((index for index, (a, b) in pairs if a != b), min(len(self._ahead), len(path)))
        if same < len(self._ahead):
            self._matcher.rollback(len(self._ahead) - same)
        if same < len(path):
            self._matcher.consume_tokens(list(path[same:]))
        self._ahead = list(path)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintError(f"response_format cannot be followed any further: {brief(self._matcher.get_error())}")


class Grammars:
    """Factory of the constraints of a model's requests. Safe from any thread.

    Formats are compiled once per tenant: none is ready sooner because another tenant has used it.

    Args:
        tokenizer: the model's tokenizer, from transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._vocabularies: dict[frozenset[int], LLTokenizer] = {}
        self._compiled: OrderedDict[Hashable, tuple[LLMatcher, tuple[str, ...]]] = OrderedDict()

    def constraint(
        self, response_format: ResponseFormat, ends: frozenset[int], tenant: str | None = None
    ) -> Constraint:
        """Make the constraint of one answer.

        The first one for a large vocabulary takes about a second. For some tenths of it llguidance keeps the
        interpreter's lock, and all other threads wait (see `vocabulary`). Later ones let other threads run.

        ``ends``: the end tokens of the answer. Raises `InvalidRequestError` for an invalid JSON schema or regular
        expression, `MissingDependencyError` without llguidance.
        """
        if not ends:
            raise InvalidRequestError("response_format needs an end token, and this request has none. Give it end_ids.")
        key = (tenant, _named(response_format), ends)
        with self._lock:
            found = self._compiled.get(key)
            if found is None:
                found = self._compiled[key] = self._compile(response_format, ends)
            self._compiled.move_to_end(key)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            matcher, unheld = found
            return Constraint(matcher, ends, self._vocabularies[ends].vocab_size, unheld)

    def _compile(self, response_format: ResponseFormat, ends: frozenset[int]) -> tuple[LLMatcher, tuple[str, ...]]:
        try:
            from llguidance import LLMatcher  # noqa: PLC0415 - only for requests that need it
        except ImportError as error:
            raise MissingDependencyError(
                "response_format needs llguidance. Run: pip install 'stretto[local]'"
            ) from error
        if ends not in self._vocabularies:
            self._vocabularies[ends] = _vocabulary(self._tokenizer, ends)
        if not isinstance(response_format, str):
            try:
                return compile_schema(response_format, self._vocabularies[ends])
            except ValueError as error:
                raise _refused(response_format, str(error)) from error
        matcher = LLMatcher(self._vocabularies[ends], LLMatcher.grammar_from_regex(response_format), log_level=0)
        if matcher.is_error():
            raise _refused(response_format, brief(matcher.get_error()))
        return matcher, ()


def _named(response_format: ResponseFormat) -> str:
    """Return the cache key of a format. Raises `InvalidRequestError` for a value that cannot be one."""
    if isinstance(response_format, str):
        return response_format
    if not isinstance(response_format, Mapping):
        raise _refused(response_format, f"it is of the type {type(response_format).__name__}")
    try:
        return json.dumps(dict(response_format))
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(response_format, str(error)) from error


def _vocabulary(tokenizer: Any, ends: frozenset[int]) -> LLTokenizer:
    try:
        return vocabulary(tokenizer, ends)
    except ValueError as error:
        raise InvalidRequestError(
            f"response_format cannot be used with this model: its tokenizer, {type(tokenizer).__name__}, cannot be "
            f"read ({brief(str(error))}). Use a model with a fast tokenizer."
        ) from error


def _refused(response_format: object, cause: str) -> InvalidRequestError:
    shown = repr(response_format)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return InvalidRequestError(
        f"response_format={shown} cannot be used: {cause}. Give a JSON schema as a dict, or a regular expression "
        "without look-around and back references as a string."
    )
