"""``stretto ask``: one question, one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import models_of, open_client, question_of
from stretto.cli.exits import LATE_S, PATIENCE_S, Exit, exit_of_answer, exit_of_error, leaving_within, reporting
from stretto.cli.local_models import with_local_model
from stretto.cli.usage import DRAWN, TRACE_TO
from stretto.values.errors import DeadlineExceededError, InvalidRequestError

if TYPE_CHECKING:
    from stretto.cli.output.screen import Screen
    from stretto.client.async_client import AsyncStretto
    from stretto.values.answer import Answer


@reporting
@options.with_request
@with_local_model()
def ask(
    context: typer.Context,
    *,
    question: options.Question = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = None,
    role: options.Roles = None,
    fallback: options.Fallback = None,
    request: dict[str, Any],
    local_model: dict[str, Any],
    prompt_family: options.PromptFamily = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON when it is complete.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event as a line of JSON.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Draw what ran when, below the answer; --trace FILE.html: as a page.")
    ] = False,
    trace_to: Annotated[Path | None, typer.Option(TRACE_TO, hidden=True, dir_okay=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", dir_okay=False, help="Write the text of the answer to a file, too."
        ),
    ] = None,
    schema: options.Schema = None,
    compare: Annotated[bool, typer.Option("--compare", help="Ask once more with direct, and compare both.")] = False,
    plain: options.Plain = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask a question and stream the answer.

    The answer goes to standard output, everything else to standard error. Text from a pipe is the
    question, or is put below it.
    """
    import asyncio  # noqa: PLC0415 - these four keep `stretto --help` light

    from stretto.cli.output.live import introduce  # noqa: PLC0415
    from stretto.cli.output.screen import Screen  # noqa: PLC0415

    if json and events:
        raise InvalidRequestError(
            "--json and --events exclude each other: one prints the answer, the other its events."
        )
    if compare and events:
        raise InvalidRequestError("--compare and --events exclude each other. Use --compare --json.")
    if trace_to is not None and trace_to.suffix.lower() not in DRAWN:
        raise InvalidRequestError(
            f"--trace {str(trace_to)!r} cannot be written: a timeline is saved as .html or .svg. Name such a file."
        )
    if trace_to is not None and not trace_to.parent.is_dir():
        raise InvalidRequestError(
            f"--trace {str(trace_to)!r} cannot be written: there is no folder {str(trace_to.parent)!r}. Make it first."
        )
    if out is not None and not out.parent.is_dir():
        raise InvalidRequestError(
            f"--out {str(out)!r} cannot be written: there is no folder {str(out.parent)!r}. Make it first."
        )
    if schema is not None:
        from stretto.cli.record import schema_in  # noqa: PLC0415 - as above

        request["response_format"] = schema_in(schema)
    prompt = question_of(question)
    screen = Screen(quiet=quiet, unrendered=plain)
    client = open_client(
        context,
        model,
        base_url,
        key_variable,
        local_model,
        roles=models_of(role),
        prompt_family=prompt_family,
        fallback=fallback or None,
    )
    begin = partial(introduce, client, screen, named=model is not None)
    silent = json or schema is not None
    answers = asyncio.run(_answers(client, prompt, screen, request, begin, compare=compare, form=(silent, events)))
    if out is not None:
        _write_text(out, answers[0], screen)
    if trace_to is not None:
        _write_trace(trace_to, prompt, answers, screen)
    if schema is not None and not (json or events):
        from stretto.cli.record import print_record  # noqa: PLC0415 - as above

        print_record(answers[0], screen)
    _print(answers, screen, json=json, logprobs="logprobs" in request and not json and not events, trace=trace)
    fits = schema is None or all(warning.code != "format" for warning in answers[0].warnings)
    raise typer.Exit(exit_of_answer(answers[0]) if fits else Exit.INCOMPLETE)


async def _answers(
    client: AsyncStretto,
    question: str,
    screen: Screen,
    request: dict[str, Any],
    begin: Callable[[], None],
    *,
    compare: bool,
    form: tuple[bool, bool],
) -> Sequence[Answer]:
    """Return the answer and, with ``compare``, the direct one after it."""
    import asyncio  # noqa: PLC0415 - these three keep `stretto --help` light

    from stretto.backends.tenants import UNKNOWN, asked_for  # noqa: PLC0415
    from stretto.cli.output.live import answer_live, conclude, events_on, silently  # noqa: PLC0415
    from stretto.cli.output.side_by_side import direct_answer, make_ready  # noqa: PLC0415

    silent, events = form
    show = events_on(screen) if events else silently if silent else None
    with ExitStack() as leaving:
        if compare:
            leaving.enter_context(asked_for(UNKNOWN))  # else the second answer would be drafted from the first
        async with client:
            try:
                if compare:
                    await make_ready(client, question, screen)
                answer = await answer_live(client, question, screen, show, first=not compare, begin=begin, **request)
                conclude(answer, screen, footnotes=show is None)
                return (answer, *(await direct_answer(client, question, screen, answer, request) if compare else ()))
            except asyncio.CancelledError:
                leaving.enter_context(leaving_within(PATIENCE_S, Exit.INTERRUPTED))
                raise
            except DeadlineExceededError as error:
                leaving.enter_context(leaving_within(LATE_S, exit_of_error(error), error))
                raise


def _print(answers: Sequence[Answer], screen: Screen, *, json: bool, logprobs: bool, trace: bool) -> None:
    from stretto.cli.output.live import logprobs_of  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.cli.output.side_by_side import as_json, table  # noqa: PLC0415
    from stretto.cli.output.trace import render_timeline  # noqa: PLC0415

    if json:
        screen.write(as_json(answers) + "\n")
    if logprobs and answers[0].logprobs:  # if missing, there is a warning already
        screen.show("", *logprobs_of(answers[0], screen.width))
    if trace:
        for each in answers:
            screen.show("", *render_timeline(each, screen.width, blocks=screen.encodes_blocks))
    if len(answers) > 1:
        screen.show("", *table(*answers))


def _write_text(file: Path, answer: Answer, screen: Screen) -> None:
    """Write the text of the answer to a file, with its line endings unchanged."""
    try:
        file.write_text(answer.text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidRequestError(f"--out {str(file)!r} cannot be written: {error.strerror}.") from None
    screen.note(f"The answer is in {file}")


def _write_trace(file: Path, question: str, answers: Sequence[Answer], screen: Screen) -> None:
    """Write the timeline to a file, one page per answer."""
    from stretto.display.notebook import answer_page  # noqa: PLC0415 - these two keep `stretto --help` light
    from stretto.display.plot import TimelinePlot  # noqa: PLC0415

    for number, answer in enumerate(answers):
        path = file if number == 0 else file.with_stem(f"{file.stem}-direct")
        try:
            if path.suffix.lower() == ".svg":
                TimelinePlot(answer).save(path)
            else:
                path.write_text(answer_page(answer, question), encoding="utf-8")
        except OSError as error:
            raise InvalidRequestError(f"--trace {str(path)!r} cannot be written: {error.strerror}.") from None
        screen.note(f"What ran when is drawn in {path}")
