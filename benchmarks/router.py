"""How long the router takes to decide, by the length of the prompt.

    python benchmarks/router.py                 p50 and p99 at 0.1, 0.4, 2 and 8 kB, and a plot
    python benchmarks/router.py --decisions 5000

Every text is another one: labelled prompts in random order, joined and cut to the length. "First look" is the
processor's time for the first decision about a text in a process that has decided about others, as a caller meets it:
nothing about this text is in the processor's caches, and no branch of the code is foreseen. "Fastest of five" is the
fastest of five decisions about a text in a row. "Told" is the fastest of five with the reason and the forecasts of the
route, which are made when somebody looks at them. The texts are made of prompts that the model was trained on, so most
of their words are known to it.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plots
from measuring import IMAGES, machine, save
from rich.console import Console
from rich.table import Table

from recipes.router.rows import load
from stretto import Request
from stretto.backends.base import Backend
from stretto.display.palette import Palette
from stretto.router import Router
from stretto.testing import ScriptedBackend

REPEATS = 5
SIZES = (100, 400, 2000, 8000)
TARGETS_MS = {400: ("p50", 0.2), 8000: ("p99", 1.2)}
console = Console()


@dataclass(frozen=True)
class Latency:
    """Decision times for one length of prompt, in milliseconds."""

    characters: int
    first_look_p50: float
    first_look_p99: float
    fastest_p50: float
    fastest_p99: float
    told_p50: float | None = None


def texts(characters: int, count: int, seed: int = 0) -> list[str]:
    """Different texts of one length, made of labelled prompts."""
    chance = random.Random(seed)  # noqa: S311 - the same texts in every run
    prompts = [row.prompt for row in load()]
    made = []
    for _ in range(count):
        text = ""
        while len(text) < characters:
            text += chance.choice(prompts) + "\n"
        made.append(text[:characters])
    return made


def measure(router: Router, characters: int, decisions: int) -> Latency:
    """Decide about many texts of one length, each once."""
    backends: dict[str, Backend] = {"main": ScriptedBackend({}, name="openai:any")}
    requests = [Request.of(text) for text in texts(characters, decisions)]
    first_look, fastest, explained = [], [], []
    for request in requests:
        times = []
        for _ in range(REPEATS):
            started = time.process_time()
            router.decide(request, backends)
            times.append((time.process_time() - started) * 1000)
        first_look.append(times[0])
        fastest.append(min(times))
        times = []
        for _ in range(REPEATS):
            started = time.process_time()
            router.decide(request, backends).settled()
            times.append((time.process_time() - started) * 1000)
        explained.append(min(times))
    looks = _at(first_look, 0.5), _at(first_look, 0.99), _at(fastest, 0.5), _at(fastest, 0.99)
    return Latency(characters, *looks, _at(explained, 0.5))


def _at(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[int(share * (len(values) - 1))], 4)


def first_decision_ms() -> float:
    """The first decision of a process, which loads the model."""
    started = time.process_time()
    Router().decide(Request.of("How do I look after a bicycle?"), {"main": ScriptedBackend({})})
    return round((time.process_time() - started) * 1000, 1)


def plot(latencies: Sequence[Latency], title: str) -> None:
    """Draw p50 and p99 over the length of the prompt."""
    lengths = [latency.characters / 1000 for latency in latencies]

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(7.5, 4.4))
        own, other = colours.accent, colours.field
        axes.plot(lengths, [latency.first_look_p50 for latency in latencies], "o-", color=own, label="p50")
        axes.plot(lengths, [latency.first_look_p99 for latency in latencies], "o--", color=own, label="p99")
        fastest = [latency.fastest_p50 for latency in latencies]
        axes.plot(lengths, fastest, "o:", color=other, label="p50, fastest of five")
        for characters, (name, limit) in TARGETS_MS.items():
            place = (characters / 1000, limit)
            axes.plot(*place, "_", markersize=18, color=colours.bad)
            axes.annotate(f"{name} asked for", place, fontsize=7, color=colours.bad, va="bottom", ha="right")
        axes.set(xscale="log", yscale="log", xlabel="prompt, kB", ylabel="decision, ms")
        axes.set_title("Time to decide a route, first look at a text")
        axes.set_xticks(lengths, [f"{length:g}" for length in lengths])
        axes.minorticks_off()
        axes.legend()
        figure.supxlabel(title, fontsize=6, color=colours.dim)
        return figure

    plots.plot(IMAGES / "router-latency", drawn)


def main() -> None:
    """Measure, print, keep and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=2000, help="decisions for each length")
    asked = parser.parse_args()
    first = first_decision_ms()
    router = Router()
    measure(router, 400, 200)
    latencies = [measure(router, size, asked.decisions) for size in SIZES]
    load_average = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    where = f"{machine()}, load average {load_average:.1f}"
    table = Table("prompt, ms", "first look p50", "p99", "fastest of five p50", "p99", "told p50", title=where)
    for row in latencies:
        cells = (row.first_look_p50, row.first_look_p99, row.fastest_p50, row.fastest_p99, row.told_p50)
        table.add_row(f"{row.characters / 1000:g} kB", *(f"{cell:.3f}" for cell in cells if cell is not None))
    console.print(table, f"First decision of the process, loading the model: {first} ms")
    file = save("router", {"machine": where, "decisions": asked.decisions, "first_ms": first, "latencies": latencies})
    plot(latencies, where)
    console.print(f"Kept in {file.name}, plotted in router-latency-*.png")


if __name__ == "__main__":
    main()
