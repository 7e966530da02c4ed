"""The figures of the server's benchmark as a page and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plots import plot

from stretto.display.palette import Palette

Row = Mapping[str, Any]


def markdown(results: Row) -> str:
    """Three tables for benchmarks/results/server.md."""
    direct, sdk = (results["added"][name]["total_ms"] for name in ("scripted server itself", "stretto SDK"))
    lines = [
        f"{results['machine']}. Streams of {results['words']} words that are there at once, one request at a time, "
        f"medians of {results['requests']}:",
        "",
        "| way | first text, ms | whole answer, ms | over the scripted server | over the SDK |",
        "|---|---|---|---|---|",
    ]
    for name, row in results["added"].items():
        over = f"{row['total_ms'] - direct:+.1f}" if row["total_ms"] != direct else ""
        beyond = f"{row['total_ms'] - sdk:+.1f}" if name == "stretto serve" else ""
        lines.append(f"| {name} | {row['first_ms']:.1f} | {row['total_ms']:.1f} | {over} | {beyond} |")
    clients = next(iter(results["load"].values()))["clients"]
    lines += [
        "",
        f"{clients} clients that ask again as soon as they are answered, answers in one piece:",
        "",
        "| server | answers a second | median, ms | 95 of 100 within, ms | errors | memory at the end, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in results["load"].items():
        times = f"{row['per_second']:.0f} | {row['p50_ms']:.0f} | {row['p95_ms']:.0f}"
        lines.append(f"| {name} | {times} | {row['errors']} | {row['memory_mib'][-1][1]:.0f} |")
    streams = results["streams"]
    left, memory = streams["left"], [each for _, each in streams["memory_mib"]]
    lines += [
        "",
        f"{streams['clients']} streams at a time of {streams['rate']:.0f} words a second each: {streams['answers']} "
        f"whole answers, {streams['errors']} errors. Memory of `stretto serve`: {_middle(memory, 0.25):.0f} MiB after "
        f"a quarter of the time, {_middle(memory, 1.0):.0f} MiB at the end. A second after the last client had left, "
        f"{left['running']:.0f} answers were being written and {left['waiting']:.0f} waited. Open files: "
        f"{left['files_before']:.0f} before, {left['files']:.0f} after, because connections to the model are kept.",
    ]
    return "\n".join(lines)


def draw(results: Row, file: Path) -> None:
    """What each way adds, and memory while 300 clients stream."""
    direct = results["added"]["scripted server itself"]["total_ms"]
    names = [name for name in results["added"] if name != "scripted server itself"]
    streams = results["streams"]

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, (bars, lines) = plt.subplots(1, 2, figsize=(10, 3.2))
        added = [results["added"][name]["total_ms"] - direct for name in names]
        drawn = bars.barh(
            names, added, color=[colours.accent if "stretto" in name else colours.field for name in names]
        )
        bars.bar_label(drawn, fmt="%.1f", padding=4, color=colours.dim)
        bars.set(xlabel="ms added to an answer, median; grey: another's", xlim=(0, 1.12 * max(added)))
        if streams["memory_mib"]:
            lines.plot(*zip(*streams["memory_mib"], strict=True), color=colours.accent)
        lines.set_ylim(bottom=0)
        lines.set(
            xlabel="seconds", ylabel="memory in MiB", title=f"stretto serve, {streams['clients']} streams at a time"
        )
        return figure

    plot(file, drawn)


def _middle(values: list[float], share: float) -> float:
    """The value after this share of the time; 0 where there is none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
