"""One request on its way through the engine: what it has generated, and whether it is at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Tokens

from stretto.local_engine.detokenize import StopTexts, TextStream
from stretto.local_engine.drafting.protocol import DraftTree
from stretto.local_engine.generation import Figures, Finished, Generation, Piece, Reason

__all__ = ["Account", "Sequence"]


class Account:
    """Counts what the steps of one request did."""

    def __init__(self, decoding: str) -> None:
        self._decoding = decoding
        self._steps = self._rows = self._tokens = self._changed = 0
        self._drafted: Counter[str] = Counter()
        self._accepted: Counter[str] = Counter()

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

    def figures(self) -> Figures:
        """The counts so far."""
        counts = (self._steps, self._rows, self._tokens)
        return Figures(self._decoding, *counts, dict(self._drafted), dict(self._accepted), self._changed)


class Sequence:
    """The state of one request outside the model: tokens, text, end."""

    def __init__(self, request: Generation, decode: Callable[[Tokens[int]], str]) -> None:
        self.request = request
        self.generated: list[int] = []
        self.cached = 0
        self.account = Account(request.decoding)
        self._text = TextStream(decode)
        self._stops = StopTexts(request.stop)
        self._silent: list[int] = []  # tokens generated since the last piece

    def accept(self, tokens: Tokens[int]) -> tuple[Piece | None, Finished | None]:
        """Take the tokens the model has committed; those after an end are dropped.

        Returns:
            the text that is now certain, if any, and the end, if reached.
        """
        text = ""
        reason: Reason | None = None
        for token in tokens:
            self.generated.append(token)
            self._silent.append(token)
            if token in self.request.end_ids:
                reason = "stop"
                break
            certain, found = self._stops.push(self._text.push([token]))
            text += certain
            if found:
                return self._piece(text), self.finish("stop")
            if len(self.generated) >= self.request.max_new_tokens:
                reason = "length"
                break
        if reason is None:
            return self._piece(text), None
        certain, found = self._stops.push(self._text.flush())
        text += certain if found else certain + self._stops.flush()
        return self._piece(text), self.finish("stop" if found else reason)

    def finish(self, reason: Reason) -> Finished:
        """Account for this request at its end."""
        figures = self.account.figures() if self.generated else None
        return Finished(
            reason, len(self.request.prompt), self.cached, completion_tokens=len(self.generated), figures=figures
        )

    def _piece(self, text: str) -> Piece | None:
        if not text:
            return None
        tokens, self._silent = tuple(self._silent), []
        return Piece(text, tokens)
