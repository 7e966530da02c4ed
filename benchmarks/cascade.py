"""Measure a cascade of two real models: the pocket model first, then SmolLM2-135M, on questions with known answers.

``python benchmarks/cascade.py [--keep FILE.jsonl] [--by probability agreement]``. Half of the questions in
``cascade_questions.jsonl`` are facts that the pocket model has learned by heart. Of the other half it has never heard.
A run that was interrupted goes on where ``--keep`` ended.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measuring import IMAGES, ROOT, machine, save
from plots import plot, recorded

from stretto import AsyncStretto
from stretto.calibrating import Calibration, LabelledQuestion, calibrate_async
from stretto.comparing import questions_in
from stretto.display.palette import Palette

__all__ = ["draw", "main"]

SMALL, MAIN = "local:pocket", "local:smollm2"
QUESTIONS = Path(__file__).with_name("cascade_questions.jsonl")
GOALS = (0.8, 0.9, 0.95)
OPTIONS = {"max_tokens": 32, "temperature": 0.0}
WAYS = {"probability": "log-probability of the tokens", "agreement": "agreement of two samples"}


async def measured(by: Any, keep: Path | None) -> Calibration:
    """Ask all questions of both models; what is learned here is not kept for anybody."""
    async with AsyncStretto(MAIN, roles={"small": SMALL}) as client:
        return await calibrate_async(
            questions_in(QUESTIONS, LabelledQuestion),
            client,
            by=by,
            options=OPTIONS,
            keep=None if keep is None else keep.with_name(f"{keep.stem}-{by}{keep.suffix}"),
            progress=lambda done, whole, doing: print(f"{by}: {done} of {whole}, {doing}", flush=True),
            remember=False,
        )


def row(by: str, found: Calibration) -> dict[str, Any]:
    """The figures of one way to measure how sure the small model is."""
    points = [asdict(point) for point in found.curve]
    small, large = found.alone
    scores = {
        name: [trial.scores[0] for trial, pair in pairs if pair.question.id.startswith(name[0])]
        for pairs in [list(zip(found.trials, found.answered, strict=True))]
        for name in ("pocket", "general")
    }
    return {
        "by": by,
        "questions": len(found.answered),
        "small_alone": small and asdict(small),
        "main_alone": large and asdict(large),
        "curve": points,
        "gap_recovered": found.gap_recovered,
        "goals": [{"goal": goal, **_for_goal(found, goal)} for goal in GOALS],
        "scores": scores,
        "answers": [
            {
                "id": pair.question.id,
                "small": pair.smaller[0].text,
                "score": pair.smaller[0].score,
                "main": pair.main.text,
                "right": pair.goodness[0].right,
            }
            for pair in found.answered
        ],
    }


def _for_goal(found: Calibration, goal: float) -> dict[str, Any]:
    at = found.held_out_for(goal)
    return {} if at is None else {"held_out": asdict(at)}


def draw(result: dict[str, Any]) -> None:
    """Agreement by share of the large model, one line for each way, and chance."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(7.2, 4.2))
        for found in result["rows"]:
            points = sorted(found["curve"], key=lambda point: point["share"]["value"])
            share = [100 * point["share"]["value"] for point in points]
            good = [100 * point["agreement"]["value"] for point in points]
            [line] = axes.plot(share, good, marker="o", label=WAYS[found["by"]])
            low, high = ([100 * point["agreement"][end] for point in points] for end in ("low", "high"))
            axes.fill_between(share, low, high, alpha=0.12, color=line.get_color(), linewidth=0)
        alone = 100 * result["rows"][0]["small_alone"]["agreement"]["value"]
        axes.plot([0, 100], [alone, 100], linestyle="--", color=colours.dim, label="random routing")
        axes.set_xlabel("% of questions answered by the large model")
        axes.set_ylabel("% of answers as good as its own")
        axes.set_title(f"{SMALL} before {MAIN}, held-out questions, with 95% intervals")
        axes.legend(loc="lower right")
        return figure

    plot(IMAGES / "cascade", drawn)


def report(result: dict[str, Any]) -> None:
    """Print the figures."""
    for found in result["rows"]:
        small, large = found["small_alone"], found["main_alone"]
        print(f"\n{WAYS[found['by']]}, {found['questions']} questions")
        for name, point in ((SMALL, small), (MAIN, large)):
            print(f"  {name} alone: as good {_of(point['agreement'])}, right {_of(point['right'])}", end="")
            print(f", {point['seconds']['value']:.2f} s")
        print(f"  gap recovered {found['gap_recovered']:.2f} (chance 0.50)")
        for each in found["goals"]:
            if at := each.get("held_out"):
                print(
                    f"  goal {each['goal']:.0%}: {_of(at['agreement'])} as good, {_of(at['share'])} to {MAIN}, "
                    f"right {_of(at['right'])}, {at['seconds']['value']:.2f} s"
                )


def _of(found: dict[str, float]) -> str:
    return f"{found['value']:.0%} ({found['low']:.0%} to {found['high']:.0%})"


def main() -> None:
    """Measure, keep, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--by", nargs="+", default=list(WAYS), choices=list(WAYS))
    given = parser.parse_args()
    rows = [row(by, asyncio.run(measured(by, given.keep))) for by in given.by]
    result = {"small": SMALL, "main": MAIN, "options": OPTIONS, "machine": machine(), "rows": rows}
    file = save("cascade", result)
    report(result)
    draw(result)
    recorded("python benchmarks/redraw.py", ["cascade.png"], file.relative_to(ROOT).as_posix())


if __name__ == "__main__":
    main()
