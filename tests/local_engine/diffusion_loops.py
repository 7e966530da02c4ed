"""Plain loops over transformers' own models: no cache, one request, the whole text in each forward."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Keep = Callable[[dict[int, float], dict[int, float], int, int], set[int]]
"""Which positions are kept, given confidence and entropy by position, passes before, and positions masked at first."""


def logits_of(model: Any, tokens: Sequence[int], sees: Sequence[int]) -> torch.Tensor:
    """The logits of a text in which row i sees ``sees[i]`` tokens # [tokens, vocabulary]"""
    hidden = torch.arange(len(tokens)) >= torch.tensor(sees)[:, None]
    mask = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[None, None]
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([tokens]), attention_mask=mask, use_cache=False).logits[0].float()


@dataclass
class PlainLoop:
    """Writes an answer with a model, a mask token and a rule, greedily, and counts the forwards behind the prompt."""

    model: Any
    mask: int
    keep: Keep
    shifted: bool = False
    joined: bool = False
    forwards: int = 0

    def said(self, text: Sequence[int], sees: Sequence[int]) -> torch.Tensor:
        """Probabilities, without the mask token # [tokens, vocabulary]"""
        rows = logits_of(self.model, text, sees)
        rows[:, self.mask] = -torch.inf
        return rows.softmax(-1)

    def refine(self, text: list[int], start: int, stop: int, sees: Sequence[int]) -> None:
        """Write the masked positions from start to stop, in place."""
        masked = [place for place in range(start, stop) if text[place] == self.mask]
        ahead = self.joined and masked[:1] == [start]  # the row before the block says its first token, once
        masked = masked[ahead:]
        first, passes = len(masked), 0
        while masked:
            rows = self.said(text, sees)
            if ahead:
                text[start], ahead = int(rows[start - 1].argmax()), False
            said = {place: rows[place - self.shifted] for place in masked}
            sure = {place: float(row.max()) for place, row in said.items()}
            entropy = {place: float(-(row * row.clamp(min=1e-30).log()).sum()) for place, row in said.items()}
            for place in self.keep(sure, entropy, passes, first):
                text[place] = int(said[place].argmax())
            masked = [place for place in masked if text[place] == self.mask]
            passes += 1
        self.forwards += passes

    def in_blocks(self, prompt: Sequence[int], length: int, block: int, part: int | None = None) -> list[int]:
        """Block diffusion: a row sees its block and all before it."""
        text, part = list(prompt), part or block
        while len(text) < len(prompt) + length:
            start = len(text) // block * block
            sees = [(place // block + 1) * block for place in range(start + block)]
            if self.shifted and start == len(text) and not (self.joined and start > len(prompt)):
                text.append(int(self.said(text, sees[:start])[-1].argmax()))
                self.forwards += start > len(prompt)  # it comes with the prompt otherwise
            text += [self.mask] * (start + block - len(text))
            for place in range(start, start + block, part):
                self.refine(text, place, place + part, sees)
        return text[len(prompt) : len(prompt) + length]

    def seeing_everything(self, prompt: Sequence[int], length: int, block: int) -> list[int]:
        """Masked diffusion: every row sees every other one, and the answer is written block by block."""
        text = [*prompt, *[self.mask] * length]
        for start in range(len(prompt), len(text), block):
            self.refine(text, start, min(start + block, len(text)), [len(text)] * len(text))
        return text[len(prompt) :]


def mask_predict(
    loop: PlainLoop, prompt: Sequence[int], length: int, passes: int, ends: frozenset[int] = frozenset()
) -> list[int]:
    """Write an answer as one block, in which all tokens can be written again; every row sees every other one."""
    canvas, sure = [loop.mask] * length, {}
    masked = range(length)
    for number in range(passes):
        rows = loop.said([*prompt, *canvas], [len(prompt) + len(canvas)] * (len(prompt) + len(canvas)))[len(prompt) :]
        for place in masked:
            canvas[place], sure[place] = int(rows[place].argmax()), float(rows[place].max())
        while number == 0 and len(canvas) > 1 and ends.issuperset(canvas[-2:]):
            canvas.pop()
            del sure[len(canvas)]
        if len(canvas) < length:
            sure[len(canvas) - 1] = 2.0  # the end token stays
        loop.forwards += 1
        left = len(canvas) * (passes - 1 - number) // passes
        order = sorted(range(len(canvas)), key=lambda place: -sure[place])
        masked = order[len(canvas) - left :]
        for place in masked:
            canvas[place] = loop.mask
        if not masked:
            break
    return canvas


def threshold(least: float) -> Keep:
    return lambda sure, _, __, ___: {p for p in sure if sure[p] > least} or {max(sure, key=sure.get)}


def entropy_bound(bound: float) -> Keep:
    def keep(_, entropy, __, ___):
        order = sorted(entropy, key=entropy.get)
        return {place for number, place in enumerate(order) if sum(entropy[p] for p in order[:number]) <= bound}

    return keep


def _number(steps: int, passes: int, first: int) -> int:
    steps = min(steps, first)
    return first // steps + (passes < first % steps)


def low_confidence(steps: int) -> Keep:
    return lambda sure, _, passes, first: set(sorted(sure, key=lambda p: -sure[p])[: _number(steps, passes, first)])
