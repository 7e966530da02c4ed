"""Which groups of rows pull the router: ``python -m recipes.router.compare``. Needs scikit-learn (the ``dev`` extra).

Three states of the training rows are compared: before the how-to rows, with all rows, and as they are
trained on now. ``--groups`` leaves out one group of the late rows after the other instead. The measured rows are judged
out of fold, by models that have not seen them. The general questions and the rows held out, which nothing is trained
on, are judged by a model of all rows of the state, with the obstacles of the real decision. The solver takes fewer
steps than in training, the same for all. Set OMP_NUM_THREADS=1 on a busy machine: it is then several times as fast.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from recipes.router.rows import GENERAL, HELD_OUT, Row, is_left_out, load, read
from recipes.router.train import FLAT, calibrate, fit, out_of_fold, pack, skeleton_logits, weight
from stretto.router.features import cues
from stretto.router.obstacles import to_skeleton
from stretto.router.parse import Parse
from stretto.router.shape import SHAPES, ShapeModel

STEPS = 100  # of the solver
SEEDS = (0, 1, 2)
DRAWS = 1000  # of the bootstrap
RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "router_rows.json"
Chosen = Callable[[Row], bool]


def _says(*parts: str) -> Chosen:
    return lambda row: row.late and any(part in row.source for part in parts)


GROUPS: dict[str, Chosen] = {
    "after errors were seen": _says("after errors were seen"),
    "trial as a new user": _says("trial as a new user"),
    "second trial": _says("second trial"),
    "third trial: how-to": _says("third trial: how-to", "third trial: more how-to"),
    "third trial: dependent ends": _says("third trial: dependent"),
    "third trial: six languages": _says(*(f"third trial: {name}" for name in (
        "six", "Russian", "Turkish", "Chinese", "Arabic", "Hindi", "Japanese"))),
    "fourth trial: sequences": _says("fourth trial: sequences"),
    "fourth trial: advice": _says("fourth trial: advice"),
    "fourth trial: dependent ends": _says("fourth trial: tails", "fourth trial: more tails"),
    "fourth trial: lists": _says("fourth trial: lists", "fourth trial: more lists"),
    "single facts": _says("single facts"),
}  # fmt: skip
STATES: dict[str, Chosen] = {
    "before": lambda row: not _says("third trial", "fourth trial", "single facts")(row),
    "all rows": lambda _: True,
    "now": lambda row: not is_left_out(row),
}


def former_weight(row: Row) -> float:
    """How much a row counted before the rows that pull were found: all late rows alike."""
    return weight(replace(row, source=""))


def language_of(row: Row) -> str:
    """The script of a prompt, and of the Latin ones whether it has letters beyond ASCII; held-out rows name some."""
    scripts = {"CJK": "Chinese or Japanese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean",
               "ARABIC": "Arabic", "DEVANAGARI": "Hindi", "CYRILLIC": "Russian"}  # fmt: skip
    found = [scripts.get(unicodedata.name(letter, "").split(" ")[0], "") for letter in row.prompt if letter.isalpha()]
    named = [name for name in found if name]
    if "Japanese" in named:
        return "Japanese"
    return max(named, key=named.count) if named else "Latin script"


def f1(truth: NDArray[Any], yes: NDArray[Any]) -> float:
    """F1 of a decision."""
    return float(2 * (truth & yes).sum() / max(1, truth.sum() + yes.sum()))


def interval(truth: NDArray[Any], yes: NDArray[Any]) -> tuple[float, float]:
    """The 95% interval of F1 over bootstrap samples of the rows."""
    draw = np.random.default_rng(0)
    picks = draw.integers(0, len(truth), (DRAWS, len(truth)))
    values = np.sort([f1(truth[pick], yes[pick]) for pick in picks])
    return float(values[int(0.025 * DRAWS)]), float(values[int(0.975 * DRAWS)])


class State:
    """What the model of some rows says of the measured rows, the general questions and those held out."""

    def __init__(self, rows: Sequence[Row], bags: Sequence[Sequence[str]], seed: int, *, former: bool) -> None:
        weigh, flat = (former_weight, FLAT) if former else (weight, None)
        scores = out_of_fold(rows, bags, seed=seed, steps=STEPS, weigh=weigh)
        fitted = calibrate(rows, scores, flat=flat)
        self.measured = [row for row in rows if not row.late]
        chosen = scores[[not row.late for row in rows]] / float(fitted["temperature"])
        slope, offset = fitted["platt"]
        self.probability = 1 / (1 + np.exp(-(slope * skeleton_logits(chosen) + offset)))
        self.yes = self.probability >= fitted["thresholds"][1]
        self.threshold = float(fitted["thresholds"][1])
        self.model = ShapeModel(pack(*fit(rows, bags, steps=STEPS, weigh=weigh), fitted))

    def of(self, rows: Sequence[Row]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Probabilities and decisions for rows that nothing was trained on."""
        judged = [self.model.judge(row.prompt) for row in rows]
        sure = np.array([judgement.skeleton for judgement in judged])
        free = [to_skeleton(Parse(row.prompt, row.prompt)) is None for row in rows]
        known = [not judgement.unsure for judgement in judged]
        return sure, (sure >= self.threshold) & np.array(free) & np.array(known)


