"""Cross-validate the router's decision: ``python -m recipes.router.evaluate``. Needs scikit-learn (the ``dev`` extra).

Every row that was labelled before any error was looked at is judged once, by a model that has not seen it; the rows
written later are trained on in every fold and never measured on. Calibration and threshold are chosen inside each
training fold. "collected" are the rows from public sets alone, whose shares are nearer to real traffic. The rows held
out are judged by the committed model, with what speaks against an outline.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, confusion_matrix, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from recipes.router import baselines
from recipes.router.rows import HELD_OUT, Row, load, read
from recipes.router.train import TARGET, calibrate, fit, out_of_fold, skeleton_logits, thresholds, weight
from stretto.router.features import cues
from stretto.router.obstacles import to_skeleton
from stretto.router.parse import Parse
from stretto.router.shape import CLASSES, SHAPES, ShapeModel

FOLDS = 5
INNER_FOLDS = 3
BINS = 10


@dataclass
class Verdicts:
    """What one router said of the measured rows: probabilities, and yes or no at the threshold of the fold."""

    name: str
    probability: NDArray[Any]
    yes: NDArray[Any]

    @classmethod
    def constant(cls, name: str, count: int, value: float) -> Verdicts:
        """The same answer for every row."""
        return cls(name, np.full(count, value), np.full(count, value > 0.5))

    def line(self, truth: NDArray[Any], chosen: NDArray[Any]) -> str:
        """Precision, recall, F1, AUC and false-positive rate over the chosen rows."""
        yes, truth = self.yes[chosen], truth[chosen]
        hits, false = int((yes & truth).sum()), int((yes & ~truth).sum())
        precision, recall = hits / max(int(yes.sum()), 1), hits / max(int(truth.sum()), 1)
        f1 = 2 * hits / max(int(yes.sum() + truth.sum()), 1)
        auc = roc_auc_score(truth, self.probability[chosen])
        rate = false / max(int((~truth).sum()), 1)
        return f"{self.name:<26}{precision:10.3f}{recall:8.3f}{f1:7.3f}{auc:7.3f}{rate:16.3f}"


Fold = tuple[NDArray[Any], list[Row], list[Row]]


def folds(rows: Sequence[Row]) -> list[Fold]:
    """Positions to measure, the rows to train on with all later ones, and the rows to measure."""
    measured, late = [row for row in rows if not row.late], [row for row in rows if row.late]
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return [
        (unseen, [measured[i] for i in seen] + late, [measured[i] for i in unseen])
        for seen, unseen in splits.split(np.zeros(len(measured)), [row.label for row in measured])
    ]


def judge(parts: Sequence[Fold], count: int) -> tuple[Verdicts, NDArray[Any]]:
    """Our model: its verdicts, and the most probable shape of every row as an index."""
    ours = Verdicts("this model", np.zeros(count), np.zeros(count, dtype=bool))
    shapes = np.zeros(count, dtype=int)
    for unseen, seen, asked in parts:
        bags = [cues(row.prompt) for row in seen]
        fitted = calibrate(seen, out_of_fold(seen, bags, INNER_FOLDS))
        vocabulary, coefficients, bias = fit(seen, bags)
        scores = vocabulary.matrix([cues(row.prompt) for row in asked]) @ coefficients + bias
        scores = scores / float(fitted["temperature"])
        slope, offset = fitted["platt"]
        ours.probability[unseen] = 1 / (1 + np.exp(-(slope * skeleton_logits(scores) + offset)))
        ours.yes[unseen] = ours.probability[unseen] >= fitted["thresholds"][1]
        shapes[unseen] = _shapes(scores)
    return ours, shapes


def compare(name: str, scorer: baselines.Scorer, parts: Sequence[Fold], count: int) -> Verdicts:
    """Another model under the same folds, its threshold chosen in the same way."""
    verdicts = Verdicts(name, np.zeros(count), np.zeros(count, dtype=bool))
    for unseen, seen, asked in parts:
        verdicts.probability[unseen] = scorer(seen, asked)
        verdicts.yes[unseen] = verdicts.probability[unseen] >= _inner_threshold(scorer, seen)
    return verdicts


def calibration_error(probability: NDArray[Any], truth: NDArray[Any]) -> float:
    """Expected calibration error over ten bins of equal width (Guo et al., 1706.04599)."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == b).sum() * abs(probability[bins == b].mean() - truth[bins == b].mean())
        for b in range(BINS)
        if (bins == b).any()
    ]
    return float(sum(gaps) / len(truth))


