"""State of one request outside the model: what it has generated, and whether it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Tokens

from stretto.foundation.stop_texts import StopTexts
from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.drafting.sources.texts import DraftText
from stretto.local_engine.generation import Figures, Finished, Generation, Piece, Reason, TokenLogprob
from stretto.local_engine.serving.batch_members import Step
from stretto.local_engine.text.detokenize import TextStream


class _Account:
    """Statistics of the steps of one request."""

    def __init__(self, decoding: str) -> None:
        self._decoding = decoding
        self._steps = self._rows = self._tokens = self._changed = 0
        self._drafted: Counter[str] = Counter()
        self._accepted: Counter[str] = Counter()
        self._warnings: list[str] = []

    def add(self, step: Step) -> None:
        """Count a step. The forward that read the prompt does not count."""
        self._warnings += step.warnings
        draft = step.draft
        if step.rows:
            self._steps += step.forwards
            self._rows += step.rows
            self._tokens += len(step.tokens)
        if draft is None:
            return
        self._steps += 1
        self._rows += 1 + len(draft)
        self._tokens += 1 + len(step.accepted)
        self._changed += step.changed
        if len(draft):
            self._drafted.update(source or step.drafter for source in draft.sources)
            self._accepted.update(draft.sources[node] or step.drafter for node in step.accepted)

    def warn(self, message: str) -> None:
        """Record a problem that did not affect the answer."""
        self._warnings.append(message)

    def figures(self) -> Figures:
        """Return the counts so far."""
        counts = (self._steps, self._rows, self._tokens)
        sources = (dict(self._drafted), dict(self._accepted))
        return Figures(self._decoding, *counts, *sources, self._changed, tuple(self._warnings))


class Sequence:
    """Tokens and text of one request, and its end.

    Args:
        request: the request.
        decode: converts token ids to text.
        constraint: keeps the answer to its format, if it has one.
        token_bytes: returns the bytes of a token; see `TextStream`.

    Attributes:
        generated: tokens so far, including an end token.
        cached: number of prompt tokens whose keys and values were copied.
        writing: the answer, as others can draft from it.
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
        self.generated: list[int] = []
        self.cached = 0
        self.writing: DraftText | None = None
        self._account = _Account(request.decoding)
        self._text = TextStream(decode, token_bytes)
        self._stops = StopTexts(request.stop)
        self._silent: list[int] = []  # tokens generated since the last piece
        self._silent_scores: list[TokenLogprob] = []

    def accept(self, step: Step) -> tuple[Piece | None, Finished | None]:
        """Append the tokens that a step has committed, except those after an end. Raises the step's failure.

        Returns:
            the text that is now final, if any, and the end, if reached.
        """
        self._account.add(step)
        if step.failure is not None:
            raise step.failure
        tokens = step.tokens
        if not tokens:
            return None, None
        left = self.request.max_new_tokens - len(self.generated)
        if len(tokens) < left and not self.request.stop and self.request.end_ids.isdisjoint(tokens):
            self.generated += tokens  # decoding all of them at once is faster
            self._silent += tokens
            self._silent_scores += step.scores
            return self._piece(self._text.push(tokens)), None
        return self._accept_one_by_one(step)

    def _accept_one_by_one(self, step: Step) -> tuple[Piece | None, Finished | None]:
        text = ""
        reason: Reason | None = None
        for index, token in enumerate(step.tokens):
            self.generated.append(token)
            self._silent.append(token)
            self._silent_scores += step.scores[index : index + 1]
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

    def warn(self, message: str) -> None:
        """Record a problem that did not affect the answer; see `Figures.warnings`."""
        self._account.warn(message)

    @property
    def figures(self) -> Figures:
        """Figures of its steps so far."""
        return self._account.figures()

    def finish(self, reason: Reason) -> Finished:
        """Return the end of this request, with its reason and figures."""
        figures = self.figures if self.generated else None
        return Finished(
            reason,
            len(self.request.prompt),
            self.cached,
            completion_tokens=len(self.generated),
            figures=figures,
            stop_text=self._stops.found,
        )

    def _piece(self, text: str, *, last: bool = False) -> Piece | None:
        if not text and not (last and self._silent_scores):
            return None
        piece = Piece(text, tuple(self._silent), tuple(self._silent_scores))
        self._silent, self._silent_scores = [], []
        return piece
