"""Answers that are held to a ``response_format``: shown once they fit, or were asked for once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stretto.backends.base import Prompt
from stretto.errors import InvalidRequestError
from stretto.request import Message, Request
from stretto.strategies.branch import BranchSpec, Running
from stretto.strategies.fan_out import FanOut
from stretto.strategies.fitting import Fit, fit

__all__ = ["held_to_format", "write_in_form"]

Again = Callable[[str, str], tuple[Message, ...]]
"""Messages that ask once more, given the answer that was received and what is wrong with it."""


def held_to_format(prompt: Prompt, request: Request, runner: FanOut) -> Prompt:
    """A prompt with the ``response_format``. Raises `InvalidRequestError` where the backend has none."""
    wanted = request.options.response_format
    if wanted is None:
        return prompt
    if isinstance(wanted, str):
        able, kind = runner.capabilities.regex, "a regular expression"
    else:
        able, kind = runner.capabilities.json_schema, "a JSON schema"
    if not able:
        raise InvalidRequestError(
            f"response_format is {kind}, and {runner.model} cannot hold an answer to one. "
            "Leave it out, or use another model."
        )
    return (
        replace(prompt, response_regex=wanted) if isinstance(wanted, str) else replace(prompt, response_schema=wanted)
    )


async def write_in_form(request: Request, runner: FanOut, spec: BranchSpec, again: Again) -> None:
    """Write an answer that fits its format, if the first or a second try gives one; a warning says where none does.

    Args:
        request: with its format.
        runner: starts the branches, and is given the value.
        spec: of the first try; its prompt is held to the format.
        again: asks for the second.
    """
    running = runner.start(spec)
    if runner.capabilities.regex:  # it draws tokens that fit and no others: nothing would change in a second try
        runner.merge.add_branch(running)
        await running.ended()
        _report(runner, running, fit(running.text, request.options))
        return
    await _ended(running)
    found = fit(running.text, request.options)
    if found.wrong and running.exception is None and running.finish_reason == "stop":
        prompt = replace(spec.prompt(), messages=again(running.text, found.wrong), shared=0)
        second = runner.start(replace(spec, id=f"{spec.id}-again", prompt=lambda: prompt))
        await _ended(second)
        fits = fit(second.text, request.options)
        if second.exception is None and not (fits.wrong and second.finish_reason != "stop"):
            running.drop("it did not fit response_format")
            running, found = second, fits
        else:
            second.drop("the first answer is no worse")
    _report(runner, running, found)
    runner.merge.add(running.text)


async def _ended(running: Running) -> None:
    """Wait for the end of a branch that is not shown yet; reading it keeps its buffer from running full."""
    while await running.read():
        pass


def _report(runner: FanOut, running: Running, found: Fit) -> None:
    """Hand out the value of the answer; a warning says where there is none."""
    if running.exception is not None or running.finish_reason == "refusal":
        return  # a warning says that already
    runner.parsed = found.value
    if found.wrong:
        runner.warn(f"The answer does not fit response_format: {found.wrong}.")
    if found.unchecked:
        runner.warn(f"The answer was not checked against its schema: {found.unchecked}.")