def report(rows: Sequence[Row], write: Callable[[str], Any], *, forms: bool = False) -> None:
    """Write the whole report, line by line; with ``forms`` the other model forms that were tried too."""
    measured = [row for row in rows if not row.late]
    truth = np.array([row.skeleton for row in measured])
    collected = np.array([row.origin == "collected" for row in measured])
    parts, count = folds(rows), len(measured)
    ours, shapes = judge(parts, count)
    verdicts = [Verdicts.constant("always", count, 1.0), Verdicts.constant("never", count, 0.0)]
    others: list[tuple[str, baselines.Scorer]] = [
        ("keywords", baselines.keywords),
        ("TF-IDF + logistic", baselines.words),
    ]
    if forms:
        others += [("cues, one binary head", baselines.binary), ("cues, perceptron", baselines.perceptron)]
    verdicts += [compare(name, scorer, parts, count) for name, scorer in others] + [ours]
    for title, chosen in (("all rows", np.ones(count, dtype=bool)), ("collected rows", collected)):
        share = truth[chosen].mean()
        write(f"\nSkeleton decision, {title}: {int(chosen.sum())} measured, {share:.0%} true, {FOLDS} folds\n")
        write(f"{'router':<26}{'precision':>10}{'recall':>8}{'F1':>7}{'AUC':>7}{'false positives':>16}\n")
        for verdict in verdicts:
            write(verdict.line(truth, chosen) + "\n")
        error = calibration_error(ours.probability[chosen], truth[chosen])
        brier = brier_score_loss(truth[chosen], ours.probability[chosen])
        write(f"calibration of this model: expected error {error:.3f}, Brier score {brier:.3f}\n")
    labels = np.array([SHAPES.index(row.shape) for row in measured])
    right = labels == shapes
    write(f"\nShapes: {right.mean():.3f} right, {right[collected].mean():.3f} on collected rows\n")
    _confusion(labels, shapes, write)
    _cost([row.prompt for row in measured], write)
    _held_out(list(read(HELD_OUT)), write)


def _shapes(scores: NDArray[Any]) -> NDArray[Any]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    sums = np.stack([powers[:, [shape == name for shape, _ in CLASSES]].sum(axis=1) for name in SHAPES], axis=1)
    return np.asarray(sums.argmax(axis=1))


def _inner_threshold(scorer: baselines.Scorer, seen: Sequence[Row]) -> float:
    if scorer is baselines.keywords:
        return 0.5
    measured, late = [row for row in seen if not row.late], [row for row in seen if row.late]
    probability = np.zeros(len(measured))
    splits = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0)
    for near, far in splits.split(np.zeros(len(measured)), [row.label for row in measured]):
        probability[far] = scorer([measured[i] for i in near] + late, [measured[i] for i in far])
    weights = np.array([weight(row) for row in measured])
    return thresholds(np.array([row.skeleton for row in measured]), probability, weights)[1]


def _confusion(labels: NDArray[Any], shapes: NDArray[Any], write: Callable[[str], Any]) -> None:
    write(f"{'labelled as':<12}" + "".join(f"{name:>11}" for name in SHAPES) + "   <- judged\n")
    for name, row in zip(SHAPES, confusion_matrix(labels, shapes, labels=range(len(SHAPES))), strict=True):
        write(f"{name:<12}" + "".join(f"{cell:>11}" for cell in row) + "\n")


def _cost(prompts: Sequence[str], write: Callable[[str], Any]) -> None:
    if not TARGET.is_file():
        return
    model = ShapeModel.committed()
    times = []
    for prompt in prompts:
        started = time.perf_counter()
        model.judge(prompt)
        times.append((time.perf_counter() - started) * 1000)
    size = TARGET.stat().st_size / 1024
    middle, tail = np.median(times), np.quantile(times, 0.99)
    write(f"\nModel: {size:.0f} kB; judging a prompt p50 {middle:.3f} ms, p99 {tail:.3f} ms\n")


def _held_out(rows: Sequence[Row], write: Callable[[str], Any]) -> None:
    """By family: how many rows that a skeleton serves get one, and how many others."""
    if not TARGET.is_file():
        return
    model = ShapeModel.committed()
    write(f"\nHeld out, {len(rows)} rows{'':<9}{'rows':>6}{'shapes':>8}{'served':>9}{'falsely':>9}\n")
    for family in dict.fromkeys(row.source for row in rows):
        chosen = [row for row in rows if row.source == family]
        judged = [model.judge(row.prompt) for row in chosen]
        yes = [
            not judgement.unsure
            and judgement.skeleton >= model.thresholds["balanced"]
            and to_skeleton(Parse(row.prompt, row.prompt)) is None
            for row, judgement in zip(chosen, judged, strict=True)
        ]
        right = np.mean([judgement.shape == row.shape for row, judgement in zip(chosen, judged, strict=True)])
        served = [verdict for verdict, row in zip(yes, chosen, strict=True) if row.skeleton]
        others = [verdict for verdict, row in zip(yes, chosen, strict=True) if not row.skeleton]
        name = family.rpartition(": ")[2]
        found, false = f"{sum(served)}/{len(served)}", f"{sum(others)}/{len(others)}"
        write(f"{name:<26}{len(chosen):>6}{right:>8.2f}{found:>9}{false:>9}\n")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m recipes.router.evaluate", description=__doc__)
    parser.add_argument("--forms", action="store_true", help="measure the other model forms that were tried as well")
    report(load(), sys.stdout.write, forms=parser.parse_args().forms)


if __name__ == "__main__":
    main()
