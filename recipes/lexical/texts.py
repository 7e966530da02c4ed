"""Texts for recipes that train what predicts a model's own output."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recipes.heads.questions import asked
from recipes.heads.writing import Writing, Written, answers
from recipes.pocket.batches import Encoded, encode
from recipes.pocket.corpus import Corpus
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.values.errors import SettingsError

__all__ = ["MIX", "Texts", "continuations", "keep", "kept", "pieces", "questions"]

MIX = {
    "straight": 0.28,
    "point": 0.3,
    "outline": 0.03,
    "fact": 0.03,
    "item": 0.03,
    "items": 0.02,
    "transform": 0.05,
    "copy": 0.01,
    "own": 0.25,
}
"""How often a text of the pocket model's tasks is drawn; ``own`` is what the model itself made of the source code."""

_ANSWER = 160  # tokens of a continuation
_ON_A_CPU, _ON_A_GPU = 16, 512  # continuations written together
_PROMPTS = (24, 64, 160)
_FILES = ("*.txt", "*.md", "*.py")


class Texts:
    """Draws texts; what is drawn follows from the random numbers handed in.

    Args:
        own: continuations that the model wrote.
        corpus: the pocket model's tasks; ``None`` for ``own`` only.
        tokenizer: the pocket model's.
        longest: tokens of a text at most.
    """

    def __init__(
        self, own: Sequence[Encoded], corpus: Corpus | None = None, tokenizer: Any = None, longest: int = 640
    ) -> None:
        self._own, self._corpus, self._tokenizer, self._longest = own, corpus, tokenizer, longest
        mix = MIX if corpus is not None else {"own": 1.0}
        self._tasks, self._weights = list(mix), list(mix.values())

    def draw(self, chance: random.Random) -> Encoded:
        """One text, with at least three tokens of answer."""
        while True:
            task = chance.choices(self._tasks, self._weights)[0]
            if self._corpus is None or task == "own":
                text = chance.choice(self._own)
            else:
                text = encode(self._corpus.draw(task, chance), self._tokenizer, self._longest)
            if len(text.tokens) - text.learned >= 3:
                return text


def pieces(model: LoadedModel, folder: Path | None, count: int, chance: random.Random) -> list[tuple[int, ...]]:
    """Beginnings to be continued: of the pocket model's source code, or of the text files in a folder.

    Raises `SettingsError` for a folder without text.
    """
    corpus = Corpus() if folder is None else None
    files = [] if folder is None else sorted(file for kind in _FILES for file in folder.rglob(kind))
    texts = [text for file in files if len(text := file.read_text(encoding="utf-8", errors="ignore")) > 50]
    if corpus is None and not texts:
        raise SettingsError(
            f"The folder {str(folder)!r} holds no text: no {', '.join(_FILES)} of 50 characters and more."
        )
    found = []
    for _ in range(count):
        if corpus is not None:
            text = corpus.draw("code", chance).answer
        else:
            text = chance.choice(texts)
            start = text.rfind("\n", 0, chance.randrange(len(text))) + 1
            text = text[start : start + 2000] or text[:2000]
        bos = model.tokenizer.bos_token or ""
        ids = model.tokenizer(bos + text, add_special_tokens=False).input_ids
        found.append(tuple(ids[: min(chance.choice(_PROMPTS), model.context_window - _ANSWER)]))
    return found


def questions(model: LoadedModel, count: int, chance: random.Random) -> list[tuple[int, ...]]:
    """Questions of our recipes' data as the model's chat template writes them."""
    return chance.choices(Writing().prompts(model, asked(pocket=False)), k=count)


def continuations(
    model: LoadedModel, prompts: Sequence[tuple[int, ...]], advance: Callable[[int], object] = id
) -> list[Written]:
    """Let the model continue the prompts, every other pair of them sampled at temperature 0.7.

    So what is learned is what it says, not what was written. ``advance`` is called with how many were continued.
    """
    together, found = _ON_A_CPU if model.device.type == "cpu" else _ON_A_GPU, list[Written]()
    for first in range(0, len(prompts), together):
        some = prompts[first : first + together]
        heats = [0.7 * (number // 2 % 2) for number in range(first, first + len(some))]
        found += answers(model, some, heats, _ANSWER, seed=first)
        advance(len(some))
    return found


def keep(path: Path, texts: Sequence[Encoded]) -> None:
    """Write continuations to a file."""
    path.write_text(json.dumps([[text.learned, text.tokens] for text in texts]) + "\n", encoding="utf-8")


def kept(path: Path) -> list[Written]:
    """Read them back."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Written("own", tokens, learned) for learned, tokens in rows]
