"""How many tokens of a held-out answer a head's drafts bring into a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch

from recipes.heads.network import Head
from recipes.heads.target import Target
from recipes.heads.texts import Texts

__all__ = ["Acceptance", "measure"]

_TOGETHER = 16  # texts


@dataclass(frozen=True)
class Acceptance:
    """What became of drafts on greedy answers, of one path each.

    Attributes:
        places: share of the guesses at each place that were right where those before them were # [depth]
        tokens_per_step: by the length of a draft # [depth]
    """

    places: tuple[float, ...]
    tokens_per_step: tuple[float, ...]

    def __str__(self) -> str:
        places = ", ".join(f"{one:.1%}" for one in self.places)
        steps = ", ".join(f"{length}: {one:.2f}" for length, one in enumerate(self.tokens_per_step, 1))
        return f"right where those before were: {places}; tokens a step by draft length: {steps}"


@torch.no_grad()
def measure(target: Target, head: Head, texts: Texts) -> Acceptance:
    """Draft along greedy answers: a step takes the guesses that are the answer's next tokens, and one of the model.

    A head reads the answer's own tokens here. Up to its first wrong guess, these are what it guessed.
    """
    depth = head.sizes.depth
    tried, right, steps, written = ([0] * depth for _ in range(4))
    small = target.dtype in (torch.bfloat16, torch.float16)
    for at in range(0, len(texts.all), _TOGETHER):
        own = texts.all[at : at + _TOGETHER]
        with torch.autocast(target.device.type, torch.bfloat16, enabled=small):
            states = head.states(target.seen(texts.of(own)))
            guesses = torch.stack([head.words[head.logits(each).argmax(-1)] for each in states], -1).tolist()
        for text, guessed in zip(own, guesses, strict=True):
            for most in range(1, depth + 1):
                place = text.learned  # of the token that the model says before a draft
                while place < len(text.tokens):
                    follows = text.tokens[place + 1 : place + 1 + most]
                    taken = _agreeing(guessed[place - 1], follows)
                    steps[most - 1] += 1
                    written[most - 1] += 1 + taken
                    if most == depth:
                        for number in range(min(taken + 1, len(follows))):
                            tried[number] += 1
                            right[number] += number < taken
                    place += 1 + taken
    return Acceptance(_over(right, tried), _over(written, steps))


def _agreeing(guessed: Sequence[int], follows: Sequence[int]) -> int:
    """How many of the first guesses are right."""
    pairs = zip(guessed, follows, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _over(parts: Sequence[int], wholes: Sequence[int]) -> tuple[float, ...]:
    return tuple(part / max(1, whole) for part, whole in zip(parts, wholes, strict=True))
