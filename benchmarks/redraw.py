"""Draw all plots anew from the kept results, measuring nothing: ``python benchmarks/redraw.py [NAME ...]``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cascade
import consensus
import document_chart
import hand_on
import llamacpp
import load
import planned
import quality
import rewrite
import server_report
import skeleton
from batching_report import draw_batching, draw_soak
from comparison import report
from lexical import draw as draw_lexical
from long_context import draw as draw_long_context
from measuring import IMAGES, RESULTS, ROOT
from plots import recorded
from router import Latency
from router import plot as plot_router

__all__ = ["PLOTS", "main"]

PLOTS: dict[str, tuple[Callable[[Any], None], Sequence[str]]] = {
    "batching": (lambda result: draw_batching(result, IMAGES / "batching"), ["batching"]),
    "cascade": (cascade.draw, ["cascade"]),
    "consensus": (consensus.draw, ["consensus"]),
    "decoding": (lambda result: report.draw(result, IMAGES / "decoding"), ["decoding"]),
    "decoding-float32": (lambda result: report.draw(result, IMAGES / "decoding-float32"), ["decoding-float32"]),
    "decoding-smollm2-float32": (
        lambda result: report.draw(result, IMAGES / "decoding-smollm2-float32"),
        ["decoding-smollm2-float32"],
    ),
    "document": (document_chart.draw, ["document-figures"]),
    "hand_on": (hand_on.draw, ["hand-on"]),
    "lexical": (lambda result: draw_lexical(result["rows"]), ["lexical"]),
    "lexical-smollm2": (lambda result: draw_lexical(result["rows"], "lexical-smollm2"), ["lexical-smollm2"]),
    "llamacpp": (llamacpp.draw, ["llamacpp"]),
    "load": (lambda result: load.draw(result["levels"]), ["load"]),
    "long_context": (
        lambda result: draw_long_context(result["passkey"], result["times"], result["perplexity"]),
        ["long-context"],
    ),
    "planned": (planned.draw, ["planned"]),
    "quality-smollm2": (quality.draw, ["quality-smollm2"]),
    "rewrite": (rewrite.draw, ["rewrite"]),
    "router": (
        lambda result: plot_router([Latency(**row) for row in result["latencies"]], result["machine"]),
        ["router-latency"],
    ),
    "server": (lambda result: server_report.draw(result, IMAGES / "server"), ["server"]),
    "skeleton": (skeleton.draw_all, ["skeleton-http", "skeleton-pocket"]),
    "soak": (lambda result: draw_soak(result, IMAGES / "soak"), ["soak"]),
}
"""What draws the result of each benchmark, and the plots it draws."""


def main(names: list[str]) -> None:
    """Draw those that are named, or all whose results were kept."""
    for name in names or [each for each in PLOTS if (RESULTS / f"{each}.json").exists()]:
        draw, plots = PLOTS[name]
        result = RESULTS / f"{name}.json"
        draw(json.loads(result.read_text(encoding="utf-8")))
        shows = result.relative_to(ROOT).as_posix()
        recorded("python benchmarks/redraw.py", [f"{plot}.png" for plot in plots], shows)
        print(f"drawn from {name}.json")


if __name__ == "__main__":
    main(sys.argv[1:])