def measure(states: Mapping[str, Chosen], seeds: Sequence[int], write: Callable[[str], Any]) -> dict[str, Any]:
    """Train and judge each state with each seed; the figures by set of rows."""
    rows = load(everything=True)
    bags = [cues(row.prompt) for row in rows]
    unseen = {"general questions": list(read(GENERAL)), "held out": list(read(HELD_OUT))}
    found: dict[str, Any] = {}
    for name, chosen in states.items():
        started, taken = time.process_time(), [place for place, row in enumerate(rows) if not row.late or chosen(row)]
        runs = [
            State([rows[at] for at in taken], [bags[at] for at in taken], seed, former=name != "now") for seed in seeds
        ]
        found[name] = {"rows": len(taken), "thresholds": [run.threshold for run in runs]}
        measured = runs[0].measured
        sets: dict[str, tuple[list[Row], list[tuple[NDArray[Any], NDArray[Any]]]]] = {
            "measured": (measured, [(run.probability, run.yes) for run in runs])
        }
        near = np.array([row.origin == "collected" for row in measured])
        sets["collected"] = (
            [row for row in measured if row.origin == "collected"],
            [(run.probability[near], run.yes[near]) for run in runs],
        )
        sets |= {title: (asked, [run.of(asked) for run in runs]) for title, asked in unseen.items()}
        for title, (asked, verdicts) in sets.items():
            found[name][title] = _figures(asked, verdicts)
        write(f"{name}: {len(taken)} rows, {time.process_time() - started:.0f} s of CPU\n")
    return found


def _figures(rows: Sequence[Row], verdicts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> dict[str, Any]:
    truth = np.array([row.skeleton for row in rows])
    low, high = interval(truth, verdicts[0][1])
    return {
        "rows": len(rows),
        "f1": float(np.mean([f1(truth, yes) for _, yes in verdicts])),
        "interval": [low, high],
        "auc": float(np.mean([roc_auc_score(truth, sure) for sure, _ in verdicts])),
        "loss": float(np.mean([log_loss(truth, np.clip(sure, 1e-6, 1 - 1e-6)) for sure, _ in verdicts])),
        "shapes": _parts(rows, truth, verdicts, lambda row: row.shape, SHAPES),
        "languages": _parts(rows, truth, verdicts, language_of, sorted({language_of(row) for row in rows})),
    }


def _parts(
    rows: Sequence[Row],
    truth: NDArray[Any],
    verdicts: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    named: Callable[[Row], str],
    names: Sequence[str],
) -> dict[str, list[float]]:
    """By name: rows, how many a skeleton serves, how many of those get one, how many others do; means over seeds."""
    keys = np.array([named(row) for row in rows])
    return {
        name: [
            int((keys == name).sum()),
            int(truth[keys == name].sum()),
            float(np.mean([(yes & truth)[keys == name].sum() for _, yes in verdicts])),
            float(np.mean([(yes & ~truth)[keys == name].sum() for _, yes in verdicts])),
        ]
        for name in names
    }


def tables(found: Mapping[str, Any], write: Callable[[str], Any]) -> None:
    """Write the figures as tables, with shapes and languages where there are only the three states."""
    sets = [name for name in next(iter(found.values())) if name not in ("rows", "thresholds")]
    for title in sets:
        write(f"\n{title}: {next(iter(found.values()))[title]['rows']} rows\n")
        write(f"{'training rows':<36}{'count':>7}{'threshold':>11}{'F1':>7}{'95%':>14}{'AUC':>7}{'log loss':>10}\n")
        for name, each in found.items():
            one = each[title]
            low, high = one["interval"]
            write(
                f"{name:<36}{each['rows']:>7}{np.mean(each['thresholds']):>11.3f}{one['f1']:>7.3f}"
                f"{f'{low:.3f}-{high:.3f}':>14}{one['auc']:>7.3f}{one['loss']:>10.3f}\n"
            )
        if len(found) <= len(STATES):
            for kind in ("shapes", "languages"):
                _by(found, title, kind, write)


def _by(found: Mapping[str, Any], title: str, kind: str, write: Callable[[str], Any]) -> None:
    first = next(iter(found.values()))[title][kind]
    if len(first) < 2:
        return
    write(f"  {'served / falsely served':<34}" + "".join(f"{name:>18}" for name in found) + "\n")
    for name, (rows, true, _, _) in first.items():
        cells = [each[title][kind][name] for each in found.values()]
        line = "".join(f"{f'{served:.1f} / {false:.1f}':>18}" for _, _, served, false in cells)
        write(f"  {f'{name}: {rows} rows, {true} true':<34}{line}\n")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m recipes.router.compare", description=__doc__)
    parser.add_argument("--groups", action="store_true", help="leave out one group after the other")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many ways to cut the folds")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.name} to benchmarks/results")
    asked = parser.parse_args()

    def without(group: Chosen) -> Chosen:
        return lambda row: not group(row)

    states = {f"without {name}": without(group) for name, group in GROUPS.items()}
    states = {"all rows": STATES["all rows"]} | states if asked.groups else STATES
    found = measure(states, tuple(range(asked.seeds)), sys.stderr.write)
    tables(found, sys.stdout.write)
    if asked.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        kept["groups" if asked.groups else "states"] = found
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
