"""What the batching benchmark and the soak show to people: tables, the blocks of ``benchmarks/results/batching.md``.

Drawn and written from the kept results alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plots import plot
from rich.console import Console
from rich.table import Table

from stretto.display.palette import Palette

__all__ = ["ahead", "batching_markdown", "draw_batching", "draw_soak", "print_ahead", "print_rows", "soak_markdown"]

_COLUMNS = ("requests", "method", "threads", "tokens/s", "end, s", "end of 95%, s", "first token, s", "same")
_MEASURES = {
    "tokens_per_s": "tokens per second",
    "end_median_s": "time to the end",
    "first_median_s": "time to the first",
}

Row = Mapping[str, Any]


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """All methods at all sizes."""
    table = Table(title="medians (least-most) over repetitions", title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "method" else "right")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        last = following is None or following["requests"] != row["requests"]
        table.add_row(*_cells(row), end_section=last)
    console.print(table)


def ahead(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """How many times better each of our methods is than the best peer, by requests; above 1 it is ahead.

    The best peer is the best in each measure on its own, so it may be one in throughput and another in latency.
    """
    found = []
    for size in dict.fromkeys(row["requests"] for row in rows):
        own = [row for row in rows if row["requests"] == size and not row["peer"]]
        peers = [row for row in rows if row["requests"] == size and row["peer"]]
        plain = next((row for row in own if row["method"] == "autoregressive"), None)
        for row in own:
            entry: dict[str, Any] = {"requests": size, "method": row["method"]}
            if peers:
                entry |= {name: min(_times(name, row, peer) for peer in peers) for name in _MEASURES}
            if plain is not None:
                entry["over_autoregressive"] = _times("tokens_per_s", row, plain)
            found.append(entry)
    return found


def print_ahead(console: Console, rows: Sequence[Row]) -> None:
    """Where we are ahead of every peer, and where not."""
    for entry in ahead(rows):
        least = min((entry[name] for name in _MEASURES if name in entry), default=0.0)
        mark = "[green]ahead [/]" if least > 1 else "[red]behind[/]"
        measures = ", ".join(f"{label} {entry[name]:.2f}" for name, label in _MEASURES.items() if name in entry)
        console.print(f"{mark} {entry['requests']:3} {entry['method']}: {measures}")


def batching_markdown(results: Row) -> str:
    """The generated block about throughput and latency."""
    lines = [_about(results), ""]
    lines += _markdown(_COLUMNS, [_cells(row) for row in results["rows"]])
    lines += ["", "How many times better than the best peer in each measure; above 1 is ahead:", ""]
    columns = ("requests", "method", *_MEASURES.values(), "tokens per second over autoregressive")
    names = (*_MEASURES, "over_autoregressive")
    cells = [
        (str(entry["requests"]), entry["method"], *(f"{entry[name]:.2f}" if name in entry else "" for name in names))
        for entry in ahead(results["rows"])
    ]
    lines += _markdown(columns, cells)
    lines += ["", f"The {results['points_of_an_answer']} points of one answer, seconds until the last one ends:", ""]
    lines += _markdown(("", "seconds"), [(name, _spread(wall, 3)) for name, wall in results["points"].items()])
    return "\n".join(lines) + "\n"


def soak_markdown(results: Row) -> str:
    """The generated block about the soak."""
    ends = ", ".join(f"{count} {reason}" for reason, count in sorted(results["reasons"].items()))
    kept = (
        ("requests, by how they ended", ends),
        ("whose end was not reported exactly once", str(results["ends_missing"])),
        ("slots of keys and values left", str(results["slots_left"])),
        ("threads left", str(results["threads_left"])),
        ("greedy answers compared with those given alone", str(results["compared"])),
        ("of these different", str(results["different"])),
        ("process, MiB, median of the first and of the last quarter", _pair(results["quarters_mib"], 0)),
        ("process, bytes more per request", _slope(results["resident"])),
        ("given out by malloc while nothing ran, MiB, before and after", _pair(results["at_rest_mib"], 1)),
        ("given out by Python, blocks more per request", _slope(results["blocks"])),
        ("process, MiB, most", f"{results['peak_mib']:.0f}"),
        ("seconds", f"{results['seconds']:.0f}"),
    )
    return "\n".join([f"{results['machine']}; {results['options']['dtype']}.", "", *_markdown(("", ""), kept)]) + "\n"


def _pair(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values) or "not known"


def _slope(slope: Row) -> str:
    """What each request adds, with the standard error."""
    return f"{slope['each']:.0f} ± {slope['error']:.0f}"


def draw_batching(results: Row, file: Path) -> None:
    """Throughput, and the median times to the first token and to the end, by the number of requests."""
    rows = results["rows"]
    methods = dict.fromkeys(row["method"] for row in rows)
    labels = ("tokens per second", "seconds to the end, median", "seconds to the first token, median")

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, panels = plt.subplots(1, 3, figsize=(10, 3.6))
        looks = _looks(list(methods), colours)
        for axes, name, label in zip(panels, _MEASURES, labels, strict=True):
            for method in methods:
                own = [row for row in rows if row["method"] == method]
                sizes, spreads = [row["requests"] for row in own], [row[name] for row in own]
                axes.plot(sizes, [spread["median"] for spread in spreads], label=method, ms=4, **looks[method])
                low, high = [spread["least"] for spread in spreads], [spread["most"] for spread in spreads]
                axes.fill_between(sizes, low, high, color=looks[method]["color"], alpha=0.15, linewidth=0)
            sizes = sorted({row["requests"] for row in rows})
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.set(xlabel="requests at once", ylabel=label)
            axes.set_ylim(bottom=0)
        figure.legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=len(methods),
            fontsize=8,
            handlelength=3,
        )
        figure.suptitle(_about(results), fontsize=9)
        return figure

    plot(file, drawn)


def _looks(methods: Sequence[str], colours: Palette) -> dict[str, Row]:
    """Stretto's methods in the accent, those of others in grey; of each, one solid and the next ones dashed."""
    looks: dict[str, Row] = {}
    for method in methods:
        colour = colours.field if method.startswith("transformers") else colours.accent
        dashes = ("-", "--", ":")[min(2, sum(look["color"] == colour for look in looks.values()))]
        looks[method] = {"color": colour, "linestyle": dashes, "marker": "o"}
    return looks


