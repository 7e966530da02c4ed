"""Jacobi decoding: all next tokens are guessed at once and corrected together until they no longer change."""

from __future__ import annotations

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["Jacobi"]


class Jacobi:
    """Solves ``y[i] = argmax p(. | prefix, y[:i])`` for a window of tokens by fixed-point iteration.

    The guesses y[1..W] are a chain. One forward gives, for every i, what follows y[i]: that is the next guess at
    y[i + 1]. Where guess and correction agree from the start, the tokens are final, so a step commits at least one.

    Song et al., "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving", ICML 2021; for
    translation, Santilli et al., arXiv:2305.10427.

    Args:
        window: W, tokens guessed at once.
    """

    name = "jacobi"
    wants_top = 1

    def __init__(self, window: int = 8) -> None:
        self._window = window
        self._guess: list[int] = []

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        # The rest is filled with the last correction: any first guess is as good as another.
        filler = (self._guess or context.tokens)[-1]
        guess = self._guess[: self._window] + [filler] * (self._window - len(self._guess))
        tree = DraftTree()
        tree.add_path(guess[:rows], (0.4**depth for depth in range(1, self._window + 1)))
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        # Node i is at the position of path[i] and predicts the one after it, so nodes before the last committed token
        # predict nothing new.
        rows = [row for row in outcome.rows[len(outcome.path) - 1 :] if row >= 0]
        self._guess = [int(outcome.top_tokens[row, 0]) for row in rows]
