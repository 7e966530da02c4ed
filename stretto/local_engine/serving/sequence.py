"""One request on its way through the engine: what it has generated, and whether it is at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Tokens

from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import Figures, Finished, Generation, Piece, Reason, TokenLogprob
from stretto.local_engine.text.detokenize import TextStream
from stretto.stop_texts import StopTexts

__all__ = ["Account", "Sequence"]


class Account:
    """Counts what the steps of one request did."""

    def __init__(self, decoding: str) -> None:
        self._decoding = decoding
        self._steps = self._rows = self._tokens = self._changed = 0
        self._drafted: Counter[str] = Counter()
        self._accepted: Counter[str] = Counter()
        self._warnings: list[str] = []

    def step(self, draft: DraftTree, nodes: Tokens[int], source: str, changed: int = 0) -> None:
        """Count a forward: its rows, and what it committed, the accepted ``nodes`` and one token more.

        ``source`` names the nodes that name none; ``changed`` of the accepted would not have been chosen.
        """
        self._steps += 1
        self._rows += 1 + len(draft)
        self._tokens += 1 + len(nodes)
        self._changed += changed
        if len(draft):
            self._drafted.update(name or source for name in draft.sources)
            self._accepted.update(draft.sources[node] or source for node in nodes)

    def warn(self, message: str) -> None:
        """Note something that went wrong without harm to the answer."""
        self._warnings.append(message)

    def figures(self) -> Figures:
        """The counts so far."""
        counts = (self._steps, self._rows, self._tokens)
        sources = (dict(self._drafted), dict(self._accepted))
        return Figures(self._decoding, *counts, *sources, self._changed, tuple(self._warnings))


class Sequence:
    """The state of one request outside the model: tokens, text, end.

    Attributes:
        constraint: what the answer is held to, if anything.
        failure: what went wrong with this request alone while its tokens were chosen; `accept` raises it.
        scores: log-probabilities of tokens that are about to be accepted, if they were asked for.
    """

    def __init__(
        self,
        request: Generation,
        decode: Callable[[Tokens[int]], str],
        constraint: Constraint | None = None,
        token_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        self.request = request
        self.constraint = constraint
        self.failure: Exception | None = None
        self.scores: Tokens[TokenLogprob] = ()
        self.generated: list[int] = []
        self.cached = 0
        self.account = Account(request.decoding)
        self._text = TextStream(decode, token_bytes)
        self._stops = StopTexts(request.stop)
        self._silent: list[int] = []  # tokens generated since the last piece
        self._silent_scores: list[TokenLogprob] = []

    def accept(self, tokens: Tokens[int]) -> tuple[Piece | None, Finished | None]:
        """Take the tokens the model has committed; those after an end are dropped.

        Returns:
            the text that is now certain, if any, and the end, if reached.
        """
        if self.failure is not None:
            raise self.failure
        text = ""
        reason: Reason | None = None
        room = self.request.max_new_tokens - len(self.generated)
        if len(tokens) < room and not self.request.stop and self.request.end_ids.isdisjoint(tokens):
            self.generated += tokens  # one text made of all of them takes less time
            self._silent += tokens
            self._silent_scores += self.scores
            return self._piece(self._text.push(tokens)), None
        for place, token in enumerate(tokens):
            self.generated.append(token)
            self._silent.append(token)
            self._silent_scores += self.scores[place : place + 1]
            if token in self.request.end_ids:
                reason = "stop"
                break
            certain, found = self._stops.push(self._text.push([token]))
            text += certain
            if found:
                return self._piece(text, last=True), self.finish("stop")
            if len(self.generated) >= self.request.max_new_tokens:
                reason = "length"
                break
        if reason is None:
            return self._piece(text), None
        certain, found = self._stops.push(self._text.flush())
        text += certain if found else certain + self._stops.flush()
        return self._piece(text, last=True), self.finish("stop" if found else reason)

    def finish(self, reason: Reason) -> Finished:
        """Account for this request at its end."""
        figures = self.account.figures() if self.generated else None
        return Finished(
            reason, len(self.request.prompt), self.cached, completion_tokens=len(self.generated), figures=figures
        )

    def _piece(self, text: str, *, last: bool = False) -> Piece | None:
        if not text and not (last and self._silent_scores):
            return None
        piece = Piece(text, tuple(self._silent), tuple(self._silent_scores))
        self._silent, self._silent_scores = [], []
        return piece
