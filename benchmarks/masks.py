"""Draws the mask of one real step of each decoding method, as SVG, for docs/decoding.md and docs/research.md.

    python benchmarks/masks.py

The drafters, `flatten`, the mask and `verify` are the engine's own. The model is a table: it knows one text by heart,
and where it is asked something else it says what it saw most often after the last word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import torch
from measuring import IMAGES
from plots import svg_style
from torch import Tensor

from stretto.display.palette import Palette
from stretto.local_engine.choosing.sampling import Sampler
from stretto.local_engine.choosing.verify import verify
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.draft_model import DraftModel
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import Autoregressive, DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.lookahead.lookahead import Jacobi, Lookahead

__all__ = ["METHODS", "Step", "best_step", "picture", "steps"]

_KNOWN = (
    "the cat sat on the mat and the dog sat on the mat and the bird sat on the roof and then "
    "the cat sat on the roof and the dog sat on the mat and the bird saw the cat and the dog and flew away"
)
_TEXT = _KNOWN.split()
_WORDS = sorted(set(_TEXT))
_IDS = [_WORDS.index(word) for word in _TEXT]
_PROMPT = 14
_STEPS = 24
_TOP = 4
_CPU = torch.device("cpu")


class ByHeart:
    """A forward that needs no past: a word at its place is followed by the next, any other by its usual successors.

    Args:
        knows_places: whether it knows the text by heart, or only which word follows which.
    """

    def __init__(self, *, knows_places: bool = True) -> None:
        self._knows_places = knows_places
        self._after = torch.zeros(len(_WORDS), len(_WORDS))
        for (word, following), times in Counter(pairwise(_IDS)).items():
            self._after[word, following] = float(times)

    def __call__(self, rows: Rows, _cache: KeyValueCache | None, keep: Tensor) -> Tensor:
        """Logits # [1, kept, words]."""
        scores = self._after[rows.tokens[0]].clone()
        for row, (token, place) in enumerate(zip(rows.tokens[0].tolist(), rows.positions[0].tolist(), strict=True)):
            if self._knows_places and place + 1 < len(_IDS) and _IDS[place] == token:
                scores[row, _IDS[place + 1]] += 10
        return scores[keep][None]


def _draft_model() -> Drafter:
    small: Any = SimpleNamespace(forward=ByHeart(knows_places=False), device=_CPU, context_window=len(_TEXT))
    return DraftModel(small, length=4, width=2, floor=0.05)


METHODS: dict[str, tuple[Callable[[], Drafter], int]] = {
    "autoregressive": (Autoregressive, 0),
    "jacobi": (lambda: Jacobi(window=5), 5),
    "lookahead": (lambda: Lookahead(window=3, ngram=4, guesses=3), 14),
    "prompt_lookup": (lambda: PromptLookup(span=6), 6),
    "suffix": (Suffix, 10),
    "draft_model": (_draft_model, 8),
    "auto": (lambda: Auto(StepCost({1: 10.0, 8: 10.4, 64: 16.0})), 14),
}
"""Each method with sizes that can be drawn, and its rows besides the first."""


@dataclass(frozen=True)
class Step:
    """One step of a method.

    Attributes:
        text: the words committed before it; the last one is row 0.
        tree: what was drafted.
        rows: what the forward read.
        accepted: nodes of the tree.
        path: the words committed by it.
    """

    text: list[str]
    tree: DraftTree
    rows: Rows
    accepted: list[int]
    path: list[str]


def steps(method: str) -> list[Step]:
    """The first steps of a method on the text, after its beginning was read."""
    make, limit = METHODS[method]
    drafter, model, found = make(), ByHeart(), []
    context = DraftContext(_IDS[:_PROMPT], _PROMPT, len(_WORDS))
    sampler = Sampler(Generation(tuple(context.tokens), len(_IDS)), _CPU)
    for number in range(_STEPS + 1):
        depth = len(_IDS) - len(context.tokens) - 1
        if depth < 1:
            break
        # The first turn represents the prompt's last row, which every drafter learns from.
        proposed = drafter.propose(context, limit) if number else DraftTree()
        tree, places = proposed.prune(limit, depth)
        rows = flatten([context.tokens], [tree], _CPU)
        logits = model(rows, None, torch.arange(rows.tokens.shape[1]))
        verdict = verify(logits, [tree], [sampler], [frozenset()])[0]
        top = torch.softmax(logits[0], -1).topk(max(_TOP, drafter.wants_top))
        own = {place: node for node, place in enumerate(places) if place >= 0}
        text = [_WORDS[token] for token in context.tokens]
        context.tokens += verdict.tokens
        outcome = DraftOutcome(
            [place + 1 if place >= 0 else -1 for place in places], top.indices.numpy(), top.values.numpy(),
            verdict.tokens, [own[node] for node in verdict.nodes],
        )  # fmt: skip
        drafter.learn(context, outcome)
        if number:
            found.append(Step(text, tree, rows, list(verdict.nodes), [_WORDS[token] for token in verdict.tokens]))
    return found


def best_step(method: str) -> Step:
    """The step to which most sources gave something, and of these the first that accepted most."""
    return max(steps(method), key=lambda step: (len(set(step.tree.sources)), len(step.accepted)))


_CELL = 20
_LEFT = 190
_TOP_EDGE = 70
_SHOWN = 3


def _colours(colours: Palette) -> str:
    return (
        f"text{{fill:{colours.text}}}.dim{{fill:{colours.dim}}}.back{{fill:{colours.back}}}.empty{{fill:{colours.raised}}}"
        f".taken{{fill:{colours.accent}}}.seen{{fill:{colours.accent};opacity:.45}}"
    )


def picture(step: Step) -> str:
    """The step's mask as SVG: a line for each row of the forward, a column for each slot of the cache it may see."""
    mask = step.rows.mask(torch.float32)[0, 0]  # [rows, kv_len]
    count, kv_len = mask.shape
    first = max(kv_len - count - _SHOWN, 0)
    words = [step.text[-1], *(_WORDS[token] for token in step.tree.tokens)]
    heads = [*step.text[first:-1], *words]
    taken = {0, *(node + 1 for node in step.accepted)}
    width, height = _LEFT + len(heads) * _CELL + 10, _TOP_EDGE + count * _CELL + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="11">',
        f"<style>{svg_style(_colours)}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    for column, word in enumerate(heads):
        x, y = _LEFT + column * _CELL + 14, _TOP_EDGE - 6
        kind = ' class="dim"' if column < len(heads) - count else ""
        lines.append(f'<text transform="translate({x} {y}) rotate(-60)"{kind}>{escape(word)}</text>')
    for row, word in enumerate(words):
        y = _TOP_EDGE + row * _CELL
        place = int(step.rows.positions[0, row] - step.rows.positions[0, 0])
        source = step.tree.sources[row - 1] if row and step.tree.sources[row - 1] else ""
        label = f"{word} +{place}" + (f" {source}" if source else "")
        weight = ' font-weight="bold"' if row in taken else ""
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end"{weight}>{escape(label)}</text>')
        for column in range(len(heads)):
            sees = bool(mask[row, first + column] == 0)
            kind = ("taken" if row in taken else "seen") if sees else "empty"
            x = _LEFT + column * _CELL
            lines.append(f'<rect class="{kind}" x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_CELL - 2}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Draw all methods."""
    IMAGES.mkdir(exist_ok=True)
    for method in METHODS:
        (IMAGES / f"mask-{method}.svg").write_text(picture(best_step(method)), encoding="utf-8")


if __name__ == "__main__":
    main()
