"""Texts in batches of similar length, and the tokens that are frequent in them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from recipes.heads.writing import Written
from recipes.pocket.batches import Encoded

__all__ = ["Batch", "Texts", "frequent"]

_MULTIPLE = 64  # of tokens: so that there are few shapes


@dataclass(frozen=True)
class Batch:
    """Some texts and the places in them that are guessed.

    Attributes:
        tokens: padded on the right # [batch, tokens]
        rows: of each guessed token # [guessed]
        places: of each guessed token # [guessed]
        last: final states that were kept with the answers, zeros before these # [batch, tokens, hidden]; ``None``
            where the model has to read the texts.
    """

    tokens: Tensor
    rows: Tensor
    places: Tensor
    last: Tensor | None = None


class Texts:
    """Texts from which batches are drawn.

    Args:
        texts: prompts with answers; the answers are learned.
        depth: guesses of a head: a token with fewer before it is not learned.
        device: of the batches.
        kept: use the states that were kept with the answers, if they were with all: for a head that reads no others.
            The first tokens of an answer are not learned then.
    """

    def __init__(self, texts: Sequence[Written], depth: int, device: torch.device, *, kept: bool = False) -> None:
        self._depth, self._device = depth, device
        self._kept = kept and all(text.last is not None for text in texts)
        usable = (text for text in texts if len(text.tokens) > self._first(text))
        self.all = sorted(usable, key=lambda text: len(text.tokens))
        self._tokens = [*accumulate(len(text.tokens) for text in self.all)]

    def draw(self, chance: random.Random, tokens: int) -> Batch:
        """Texts of about the same length, with about as many ``tokens`` together; each token is drawn as often."""
        (start,) = chance.choices(range(len(self.all)), cum_weights=self._tokens)
        return self.of(self.all[start : start + max(1, tokens // len(self.all[start].tokens))])

    def of(self, texts: Sequence[Written]) -> Batch:
        """These texts."""
        lengths = torch.tensor([len(text.tokens) for text in texts])
        first = torch.tensor([self._first(text) for text in texts])
        width = -(-int(lengths.max()) // _MULTIPLE) * _MULTIPLE
        tokens = torch.zeros(len(texts), width, dtype=torch.long)
        for row, text in enumerate(texts):
            tokens[row, : len(text.tokens)] = torch.tensor(text.tokens)
        every = torch.arange(width)
        rows, places = ((every >= first[:, None]) & (every < lengths[:, None])).nonzero().unbind(1)
        found = Batch(tokens.to(self._device), rows.to(self._device), places.to(self._device))
        return replace(found, last=self._states(texts, width)) if self._kept else found

    def _first(self, text: Written) -> int:
        """The first token of a text that is learned."""
        return text.learned + self._depth if self._kept else max(text.learned, 1 + self._depth)

    def _states(self, texts: Sequence[Written], width: int) -> Tensor:
        own = [text.last for text in texts if text.last is not None]
        found = torch.zeros(len(own), width, own[0].shape[1])
        for row, (text, states) in enumerate(zip(texts, own, strict=True)):
            found[row, text.learned - 1 : text.learned - 1 + len(states)] = states
        return found.to(self._device)


def frequent(texts: Iterable[Encoded], count: int, always: Collection[int], vocabulary: int) -> Tensor:
    """The tokens that answers are mostly made of, and those that must be among them, ascending # [count]."""
    if count >= vocabulary:
        return torch.arange(vocabulary)
    seen = Counter(token for text in texts for token in text.tokens[text.learned :])
    ranked = [token for token, _ in seen.most_common() if token not in always]
    ranked += [token for token in range(vocabulary) if token not in seen and token not in always]
    return torch.tensor(sorted([*always, *ranked[: count - len(always)]]))
