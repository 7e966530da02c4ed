"""The figures of `document.py` as bars: ``python benchmarks/document_chart.py`` draws those that were saved last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from measuring import IMAGES, RESULTS
from plots import plot

from stretto.display.palette import Palette

__all__ = ["draw"]


def draw(result: Mapping[str, Any]) -> None:
    """Draw time, calls and tokens next to LangChain's, needles by length, and the library's own time."""
    plot(IMAGES / "document-figures", lambda plt, colours: _drawn(result, plt, colours))


def _drawn(result: Mapping[str, Any], plt: Any, colours: Palette) -> Any:
    http, own = result["over_http"], result["own_cpu_seconds"]
    ours, theirs = colours.accent, colours.field
    both = [("Stretto", http["stretto"], ours), ("LangChain", http["langchain"], theirs)]
    figure, panels = plt.subplots(1, 5, figsize=(15, 3.4))
    spreads = [each["seconds"] for _, each, _ in both]
    _bars(panels[0], [name for name, _, _ in both], [each["median"] for each in spreads], [each[2] for each in both])
    below = [each["median"] - each["least"] for each in spreads]
    above = [each["most"] - each["median"] for each in spreads]
    medians = [each["median"] for each in spreads]
    panels[0].errorbar(range(2), medians, yerr=[below, above], fmt="none", color=colours.text)
    panels[0].set_title("seconds of one answer")
    for axes, field in zip(panels[1:3], ("calls", "tokens"), strict=True):
        _bars(axes, [name for name, _, _ in both], [each[field] for _, each, _ in both], [each[2] for each in both])
        axes.set_title(field)
    rows = result["needles"]
    _bars(panels[3], [f"{row['windows']:,}" for row in rows], [row["all"]["found"] for row in rows], [ours] * len(rows))
    panels[3].set_title("needles found, by windows of text")
    names = {"cut_10_mb": "cut 10 MB", "pdf": "300 pages", "pypdf": "by pypdf"}
    heights = [own[name]["median"] for name in names]
    _bars(panels[4], [*names.values()], heights, [ours, ours, theirs])
    panels[4].set_title("seconds of processor")
    return figure


def _bars(axes: Any, names: Sequence[str], heights: Sequence[float], colors: Sequence[str]) -> None:
    """One bar for each name, with its height written above it."""
    drawn = axes.bar(range(len(names)), heights, color=colors, width=0.6)
    axes.bar_label(drawn, [f"{height:,.2f}" if isinstance(height, float) else f"{height:,}" for height in heights])
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.margins(y=0.15)


if __name__ == "__main__":
    draw(json.loads((RESULTS / "document.json").read_text(encoding="utf-8")))
