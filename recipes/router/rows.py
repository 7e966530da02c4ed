"""The labelled prompts the model is trained on. Their fields and the guide of the labels: ``data/README.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from stretto.route import Shape
from stretto.router.shape import CLASSES

LABELLED = "labelled.jsonl"
AUTHORED = "authored.jsonl"
HELD_OUT = "held_out.jsonl"
"""Rows of the families written last, chosen by a hash of the prompt before training; never trained on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled prompt.

    Attributes:
        origin: "collected" from public sets, nearer to real traffic, or "authored" for this project.
        certainty: 1 (a coin toss between two shapes) to 3 (plain).
        late: written after errors on the other rows were seen; trained on, never measured on.
        source: where the row comes from, or why it was written.
    """

    prompt: str
    shape: Shape
    skeleton: bool
    origin: str
    certainty: int = 3
    late: bool = False
    source: str = ""

    @property
    def label(self) -> int:
        """Index of the row's class in `CLASSES`. Raises `ValueError` where a skeleton cannot serve the shape."""
        try:
            return CLASSES.index((self.shape, self.skeleton))
        except ValueError:
            raise ValueError(
                f"A row says that a skeleton serves the shape {self.shape!r}: {self.prompt[:60]!r}. "
                "Only points and items can be served; set skeleton to false."
            ) from None


def read(name: str, *, late: bool = False) -> Iterator[Row]:
    """The rows of one file of ``data/``, in its order."""
    with files("recipes.router").joinpath("data", name).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            prompt, shape, origin = row["prompt"], row["shape"], row["origin"]
            yield Row(prompt, shape, row["skeleton"], origin, row["certainty"], late=late, source=row["source"])


def load() -> list[Row]:
    """All rows: first those to measure on, then those written later where the errors lay."""
    late = files("recipes.router").joinpath("data", AUTHORED)
    return [*read(LABELLED), *(read(AUTHORED, late=True) if late.is_file() else ())]
