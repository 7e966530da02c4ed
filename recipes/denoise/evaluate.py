"""Measuring a block diffusion model: ``python -m recipes.denoise.evaluate``.

The score is that of the pocket model's card: points of the topic present in a straight answer to a known question in
changed words (`recipes.pocket.evaluate`). It is compared with the tokens that one forward wrote, for several
thresholds, and with the causal model that the run began with.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console

from recipes.denoise.writer import BlockWriter
from recipes.pocket.augment import MEASURED_CHANGES, measured_change
from recipes.pocket.corpus import Corpus, Topic
from recipes.pocket.evaluate import Writer, text_present
from recipes.tuning import seeded
from stretto.local_engine.pocket import pocket_folder

__all__ = ["Figures", "asked", "main", "points_present"]

THRESHOLDS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.0)
_LONGEST = 640
KEEPS = (0.99, 0.95, 0.9)


@dataclass(frozen=True)
class Figures:
    """What one threshold came to.

    Attributes:
        threshold: of the rule.
        score: share of the points present.
        forward: tokens a forward, commits joined.
        apart: tokens a forward, with a forward of its own for each finished block.
    """

    threshold: float
    score: float
    forward: float
    apart: float


def asked(corpus: Corpus, wordings: int = 1) -> list[tuple[Topic, str]]:
    """Each topic with known wordings of its question, each changed in another way."""
    chance = seeded(20_000, "known")
    return [
        (topic, measured_change(MEASURED_CHANGES[(at + number) % len(MEASURED_CHANGES)], question, chance))
        for at, topic in enumerate(corpus.topics)
        for number, question in enumerate(chance.sample(topic.questions, wordings))
    ]


def points_present(questions: Sequence[tuple[Topic, str]], answers: Sequence[str]) -> float:
    """The share of all points whose title and text occur in the answer to their topic."""
    present = [
        text_present(point.text, answer) and point.title in answer
        for (topic, _), answer in zip(questions, answers, strict=True)
        for point in topic.points
    ]
    return sum(present) / len(present)


def measure(writer: BlockWriter, questions: Sequence[tuple[Topic, str]], threshold: float) -> Figures:
    """All questions at one threshold."""
    written = writer.answers([question for _, question in questions], _LONGEST, threshold=threshold)
    tokens, forwards = sum(each.tokens for each in written), sum(each.forwards for each in written)
    commits = sum(each.commits for each in written)
    score = points_present(questions, [each.text for each in written])
    return Figures(threshold, score, tokens / forwards, tokens / (forwards + commits))


def main(arguments: list[str] | None = None) -> None:
    """Measure a block diffusion model at several thresholds, and its causal parent."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.evaluate", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="of the model")
    parser.add_argument("--parent", type=Path, default=pocket_folder(), help="the causal model (default: pocket)")
    parser.add_argument("--without-parent", action="store_true", help="leave the causal model out")
    parser.add_argument("--topics", type=int, default=100, help="how many (default %(default)s)")
    parser.add_argument("--thresholds", type=float, nargs="+", default=THRESHOLDS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    chosen = parser.parse_args(arguments)
    console, questions = Console(), asked(Corpus(with_source=False))[: chosen.topics]
    straight = None
    if not chosen.without_parent:
        parent = Writer(chosen.parent)
        parent.model.to(chosen.device)
        straight = points_present(questions, parent.answers([each for _, each in questions], _LONGEST))
        console.print(f"causal parent: score {straight:.3f}, 1 token a forward", highlight=False)
    writer, rows = BlockWriter(chosen.folder, chosen.device), []
    for threshold in chosen.thresholds:
        rows.append(measure(writer, questions, threshold))
        each = rows[-1]
        console.print(
            f"threshold {each.threshold:.2f}: score {each.score:.3f}, {each.forward:.2f} tokens a forward, "
            f"{each.apart:.2f} with commits apart",
            highlight=False,
        )
    kept = {}
    if straight:
        for share in KEEPS:
            good = [each for each in rows if each.score >= share * straight]
            kept[f"{share:.0%}"] = max((each.forward for each in good), default=None)
            console.print(f"most tokens a forward at {share:.0%} of the parent: {kept[f'{share:.0%}']}")
    if chosen.json:
        figures = {"parent": straight, "rows": [asdict(each) for each in rows], "kept": kept}
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
