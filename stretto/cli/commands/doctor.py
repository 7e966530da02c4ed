"""``stretto doctor``: what is installed, and which backends would work."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from stretto.cli import options
from stretto.cli.command_client import opener_of
from stretto.cli.exits import Exit, reporting
from stretto.cli.output.plain import json_lines

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.cli.commands.examination import Findings


@reporting
def doctor(context: typer.Context, *, json: options.Json = False) -> None:
    """Show what is installed and which backends would work.

    Calls no server and prints no key: only whether one is set.
    """
    from stretto.cli.commands.examination import examine  # noqa: PLC0415 - keeps `stretto --help` light

    findings = examine(opener_of(context))
    if json:
        typer.echo(json_lines({"healthy": findings.healthy, **asdict(findings)}))
    else:
        from stretto.cli.output.screen import print_lines  # noqa: PLC0415 - not needed for JSON

        marks = ("✓", "✗") if (sys.stdout.encoding or "").lower().startswith("utf") else ("+", "-")
        print_lines(lambda width: report(findings, marks, width))
    raise typer.Exit(Exit.OK if findings.healthy else Exit.FAILED)


def report(findings: Findings, marks: tuple[str, str] = ("✓", "✗"), width: int | None = None) -> list[Text]:
    """Render the findings as text; ``marks`` are the signs for yes and no."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.screen import columns  # noqa: PLC0415

    def mark(good: bool) -> tuple[str, str]:
        return (marks[0], "green") if good else (marks[1], "red")

    def heading(text: str) -> list[Text]:
        return [Text(), Text(text, "bold")]

    lines = columns([((name, "dim"), value) for name, value in _about(findings)], width=width)
    if findings.settings_error:
        lines.append(Text(f"error: {findings.settings_error}", "red"))
    backends = [(mark(each.works), each.backend, each.why) for each in findings.backends]
    lines += [*heading("Backends"), *columns(backends, width=width)]
    variables = [
        (name, ("set" if there else "not set", "" if there else "dim")) for name, there in findings.environment.items()
    ]
    lines += [*heading("Environment"), *columns(variables)]
    packages = [
        (
            mark(each.version is not None),
            each.name,
            each.version or "missing",
            (f"stretto[{each.extra}]" if each.extra else "", "dim"),
        )
        for each in findings.packages
    ]
    lines += [*heading("Packages"), *columns(packages), Text()]
    return [*lines, *columns([[_default(findings)]], width=width)]


def _default(findings: Findings) -> str:
    """Return a line about the default model."""
    name = findings.default_model
    if not name:
        return f"Without --model, nothing answers. {findings.default_because}"
    verdicts = {each.backend: each for each in findings.backends}
    verdict = verdicts.get(name) or verdicts.get(name.partition(":")[0])
    if verdict is not None and not verdict.works:
        return f"Without --model, {name} is asked, which cannot answer here: {verdict.why}"
    return f"Without --model, {name} answers. {findings.default_because}"


def _about(findings: Findings) -> list[tuple[str, str]]:
    machine = findings.machine
    torch = (
        f", torch uses {machine['torch_threads']} threads and {machine['cpu_capability']}" if "gpus" in machine else ""
    )
    there = " (not there: none needed)"
    if findings.settings_file_exists or findings.settings_error:
        there = ""
    return [
        ("stretto", findings.stretto),
        ("python", f"{findings.python} on {findings.system}"),
        ("processors", f"{machine.get('cpus')}{torch}"),
        ("GPU", ", ".join(machine.get("gpus", ())) or ("none" if "gpus" in machine else "unknown without torch")),
        ("settings file", findings.settings_file + there),
    ]