def draw_soak(results: Row, file: Path) -> None:
    """Memory of the process over the requests of the soak."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(7, 2.8))
        memory = results["memory"]
        axes.plot([at for at, _ in memory], [size / 2**20 for _, size in memory], linewidth=1, color=colours.accent)
        axes.axvline(0, color=colours.field, linewidth=0.8)
        for side, label in (("right", "warm-up "), ("left", " measured")):
            axes.text(0, 0.05, label, transform=axes.get_xaxis_transform(), ha=side, color=colours.dim, fontsize=9)
        axes.set(xlabel="requests sent after the warm-up", ylabel="memory of the process, MiB")
        axes.set_ylim(bottom=0)
        figure.suptitle(f"{results['machine']}, {results['options']['dtype']}", fontsize=9)
        return figure

    plot(file, drawn)


def _times(name: str, own: Row, other: Row) -> float:
    better = own[name]["median"] / other[name]["median"]
    return float(better if name == "tokens_per_s" else 1 / better)


def _about(results: Row) -> str:
    options = results["options"]
    return f"{results['machine']}; {results['model']}, {results['dtype']}; {options['tokens']} new tokens each"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        str(row["requests"]), row["method"], str(row["threads"]), _spread(row["tokens_per_s"], 0),
        *(_spread(row[name], 3) for name in ("end_median_s", "end_p95_s", "first_median_s")),
        f"{row['same_answers']:.2f}",
    )  # fmt: skip


def _spread(value: Row, digits: int) -> str:
    median, least, most = (f"{value[name]:.{digits}f}" for name in ("median", "least", "most"))
    return median if least == most else f"{median} ({least}-{most})"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = "|" + "|".join("---" if column in ("", "method") else "---:" for column in columns) + "|"
    return [f"| {' | '.join(columns)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]
