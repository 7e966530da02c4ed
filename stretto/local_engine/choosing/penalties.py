"""Changes of logits that depend on the tokens so far: penalties, biases and suppressed tokens.

Each row of a draft tree is changed by the tokens on its path. So a drafted token is compared with the one that
would have been chosen without a draft. The result equals that of transformers' `generate`, whose order is kept: first
the repetition penalty, then suppression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from stretto.local_engine.generation import Generation


class Penalties:
    """Changes that one request's settings make to its logits.

    - ``repetition_penalty``: logits of tokens of the prompt and the answer so far are divided by it where they are
      above 0, else multiplied (Keskar et al., arXiv:1909.05858).
    - ``logit_bias`` is added.
    - ``no_repeat_ngram_size``: no n-gram of this size occurs twice in prompt and answer (Paulus et al.,
      arXiv:1705.04304).
    - ``suppress_tokens`` never occur; ``begin_suppress_tokens`` are not the first token of the answer.

    Args:
        request: has the settings and the prompt.
        device: device of the logits.
    """

    def __init__(self, request: Generation, device: torch.device) -> None:
        self._device = device
        self._factor = request.repetition_penalty
        self._penalised = self._ids(sorted(set(request.prompt)) if self._factor != 1.0 else ())
        self._biased = self._ids(request.logit_bias)
        self._bias = torch.tensor(list(request.logit_bias.values()), dtype=torch.float32, device=device)
        self._suppressed = self._ids(request.suppress_tokens)
        self._at_the_beginning = self._ids(request.begin_suppress_tokens)
        self._committed = 0
        self._ngrams = _Ngrams(request.no_repeat_ngram_size, request.prompt) if request.no_repeat_ngram_size else None
        #: whether some tokens are forbidden entirely
        self.suppresses = bool(self._ngrams is not None or request.suppress_tokens or request.begin_suppress_tokens)
        self.repeated = None if self._factor == 1.0 else request.prompt[0]  #: a token that is penalised in any case
        self.active = self.suppresses or self._factor != 1.0 or bool(request.logit_bias)

    def weigh(self, logits: Tensor, path: Sequence[int]) -> None:
        """Apply penalty and bias to a row's logits in place # [vocabulary].

        ``path``: drafted tokens between the last committed token and what the row predicts.
        """
        if self._factor != 1.0:
            penalised = torch.cat((self._penalised, self._ids(path))) if path else self._penalised
            scores = logits[penalised]
            logits[penalised] = torch.where(scores > 0, scores / self._factor, scores * self._factor)
        if len(self._biased):
            logits[self._biased] += self._bias.to(logits.dtype)

    def weigh_all(self, logits: Tensor, drafted: Tensor) -> None:
        """Apply `weigh` to many rows at once, in place # [rows, vocabulary].

        ``drafted``: the path of each row, padded with `repeated` # [rows, depth]
        """
        if self._factor != 1.0:
            lowered = torch.where(logits > 0, logits / self._factor, logits * self._factor)
            penalised = torch.zeros_like(logits, dtype=torch.bool).index_fill_(1, self._penalised, value=True)
            logits.copy_(torch.where(penalised.scatter_(1, drafted, value=True), lowered, logits))
        if len(self._biased):
            logits.index_add_(1, self._biased, self._bias.to(logits.dtype).expand(len(logits), -1))

    def suppress(self, logits: Tensor, path: Sequence[int]) -> None:
        """Set the logits of forbidden tokens to minus infinity, in place; see `weigh`."""
        if self._ngrams is not None:
            logits[self._ids(self._ngrams.complete(path))] = -torch.inf
        logits[self._suppressed] = -torch.inf
        if not self._committed and not path:
            logits[self._at_the_beginning] = -torch.inf

    def suppress_all(self, logits: Tensor, paths: Sequence[Sequence[int]]) -> None:
        """Apply `suppress` to many rows at once, in place # [rows, vocabulary], with one copy to the device."""
        if self._ngrams is not None:
            pairs = [(row, token) for row, path in enumerate(paths) for token in self._ngrams.complete(path)]
            rows, tokens = torch.tensor(pairs, dtype=torch.long, device=self._device).view(-1, 2).unbind(1)
            logits[rows, tokens] = -torch.inf
        logits[:, self._suppressed] = -torch.inf
        for row, path in enumerate(paths if not self._committed else ()):
            if not path:
                logits[row, self._at_the_beginning] = -torch.inf

    def commit(self, tokens: Sequence[int]) -> None:
        self._committed += len(tokens)
        if self._factor != 1.0:
            # Duplicates stay: removing them would make the host wait for a GPU.
            self._penalised = torch.cat((self._penalised, self._ids(tokens)))
        if self._ngrams is not None:
            self._ngrams.add(tokens)

    def _ids(self, tokens: Iterable[int]) -> Tensor:
        return torch.tensor(list(tokens), dtype=torch.long, device=self._device)


class _Ngrams:
    """The n-grams of a text: for each prefix of n - 1 tokens, those that followed it."""

    def __init__(self, size: int, text: Sequence[int]) -> None:
        self._size = size
        self._tail: tuple[int, ...] = ()  # one token shorter than an n-gram
        self._last: dict[tuple[int, ...], set[int]] = {}
        self.add(text)

    def add(self, tokens: Sequence[int]) -> None:
        for gram in self._ngrams_of(tokens):
            self._last.setdefault(gram[:-1], set()).add(gram[-1])
        text = (*self._tail, *tokens)
        self._tail = text[len(text) - min(self._size - 1, len(text)) :]

    def complete(self, path: Sequence[int]) -> set[int]:
        """Return the tokens that would repeat an n-gram of the text and ``path`` if they came next."""
        text = (*self._tail, *path)
        if len(text) < self._size - 1:
            return set()
        before = text[len(text) - (self._size - 1) :]
        own = {gram[-1] for gram in self._ngrams_of(path) if gram[:-1] == before}
        return self._last.get(before, set()) | own

    def _ngrams_of(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """Return all n-grams that end within ``tokens``, if these come next."""
        text = (*self._tail, *tokens)
        return [text[end - self._size : end] for end in range(max(self._size, len(self._tail) + 1), len(text) + 1)]
