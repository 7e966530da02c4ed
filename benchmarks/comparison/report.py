"""Figures for people: tables in the terminal, the generated block of the documentation, and the plot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plots import plot
from rich.console import Console
from rich.table import Table

from stretto.display.palette import Palette

__all__ = ["draw", "fill_block", "markdown", "print_bars", "print_table"]

_BEGIN = "<!-- figures: written by `python benchmarks/decoding.py --update-docs` -->"
_END = "<!-- end of figures -->"
_COLUMNS = (
    "method", "tokens/step", "rows/step", "ms/token", "over transformers", "over best peer", "first token, ms",
    "peak MB", "4-grams", "same",
)  # fmt: skip

Row = Mapping[str, Any]
"""One entry of the results as JSON: what is drawn and written comes from the file alone."""


def print_table(console: Console, rows: Sequence[Row]) -> None:
    """The figures of one workload."""
    table = Table(title=_title(rows[0]), title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=column == "method")
    for row in rows:
        table.add_row(*_cells(row), style="dim" if row["peer"] else "")
    console.print(table)


def print_bars(console: Console, bars: Iterable[Row]) -> None:
    """Which aims were met, and by how much the others were missed."""
    for bar in bars:
        mark = "[green]met   [/]" if bar["met"] else "[red]missed[/]"
        console.print(f"{mark} {bar['measured']:6.2f}  {_aim(bar)}  {bar['name']}")


def markdown(results: Row) -> str:
    """The generated block of ``benchmarks/results/decoding.md``."""
    lines = [f"{results['machine']}; {results['model']}, {results['dtype']}; {_versions(results)}.", ""]
    lines += [f"- {note}" for note in results["notes"]] + [""] * bool(results["notes"])
    for rows in _by_workload(results["rows"]):
        lines += [f"**{_title(rows[0])}**", "", *_markdown_table(_COLUMNS, map(_cells, rows)), ""]
    if (larger := results.get("larger")) is not None:
        lines += [_about_larger(larger), ""]
    if results["bars"]:
        cells = (
            (bar["name"], _aim(bar), f"{bar['measured']:.2f}", "met" if bar["met"] else "**missed**")
            for bar in results["bars"]
        )
        lines += _markdown_table(("figure", "aim", "measured", ""), cells)
    return "\n".join(lines).rstrip() + "\n"


def fill_block(document: Path, text: str, program: str = "decoding") -> None:
    """Write ``text`` between a benchmark's marks in a document. Raises ValueError where it has none."""
    whole, begin = document.read_text(encoding="utf-8"), _BEGIN.replace("decoding", program)
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(_END), re.DOTALL)
    if not pattern.search(whole):
        raise ValueError(f"{document} has no place for figures. Put the lines {begin!r} and {_END!r} into it.")
    block = f"{begin}\n\n{text}\n{_END}"
    document.write_text(pattern.sub(lambda _: block, whole, count=1), encoding="utf-8")


def draw(results: Row, file: Path) -> None:
    """A panel for each workload: how many times as fast as transformers' plain ``generate`` each method was."""
    groups = [rows for rows in _by_workload(results["rows"]) if all(row["over_greedy"] for row in rows)]
    if not groups:
        return
    tall = max(map(len, groups))

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, grid = plt.subplots(
            len(groups) // 2 + len(groups) % 2, min(len(groups), 2), squeeze=False, sharex=True,
            figsize=(10, (0.24 * tall + 0.7) * (len(groups) + 1) // 2),
        )  # fmt: skip
        for axes in grid.flat[len(groups) :]:
            axes.set_axis_off()
        for axes, group in zip(grid.flat, groups, strict=False):
            rows = sorted(group, key=lambda row: row["over_greedy"]["median"])
            for place, row in enumerate(rows):
                speed = row["over_greedy"]
                axes.barh(place, speed["median"], color=colours.field if row["peer"] else colours.accent, height=0.7)
                axes.plot((speed["least"], speed["most"]), (place, place), color=colours.text, linewidth=1)
                per_step = f" {row['tokens_per_step']:.1f}"
                axes.text(speed["most"], place, per_step, va="center", fontsize=6, color=colours.dim)
            axes.set_yticks(range(len(rows)), [row["method"] for row in rows], fontsize=7)
            axes.tick_params(axis="x", labelsize=7)
            axes.set_title(_title(rows[0]), fontsize=8, loc="left")
        figure.supxlabel(
            "times as fast as transformers' generate; line: least to most; number: tokens a step; grey: others'",
            fontsize=8,
        )
        return figure

    plot(file, drawn)


def _by_workload(rows: Sequence[Row]) -> list[list[Row]]:
    keys = dict.fromkeys((row["workload"], row["temperature"]) for row in rows)
    return [[row for row in rows if (row["workload"], row["temperature"]) == key] for key in keys]


def _title(row: Row) -> str:
    return f"{row['workload']}, {'greedy' if row['temperature'] == 0 else 'temperature ' + str(row['temperature'])}"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["method"], f"{row['tokens_per_step']:.2f}", f"{row['rows_per_step']:.1f}", _spread(row["ms_per_token"]),
        _spread(row["over_greedy"]), _spread(row["over_best_peer"]), _spread(row["first_ms"], 0),
        "" if row["peak_mb"] is None else f"{row['peak_mb']:.0f}", f"{row['distinct_4_grams']:.2f}",
        "" if row["same"] is None else f"{row['same']}/{row['answers']}",
    )  # fmt: skip


def _spread(value: Row | None, digits: int = 2) -> str:
    if value is None:
        return ""
    median, least, most = (f"{value[name]:.{digits}f}" for name in ("median", "least", "most"))
    return median if least == most else f"{median} ({least}-{most})"


def _aim(bar: Row) -> str:
    return f"{'<=' if bar['at_most'] else '>='} {bar['aim']:.2f}"


def _versions(results: Row) -> str:
    return ", ".join(f"{name} {version}" for name, version in results["versions"].items())


def _about_larger(larger: Row) -> str:
    rows = ", ".join(f"{count}: {cost:.1f}" for count, cost in larger["rows"].items())
    return (
        f"A Llama with random weights, {larger['gigabytes']:.2f} GB read by each step, {larger['threads']} threads: "
        f"memory gave {_spread(larger['bandwidth'], 1)} GB/s before or after each repetition. "
        f"A plain step of the engine: {_spread(larger['ours'], 1)} ms, {_spread(larger['over_floor'], 2)} times what "
        f"memory took for the weights then; of transformers: "
        f"{_spread(larger['transformers'], 1)} ms. A forward by its rows, ms: {rows}."
    )


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = "|" + "|".join("---" if place == 0 else "---:" for place in range(len(columns))) + "|"
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
