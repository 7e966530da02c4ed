"""One call of a function: its branch in the answer, and what the model is told of it. It never fails the answer."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import anyio
from pydantic_core import to_json

from stretto.backends.base import ModelRequest
from stretto.errors import StrettoError
from stretto.events import BranchStarted, ToolFinished, ToolStarted
from stretto.foundation.surrogates import mend
from stretto.generation_options import GenerationOptions
from stretto.strategies.branch import RunningBranch
from stretto.strategies.branch_spec import BranchSpec
from stretto.strategies.runner import Runner
from stretto.tool_calls import ToolCall
from stretto.tools import Tool, WrongArgumentsError

__all__ = ["MOST_CHARACTERS", "result_of", "start_tool"]

MOST_CHARACTERS = 100_000  # of a result; what is longer is cut, and says so
_log = logging.getLogger(__name__)


class _ToolFailedError(StrettoError):
    """A function gave no result; its words are for the model."""


def start_tool(
    runner: Runner, tool: Tool, call: ToolCall, number: int, at_once: anyio.CapacityLimiter
) -> RunningBranch:
    """Call a function in a branch of its own; ``number``: of the call in the answer, from 1."""
    spec = BranchSpec(
        id=f"tool-{number}",
        kind="tool",
        title=tool.name,
        label=f"The tool {tool.name}",
        prompt=lambda: ModelRequest(()),
        options=GenerationOptions(),
        work=partial(_carry_out, runner=runner, tool=tool, call=call, at_once=at_once),
    )
    return runner.start(spec)


def result_of(running: RunningBranch) -> tuple[str, bool]:
    """What the model is given for an ended call, and whether something went wrong."""
    if running.exception is None:
        return running.text, False
    return f"Error: {running.exception}", True


async def _carry_out(
    running: RunningBranch, *, runner: Runner, tool: Tool, call: ToolCall, at_once: anyio.CapacityLimiter
) -> None:
    running.withhold()
    async with at_once:
        spec = running.spec
        running.started_s = runner.now_s()
        await runner.announce(BranchStarted(branch_id=spec.id, kind=spec.kind, title=spec.title))
        await runner.announce(ToolStarted(branch_id=spec.id, call=call))
        try:
            running.write(await _called(tool, call), runner.now_s())
        except _ToolFailedError as error:
            running.exception, running.finish_reason = error, "error"
            if not isinstance(error.__cause__, WrongArgumentsError):  # which the model can mend by itself
                runner.warn_once(f"The tool {tool.name} failed, and the model was told so: {error}")
    result, is_error = result_of(running)
    await runner.announce(
        ToolFinished(branch_id=spec.id, call_id=call.id, name=tool.name, result=result, is_error=is_error)
    )


async def _called(tool: Tool, call: ToolCall) -> str:
    """What a function returns, as text. Raises `_ToolFailedError`."""
    with anyio.move_on_after(tool.timeout_s):
        try:
            return await tool.call(tool.read(call.arguments), _written)
        except WrongArgumentsError as error:
            raise _ToolFailedError(str(error)) from error
        except Exception as error:
            _log.info("the tool %s failed", tool.name, exc_info=True)
            said = mend(str(error))[:MOST_CHARACTERS]
            raise _ToolFailedError(f"{type(error).__name__}: {said}" if said else type(error).__name__) from error
    raise _ToolFailedError(f"It gave no result within {tool.timeout_s:g} s.")


def _written(value: Any) -> str:
    """What a function returned as the model reads it: a text as it is, all else as JSON."""
    text = mend(value if isinstance(value, str) else to_json(value, fallback=str).decode())
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text) - MOST_CHARACTERS:,} more characters]"
