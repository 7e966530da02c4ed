"""``stretto bench``: which decoding method is fastest for a model on this machine."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.exits import reporting
from stretto.cli.local_models import with_local_model
from stretto.cli.output.plain import json_lines, one_line
from stretto.values.errors import InvalidRequestError, MissingDependencyError

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.cli.output.screen import Cell, Screen
    from stretto.config.settings import Settings
    from stretto.local_engine.measuring.advice import Advice
    from stretto.local_engine.measuring.bench import Report, Row, Spread
    from stretto.local_engine.measuring.bench_prompts import BenchPrompt
    from stretto.local_engine.model.loading.load import LoadedModel

KIND = "# kind:"


@reporting
@with_local_model("long_context", "draft_corpus")
def bench(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="local:FOLDER, local:HUB_NAME or local:pocket.",
            autocompletion=options.complete_local_model,
        ),
    ] = "local:pocket",
    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            metavar="MODEL",
            help="A smaller model with the same tokenizer, for draft_model.",
            autocompletion=options.complete_local_model,
        ),
    ] = None,
    head: Annotated[
        Path | None,
        typer.Option("--head", metavar="FOLDER", help="A head of the model, for head and auto."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Your own prompts, a line of --- between them; a first line '# kind: NAME' gathers some under a name.",
        ),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=2, help="Maximum number of tokens for each prompt.")
    ] = 96,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Timed repetitions.")] = 3,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="T", min=0.0, max=2.0, help="0: always the likeliest word.")
    ] = 0.0,
    local_model: dict[str, Any],
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the decoding methods on a local model, and say which to use.

    Runs every method on a few prompts, again and again in turns. Close what else keeps the machine busy. The methods
    give the same answers; what differs is the time.
    """
    from stretto.cli.output.screen import Screen, print_lines  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.config.settings import Settings  # noqa: PLC0415 - likewise

    screen = Screen(quiet=quiet)
    own = None if prompts is None else prompts_in(prompts)
    settings = Settings.load(**local_model)
    loaded, drafting = _loaded(screen, model, draft, settings)
    from stretto.local_engine.measuring.advice import advice  # noqa: PLC0415 - torch is imported by now
    from stretto.local_engine.measuring.bench import PROMPTS  # noqa: PLC0415
    from stretto.local_engine.measuring.bench import bench as measure  # noqa: PLC0415

    try:
        report = measure(
            loaded,
            draft=drafting,
            head=head,
            prompts=own or PROMPTS,
            tokens=tokens,
            repeats=repeats,
            temperature=temperature,
            threads=settings.threads,
            progress=screen.bar(),
        )
    finally:
        screen.end()
    advised = advice(report)
    if json:
        screen.write(json_lines({**asdict(report), "advice": [asdict(each) for each in advised]}) + "\n")
        return
    print_lines(lambda width: rendered(report, advised, width))


def _loaded(
    screen: Screen, name: str, draft_name: str | None, settings: Settings
) -> tuple[LoadedModel, LoadedModel | None]:
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415 - keeps `stretto --help` light

    source = find_source(name)
    draft = None if draft_name is None else find_source(draft_name)
    screen.note(f"loading {source.name}")
    try:
        from stretto.local_engine.model.loading.load import load_model  # noqa: PLC0415 - imports torch
    except ImportError as error:
        raise MissingDependencyError(
            f"{source.name} needs {error.name or 'torch and transformers'}, which cannot be imported here. "
            "Run: pip install 'stretto[local]'"
        ) from error
    load = partial(
        load_model,
        dtype=settings.dtype,
        quantize=settings.quantize,
        device=settings.device,
        compiled=settings.compiled is not False,
    )
    return load(source), None if draft is None else load(draft)


def prompts_in(file: Path) -> tuple[BenchPrompt, ...]:
    """Read prompts from a file. Raises `InvalidRequestError`."""
    from stretto.local_engine.measuring.bench_prompts import BenchPrompt  # noqa: PLC0415 - keeps `stretto --help` light

    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidRequestError(f"The prompts {str(file)!r} cannot be read: {why}.") from None
    found = []
    for block in f"\n{text}\n".split("\n---\n"):
        first, _, rest = block.strip().partition("\n")
        named = first.startswith(KIND)
        kind, prompt = (first.removeprefix(KIND).strip(), rest.strip()) if named else ("prompt", block.strip())
        if prompt:
            found.append(BenchPrompt(kind or "prompt", prompt))
    if not found:
        raise InvalidRequestError(f"The file {str(file)!r} holds no prompt. Write some, a line of --- between them.")
    return tuple(found)


def rendered(report: Report, advised: tuple[Advice, ...], width: int | None = None) -> list[Text]:
    """Render the report: a table for each kind of prompt, including slower methods, then advice."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.progress import counted  # noqa: PLC0415
    from stretto.cli.output.screen import columns  # noqa: PLC0415

    threads = "" if report.threads is None else f", {counted(report.threads, 'thread')}"
    lines = [
        Text(
            f"{one_line(report.model)}, {report.dtype} on {report.device}{threads}; at most {report.tokens} tokens, "
            f"temperature {report.temperature:g}; medians of {counted(report.repeats, 'repetition')} (least-most)"
        )
    ]
    for kind in dict.fromkeys(row.kind for row in report.rows):
        written = next(row.tokens for row in report.rows if row.kind == kind)
        rows = sorted((row for row in report.rows if row.kind == kind), key=lambda row: -(row.speed_up or 0.0))
        heading: list[Cell] = [
            (f"{one_line(kind)}, {written} tokens", "bold"),
            "ms a token",
            "speed-up",
            "tokens a step",
            "rows a step",
            "first token ms",
            "",
        ]
        table = columns([heading, *(_cells(row) for row in rows)], right=(1, 2, 3, 4, 5))
        lines += [Text(), *table]
    if report.left_out:
        missing = list(report.left_out.items())
        lines += [Text(), Text("Not measured", "bold"), *columns(missing, width=width)]
    use = [(each.kind, each.method, each.reason) for each in advised]
    return [*lines, Text(), Text("Use", "bold"), *columns(use, width=width)]


def _cells(row: Row) -> list[Cell]:
    remarks = [] if row.same else ["other answers"]
    if row.speed_up is not None and row.speed_up < 1:
        remarks.append("slower")
    return [
        row.method,
        "-" if row.ms_per_token is None else _spread(row.ms_per_token),
        "-" if row.speed_up is None else f"{row.speed_up:.2f}",
        f"{row.tokens_per_step:.2f}",
        f"{row.rows_per_step:.1f}",
        _spread(row.first_token_ms, digits=1),
        ", ".join(remarks),
    ]


def _spread(found: Spread, digits: int = 2) -> str:
    return f"{found.median:.{digits}f} ({found.least:.{digits}f}-{found.most:.{digits}f})"
