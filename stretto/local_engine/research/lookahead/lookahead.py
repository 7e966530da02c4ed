"""Lookahead decoding: a window of Jacobi trajectories generates n-grams, and those that fit are verified."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome


@dataclass(slots=True)
class _Column:
    """One trajectory: the tokens of levels 1 to N-2, and how many of the last ones the model has generated."""

    tokens: list[int]
    made: int = 0


class Lookahead:
    """Fu et al., "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding", arXiv:2402.02057.

    The window has W columns and N-1 levels. Level 0, a chain of W-1 tokens, is the context of the columns; L1[i]
    follows L0[i-1], and L2[i] to L(N-2)[i] follow L1[i]. The token that the model predicts after L(N-2)[i] completes
    the n-gram (L0[i-1], L1[i], ..., L(N-2)[i], new[i]), which goes into the pool. The levels then move down by one, and
    the columns move left by as many tokens as were accepted. The pool's n-grams that begin with the last committed
    token are the guesses: branches from the root, so that common beginnings are computed once.

    Args:
        window: W, number of columns; 0 for n-grams of the text only. It can be changed between two steps.
        ngram: N, at least 3.
        guesses: G, number of n-grams kept for each first token, and so of guesses in one step.
    """

    name = "lookahead"
    wants_top = 1

    def __init__(self, window: int = 10, ngram: int = 4, guesses: int | None = None) -> None:
        if ngram < 3:
            raise ValueError(f"ngram={ngram} cannot be used: an n-gram of lookahead decoding has at least 3 tokens.")
        self.window = window
        self._levels = ngram - 2
        self._pool = NGramPool(ngram, guesses or max(window, 1))
        self._context: list[int] = []  # level 0
        self._columns: list[_Column] = []
        self._nodes: list[list[int]] = []  # of each column in the last draft, from level 0 to level N-2
        self._random = random.Random(0)  # noqa: S311 - where a trajectory starts is no secret

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`. The window takes at most two thirds of the rows."""
        self._pool.read_on(context.tokens)
        self._fill(context)
        tree = DraftTree()
        self._draw_window(tree, min(self.window, (2 * rows // 3 + 1) // (self._levels + 1)))
        for rank, guess in enumerate(self._pool.get(context.tokens[-1])):
            parent = ROOT
            for depth, token in enumerate(guess, 1):
                if tree.child(parent, token) is None and len(tree) >= rows:
                    break
                parent = tree.add(token, parent, 0.6**depth * 0.8**rank)
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        self._collect(context.tokens[-len(outcome.path) - 1], outcome)
        self._pool.read_on(context.tokens)
        self._nodes = []

    def _fill(self, context: DraftContext) -> None:
        """Start missing trajectories, with tokens drawn at random from the text."""
        while len(self._context) < self.window - 1:
            self._context.append(self._random.choice(context.tokens))
        while len(self._columns) < self.window:
            self._columns.append(_Column(self._random.choices(context.tokens, k=self._levels)))

    def _draw_window(self, tree: DraftTree, width: int) -> None:
        """Add the first ``width`` columns. The ancestors in this tree give the mask of the paper."""
        self._nodes = []
        above = ROOT
        for index, column in enumerate(self._columns[:width]):
            if index:
                above = tree.add(self._context[index - 1], above, 0.1 * 0.5**index, keep=True)
            nodes = [above]
            for level, token in enumerate(column.tokens, 1):
                nodes.append(tree.add(token, nodes[-1], 0.1 * 0.5 ** (index + level), keep=True))
            self._nodes.append(nodes)

    def _collect(self, root: int, outcome: DraftOutcome) -> None:
        """Add the n-grams that this step completed to the pool, and move the window."""
        longer: list[list[int]] = []  # tokens from level 1 to the new one
        for index, nodes in enumerate(self._nodes):
            row = outcome.rows[nodes[-1]]
            if row < 0:  # pruned: this column and the later ones start again
                break
            column = self._columns[index]
            longer.append([*column.tokens, int(outcome.top_tokens[row, 0])])
            column.made += 1
            if column.made > self._levels:
                self._pool.add(self._context[index - 1] if index else root, longer[-1])
                column.made = self._levels
        # Each column has advanced by one token, the text by as many as were committed.
        moved = len(outcome.path) - 1
        columns = self._columns[: len(longer)]
        self._columns = [_Column(tokens[1:], column.made) for tokens, column in zip(longer, columns, strict=True)]
        self._columns = self._columns[moved:]
        self._context = [tokens[0] for tokens in longer[moved + 1 :]]


class NGramPool:
    """A limited number of continuations of each token; the least recently added one is evicted first.

    Args:
        size: number of tokens of an n-gram, including its key.
        per_key: maximum number of continuations of one token.
    """

    def __init__(self, size: int, per_key: int) -> None:
        self.size = size
        self._per_key = per_key
        self._continuations: dict[int, dict[tuple[int, ...], None]] = {}  # oldest first
        self._read = 0

    def add(self, key: int, continuation: Sequence[int]) -> None:
        """Add an n-gram, or mark it as the latest one."""
        known = self._continuations.setdefault(key, {})
        value = tuple(continuation)
        known.pop(value, None)
        known[value] = None
        if len(known) > self._per_key:
            del known[next(iter(known))]

    def read_on(self, text: Sequence[int]) -> None:
        """Add the n-grams of a text that end after the part that was read before."""
        for end in range(max(self._read, self.size - 1), len(text)):
            self.add(text[end - self.size + 1], text[end - self.size + 2 : end + 1])
        self._read = len(text)

    def get(self, key: int) -> list[tuple[int, ...]]:
        """Return the continuations of a token, the latest first."""
        return list(self._continuations.get(key, ()))[::-1]


class Jacobi:
    """Solves ``y[i] = argmax p(. | prefix, y[:i])`` for a window of tokens by fixed-point iteration.

    The guesses y[1..W] are a chain. One forward gives, for every i, what follows y[i], which is the next guess at
    y[i + 1]. As far as guess and correction agree from the start, the tokens are final, so a step commits at least one.

    Song et al., "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving", ICML 2021; for
    translation, Santilli et al., arXiv:2305.10427.

    Args:
        window: W, number of tokens guessed at once.
    """

    name = "jacobi"
    wants_top = 1

    def __init__(self, window: int = 8) -> None:
        self._window = window
        self._guess: list[int] = []

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        # The rest is filled with the last correction: one first guess is as good as another.
        filler = (self._guess or context.tokens)[-1]
        guess = self._guess[: self._window] + [filler] * (self._window - len(self._guess))
        tree = DraftTree()
        tree.add_path(guess[:rows], (0.4**depth for depth in range(1, self._window + 1)))
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:  # noqa: ARG002 - the protocol's arguments
        # Node i is at the position of path[i] and predicts the next one, so nodes before the last committed token
        # predict nothing new.
        rows = [row for row in outcome.rows[len(outcome.path) - 1 :] if row >= 0]
        self._guess = [int(outcome.top_tokens[row, 0]) for row in rows]
