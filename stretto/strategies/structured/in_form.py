"""Writes answers in a ``response_format``: an answer is shown once it fits, or after a second try."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.fitting import Fit, fit
from stretto.values.answer import REFUSALS
from stretto.values.request import Message, Request

Again = Callable[[PromptTarget, str, str], tuple[Message, ...]]
"""Messages that ask once more, given the answer that was received and what is wrong with it."""


def with_response_format(prompt: ModelRequest, request: Request, target: PromptTarget) -> ModelRequest:
    """Return a prompt with the ``response_format``.

    If the model is not known to keep to a JSON schema, the prompt also contains it as text; answers are always checked.
    """
    wanted = request.options.response_format
    if isinstance(wanted, str):
        return replace(prompt, response_regex=wanted)
    if wanted is None:
        return prompt
    return _with_schema(replace(prompt, response_schema=wanted, strict=request.options.response_strict), target)


def _with_schema(prompt: ModelRequest, target: PromptTarget) -> ModelRequest:
    """Return the prompt, with its schema as text if the model might not keep to a schema that it does not see."""
    able = target.capabilities
    system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
    schema = json.dumps(prompt.response_schema, ensure_ascii=False)
    prompt = replace(prompt, in_words=target.template("in_form").messages(system=system, schema=schema))
    if able.json_schema and not able.schema_in_words:
        return prompt
    return replace(prompt.worded, in_words=(), response_schema=prompt.response_schema)


async def write_in_form(
    request: Request, runner: Runner, running: RunningBranch, again: Again
) -> tuple[RunningBranch, Any]:
    """Show an answer that fits its format, from the first or a second try; warn if neither fits.

    If the backend enforces the whole format, text is streamed; otherwise it is shown once complete and checked.
    ``running`` is the first try, with the format in its prompt. Return the try that was shown, and its value.
    """
    if runner.capabilities.regex:
        await running.begun()
        unenforced = running.metadata.unheld
        if not unenforced:  # only fitting tokens can be sampled: a second try changes nothing
            runner.merge.add_branch(running)
            await running.ended()
            return running, _value(runner, running, fit(running.text, request.options))
        runner.warn(
            f"{runner.model} cannot be constrained to {' and '.join(unenforced)} of response_format while it writes: "
            "the answer comes in one piece, after a check.",
            "format",
        )
    await _ended(running)
    if running.calls:  # text next to tool calls need not fit
        runner.merge.add(running.text)
        return running, None
    spec, found = running.spec, fit(running.text, request.options)
    if found.wrong and running.exception is None and running.finish_reason == "stop":
        received, wrong = running.text, found.wrong

        def prompt(target: PromptTarget) -> ModelRequest:
            model_request = replace(spec.prompt(target), messages=again(target, received, wrong), shared=0)
            return model_request if model_request.response_schema is None else _with_schema(model_request, target)

        second = runner.start(replace(spec, id=f"{spec.id}-again", prompt=prompt, standalone=False))
        await _ended(second)
        fits = fit(second.text, request.options)
        if second.exception is None and not (fits.wrong and second.finish_reason != "stop"):
            running.drop("it did not fit response_format")
            running, found = second, fits
        else:
            second.drop("the first answer is no worse")
    value = _value(runner, running, found)
    runner.merge.add(found.text)
    return running, value


async def _ended(running: RunningBranch) -> None:
    """Wait for the end of a branch that is not yet shown."""
    running.withhold()
    await running.ended()


def _value(runner: Runner, running: RunningBranch, found: Fit) -> Any:
    """Return the value of the answer; warn if it has none."""
    if running.exception is not None or running.finish_reason in REFUSALS or running.calls:
        return None  # already warned of
    warn_of_misfit(runner, found)
    return found.value


def warn_of_misfit(runner: Runner, found: Fit) -> None:
    """Warn if an answer does not fit its format or was not checked."""
    if found.wrong:
        runner.warn(f"The answer does not fit response_format: {found.wrong}.", "format")
    if found.unchecked:
        runner.warn(f"The answer was not checked against its schema: {found.unchecked}.", "format")
