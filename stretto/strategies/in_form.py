"""Writes answers in a ``response_format``: an answer is shown when it fits, or after a second try."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from stretto.answer import REFUSALS
from stretto.backends.base import ModelRequest
from stretto.request import Message, Request
from stretto.strategies.branch import RunningBranch
from stretto.strategies.fitting import Fit, fit
from stretto.strategies.runner import Runner

__all__ = ["held_to_format", "write_in_form"]

Again = Callable[[str, str], tuple[Message, ...]]
"""Messages that ask once more, given the answer that was received and what is wrong with it."""


def held_to_format(prompt: ModelRequest, request: Request, runner: Runner) -> ModelRequest:
    """A prompt with the ``response_format``.

    A model that is not known to keep to a JSON schema is told it in words as well: the answer is checked in any case.
    """
    wanted = request.options.response_format
    if wanted is None:
        return prompt
    if not isinstance(wanted, str):
        return replace(prompt, messages=_with_schema(prompt.messages, request, runner), response_schema=wanted)
    return replace(prompt, response_regex=wanted)


def _with_schema(messages: tuple[Message, ...], request: Request, runner: Runner) -> tuple[Message, ...]:
    """The messages, with the schema added where the model might not keep to a schema that it does not see."""
    wanted = request.options.response_format
    able = runner.capabilities
    if (able.json_schema and not able.schema_in_words) or not isinstance(wanted, dict):
        return messages
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    instructions = runner.template("in_form").messages(system=system, schema=json.dumps(wanted, ensure_ascii=False))
    return (*instructions, *(message for message in messages if message.role != "system"))


async def write_in_form(request: Request, runner: Runner, running: RunningBranch, again: Again) -> RunningBranch:
    """Show an answer that fits its format, if the first or a second try gives one; a warning says where none does.

    Text that its backend holds to the whole format is shown as it comes, any other once it is complete and checked.

    Args:
        request: with its format.
        runner: starts the second try, and is given the value.
        running: the first try; its prompt is held to the format.
        again: asks for the second.

    Returns:
        the try that was shown.
    """
    if runner.capabilities.regex:
        await running.begun()
        if not running.unheld:  # only tokens that fit can be drawn: a second try would change nothing
            runner.merge.add_branch(running)
            await running.ended()
            _report(runner, running, fit(running.text, request.options))
            return running
        runner.warn(
            f"{runner.model} cannot be held to {' and '.join(running.unheld)} of response_format while it writes: the "
            "answer comes in one piece, after a check."
        )
    await _ended(running)
    if running.calls:  # text beside tool calls need not fit
        runner.merge.add(running.text)
        return running
    spec, found = running.spec, fit(running.text, request.options)
    if found.wrong and running.exception is None and running.finish_reason == "stop":
        messages = _with_schema(again(running.text, found.wrong), request, runner)
        prompt = replace(spec.prompt(), messages=messages, shared=0)
        second = runner.start(replace(spec, id=f"{spec.id}-again", prompt=lambda: prompt, standalone=False))
        await _ended(second)
        fits = fit(second.text, request.options)
        if second.exception is None and not (fits.wrong and second.finish_reason != "stop"):
            running.drop("it did not fit response_format")
            running, found = second, fits
        else:
            second.drop("the first answer is no worse")
    _report(runner, running, found)
    runner.merge.add(found.text)
    return running


async def _ended(running: RunningBranch) -> None:
    """Wait for the end of a branch that is not shown yet."""
    running.withhold()
    await running.ended()


def _report(runner: Runner, running: RunningBranch, found: Fit) -> None:
    """Report the value of the answer, or warn that it has none."""
    if running.exception is not None or running.finish_reason in REFUSALS or running.calls:
        return  # a warning says that already
    runner.parsed = found.value
    if found.wrong:
        runner.warn(f"The answer does not fit response_format: {found.wrong}.")
    if found.unchecked:
        runner.warn(f"The answer was not checked against its schema: {found.unchecked}.")
