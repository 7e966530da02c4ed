"""The labelled prompts the model is trained on. Their fields and the guide of the labels: ``data/README.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from stretto.router.shape import CLASSES
from stretto.values.route import Shape

LABELLED = "labelled.jsonl"
AUTHORED = "authored.jsonl"
HELD_OUT = "held_out.jsonl"
"""Rows of the families written last, chosen by a hash of the prompt before training; never trained on."""
GENERAL = "general.jsonl"
"""Questions as they are asked everywhere, written before any of them was judged; never trained on."""


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
    def repeats(self) -> bool:
        """Whether it is of a family that repeats its form: how-to questions, single facts, rows in many languages."""
        return any(name in self.source for name in ("third trial", "fourth trial", "single facts"))

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


def is_left_out(row: Row) -> bool:
    """Whether a row is not trained on: the third trial's lists with a dependent end, and similar ones without one.

    Their words are those of any list, and `stretto.router.parse` reads what distinguishes them. Trained on as steps,
    they taught the model that lists are steps.
    """
    return "third trial: dependent" in row.source


def load(*, everything: bool = False) -> list[Row]:
    """All rows to train on: first those to measure on, then those written later where the errors lay.

    ``everything``: with those that are left out.
    """
    late = files("recipes.router").joinpath("data", AUTHORED)
    rows = [*read(LABELLED), *(read(AUTHORED, late=True) if late.is_file() else ())]
    return [row for row in rows if everything or not is_left_out(row)]
