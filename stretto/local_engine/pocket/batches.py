"""Examples as tensors: encoded, cut, grouped by length and padded on the right."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from tokenizers import Tokenizer
from torch import Tensor

from stretto.local_engine.pocket import tokenizer as texts
from stretto.local_engine.pocket.corpus import Corpus, Example

__all__ = ["Batch", "Encoded", "Feeder", "encode"]


@dataclass(frozen=True)
class Encoded:
    """One example in tokens; ``learned`` is the place of the first token that carries loss."""

    task: str
    tokens: list[int]
    learned: int


@dataclass(frozen=True)
class Batch:
    """Rows of similar length: ``tokens`` and ``targets`` are [rows, length], -1 where nothing is learned."""

    tokens: Tensor
    targets: Tensor
    tasks: list[str]


def encode(example: Example, tokenizer: Tokenizer, context: int) -> Encoded:
    """``example`` in tokens, at most ``context`` of them."""
    if example.raw:
        tokens = tokenizer.encode(texts.BEGIN + example.answer, add_special_tokens=False).ids
        return Encoded(example.task, tokens[:context], 1)
    prompt = tokenizer.encode(texts.render_chat(example.turns), add_special_tokens=False).ids
    answer = tokenizer.encode(example.answer, add_special_tokens=False).ids
    if example.limit is None:
        answer.append(texts.token_id(tokenizer, texts.END))
    else:
        answer = answer[: example.limit]
    return Encoded(example.task, (prompt + answer)[:context], len(prompt))


class Feeder:
    """Makes the batches of a training step from the step's number alone, so that training resumes exactly.

    ``mix`` gives each task's share of the tokens; how often a task is drawn follows from the mean length of its
    examples.
    """

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, mix: Mapping[str, float], context: int, seed: int) -> None:
        self.corpus, self.tokenizer, self.context, self.seed = corpus, tokenizer, context, seed
        self.names = [name for name, share in mix.items() if share > 0]
        chance = random.Random(f"{seed}: lengths")  # noqa: S311 - no secrets
        rates = []
        for name in self.names:
            lengths = [len(self._encoded(name, chance).tokens) for _ in range(60)]
            rates.append(mix[name] / (sum(lengths) / len(lengths)))
        self.cumulated = list(accumulate(rates))

    def _encoded(self, task: str, chance: random.Random) -> Encoded:
        return encode(self.corpus.draw(task, chance), self.tokenizer, self.context)

    def step(self, number: int, tokens: int, micro: int) -> list[Batch]:
        """The batches of step ``number``: about ``tokens`` tokens, in batches of at most ``micro``."""
        chance = random.Random(f"{self.seed}: step {number}")  # noqa: S311 - no secrets
        drawn: list[Encoded] = []
        while tokens > 0:
            drawn.append(self._encoded(chance.choices(self.names, cum_weights=self.cumulated)[0], chance))
            tokens -= len(drawn[-1].tokens)
        drawn.sort(key=lambda one: len(one.tokens))
        batches: list[Batch] = []
        group: list[Encoded] = []
        for one in drawn:
            if group and len(one.tokens) * (len(group) + 1) > micro:
                batches.append(_padded(group))
                group = []
            group.append(one)
        batches.append(_padded(group))
        return batches


def _padded(group: list[Encoded]) -> Batch:
    """Pad to one of few shapes: kernels are built once per shape, so every new shape costs time."""
    longest = max(len(one.tokens) for one in group) - 1
    grain = 16 if longest <= 128 else 64
    length = -(-longest // grain) * grain
    grain = 256 // math.gcd(256, length) if length <= 256 else 1
    rows = -(-len(group) // grain) * grain
    tokens = torch.zeros((rows, length), dtype=torch.long)
    targets = torch.full((rows, length), -1, dtype=torch.long)
    for row, one in enumerate(group):
        ids = torch.tensor(one.tokens)
        tokens[row, : len(ids) - 1] = ids[:-1]
        targets[row, one.learned - 1 : len(ids) - 1] = ids[one.learned :]
    return Batch(tokens, targets, [one.task for one in group] + [""] * (rows - len(group)))
