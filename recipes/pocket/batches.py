"""Examples as tensors: encoded, cut, grouped by length and packed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from tokenizers import Tokenizer
from torch import Tensor

from recipes.pocket import tokenizer as texts
from recipes.pocket.corpus import Corpus, Example
from recipes.pocket.network import Packed

__all__ = ["Batch", "Encoded", "Feeder", "encode"]


@dataclass(frozen=True)
class Encoded:
    """One example in tokens; ``learned`` is the place of the first token that carries loss."""

    task: str
    tokens: list[int]
    learned: int


@dataclass(frozen=True)
class Batch:
    """Examples of similar length, packed."""

    packed: Packed
    targets: Tensor  # [tokens], -1 where nothing is learned
    owners: Tensor  # [learned]: the number of the example each learned token belongs to, in reading order
    tasks: list[str]
    size: int  # tokens of the examples, without padding


def encode(example: Example, tokenizer: Tokenizer, context: int) -> Encoded:
    """``example`` in tokens, at most ``context`` of them."""
    if example.raw:
        given, tokens = (
            tokenizer.encode(text, add_special_tokens=False).ids
            for text in (texts.BEGIN + example.given, example.answer)
        )
        return _cut(example.task, given, tokens, context)
    prompt = tokenizer.encode(texts.render_chat(example.turns), add_special_tokens=False).ids
    answer = tokenizer.encode(example.answer, add_special_tokens=False).ids
    if example.limit is None:
        answer.append(texts.token_id(tokenizer, texts.END))
    else:
        answer = answer[: example.limit]
    return _cut(example.task, prompt, answer, context)


def _cut(task: str, given: list[int], learned: list[int], context: int) -> Encoded:
    return Encoded(task, (given + learned)[:context], min(len(given), context))


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
        size = 0
        for one in drawn:
            if group and (size + len(one.tokens) > micro or len(one.tokens) > 1.5 * len(group[0].tokens)):
                batches.append(_packed(group))
                group, size = [], 0
            group.append(one)
            size += len(one.tokens) - 1
        batches.append(_packed(group))
        return batches


def _packed(group: list[Encoded]) -> Batch:
    packed = Packed.of([one.tokens[:-1] for one in group])
    targets = torch.full_like(packed.tokens, -1)
    end = 0
    for one in group:
        start, end = end, end + len(one.tokens) - 1
        targets[start + one.learned - 1 : end] = torch.tensor(one.tokens[one.learned :])
    learned = torch.tensor([len(one.tokens) - one.learned for one in group])
    owners = torch.arange(len(group)).repeat_interleave(learned)
    return Batch(packed, targets, owners, [one.task for one in group], size=end)
