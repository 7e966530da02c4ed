"""How all plots look: the one palette, on a light and on a dark ground."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT

from stretto.display.palette import SCHEMES, Palette, palette

sys.path.append(str(ROOT / "docs"))

from pictures import keep_record  # of all pictures of the documentation

__all__ = ["plot", "recorded", "svg_style"]

DPI = 110


def plot(file: Path, draw: Callable[[Any, Palette], Any], kind: str = "png") -> None:
    """Draw a figure on both grounds, into ``FILE-light.png`` and ``FILE-dark.png``.

    ``draw`` is given pyplot and the colours, makes a figure and returns it. Lines take the voices of the palette in
    their order unless it says otherwise.
    """
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    mpl.use("Agg")
    from cycler import cycler  # noqa: PLC0415 - comes with matplotlib
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of canvas

    file.parent.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        colours = palette(scheme)
        style: dict[Any, Any] = {
            "figure.facecolor": colours.back,
            "figure.constrained_layout.use": True,
            "axes.facecolor": colours.back,
            "axes.edgecolor": colours.field,
            "axes.labelcolor": colours.text,
            "axes.prop_cycle": cycler(color=colours.voices),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "text.color": colours.text,
            "xtick.color": colours.dim,
            "ytick.color": colours.dim,
            "legend.frameon": False,
            "lines.markersize": 5,
            "svg.hashsalt": file.name,
        }
        with mpl.rc_context(style):
            figure = draw(plt, colours)
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(file.with_name(f"{file.name}-{scheme}.{kind}"), dpi=DPI, metadata=metadata)
            plt.close(figure)


def recorded(command: str, names: Sequence[str], *shows: str) -> None:
    """Keep what plots of the documentation show, by their names without the ground: beside the colours, ``shows``."""
    files = [*shows, "benchmarks/plots.py", "stretto/display/palette.toml"]
    keep_record(
        command,
        {
            f"{stem}-{scheme}.{kind}": files
            for stem, _, kind in (name.partition(".") for name in names)
            for scheme in SCHEMES
        },
    )


def svg_style(colours: Callable[[Palette], str]) -> str:
    """The style of a drawing that is on a light ground or on a dark one, as the reader has it."""
    return f"{colours(palette('light'))}@media(prefers-color-scheme:dark){{{colours(palette('dark'))}}}"
