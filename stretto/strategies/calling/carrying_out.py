"""One call of a function: its branch in the answer, and what the model is told of it. It never fails the answer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import to_json

from stretto.backends.base import ModelRequest
from stretto.foundation.surrogates import fix_surrogates
from stretto.foundation.threads import ThreadLeftError
from stretto.strategies.runtime.branch import Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.runner import Runner
from stretto.values.errors import StrettoError
from stretto.values.events import BranchStarted, ToolFinished, ToolStarted
from stretto.values.generation_options import GenerationOptions
from stretto.values.tool_calls import ToolCall
from stretto.values.tools import Tool, WrongArgumentsError

MOST_CHARACTERS = 100_000  # of a result; what is longer is cut, and says so
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _ToolFailedError(StrettoError):
    """A function gave no result; its words are for the model."""


def start_tool(
    runner: Runner, tool: Tool, call: ToolCall, number: int, at_once: anyio.CapacityLimiter
) -> RunningBranch:
    """Call a function in a separate branch; ``number``: of the call in the answer, from 1."""
    spec = BranchSpec(
        id=f"tool-{number}",
        kind="tool",
        title=tool.name,
        label=f"The tool {tool.name}",
        prompt=lambda _: ModelRequest(()),
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
        running.progress.started_s = runner.now_s()
        await runner.announce(BranchStarted(branch_id=spec.id, kind=spec.kind, **spec.about))
        await runner.announce(ToolStarted(branch_id=spec.id, call=call))
        try:
            running.write(await _called(tool, call), runner.now_s())
        except _ToolFailedError as error:
            running.outcome = Outcome("error", error)
            if not isinstance(error.__cause__, WrongArgumentsError):  # which the model can mend by itself
                runner.warn_once(f"The tool {tool.name} failed, and the model was told so: {error}", "tool")
    result, is_error = result_of(running)
    await runner.announce(
        ToolFinished(branch_id=spec.id, call_id=call.id, name=tool.name, result=result, is_error=is_error)
    )


async def _called(tool: Tool, call: ToolCall) -> str:
    """What a function returns, as text. Raises `_ToolFailedError`."""
    outcome: list[str | _ToolFailedError] = []

    async def work() -> None:
        outcome.append(await _outcome(tool, call))

    with anyio.move_on_after(tool.timeout_s):
        async with anyio.create_task_group() as own:  # a task that the function may cancel without ending the answer
            own.start_soon(work, name=f"stretto tool {tool.name}")
    if not outcome:
        raise _ToolFailedError(f"It gave no result within {tool.timeout_s:g} s.")
    if isinstance(outcome[0], str):
        return outcome[0]
    raise outcome[0]


async def _outcome(tool: Tool, call: ToolCall) -> str | _ToolFailedError:
    """What a call gave, as a value: an exception that is no `Exception` would end the event loop."""
    try:
        return await tool.call(tool.read(call.arguments), _written)
    except WrongArgumentsError as error:
        failed = _ToolFailedError(str(error))
        failed.__cause__ = error
    except BaseException as error:  # noqa: BLE001 - of the caller's code
        if _is_ctrl_c(error):
            # Raised by the event loop, as any Ctrl-C is. Out of this task it would become a group of the task groups.
            asyncio.get_running_loop().call_soon(_interrupt, error)
            await anyio.sleep_forever()
        await checkpoint_if_cancelled()  # by the answer or the time limit; else the function met a cancelled task
        _log.info("the tool %s failed", tool.name, exc_info=True)
        failed = _ToolFailedError(_told(error.error if isinstance(error, ThreadLeftError) else error))
    return failed


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether the user interrupted the program. Python raises that in its main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _interrupt(error: BaseException) -> None:
    raise KeyboardInterrupt from error


def _told(error: BaseException) -> str:
    """What the model is told of an exception, whose own text may fail."""
    try:
        said = fix_surrogates(str(error)[:MOST_CHARACTERS])
    except BaseException as failure:
        if _is_ctrl_c(failure):
            raise
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _written(value: Any) -> str:
    """What a function returned as the model reads it: a text as it is, all else as JSON."""
    if isinstance(value, str):
        more = f"{len(value) - MOST_CHARACTERS:,} more characters"
        text = fix_surrogates(value[: MOST_CHARACTERS + 1])
    else:
        more = "there is more"
        text = fix_surrogates(to_json(_Beginning(MOST_CHARACTERS + 2).of(value), fallback=str).decode())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n[cut here: {more}]"


class _Beginning:
    """As much of nested values as can be read in so many characters of JSON, so that no more of them is written."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def of(self, value: Any) -> Any:
        """The value, with fewer elements where it has too many."""
        self._left -= 2  # a value takes a character, and what parts it from the next one another
        if isinstance(value, str):
            kept = value[: max(self._left, 0) + 2]
            self._left -= len(kept)
            return kept
        if isinstance(value, dict):
            return {key: self.of(each) for key, each in self._first(value.items())}
        if isinstance(value, list | tuple | set | frozenset | deque | Iterator):
            return [self.of(each) for each in self._first(value)]
        if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "__pydantic_serializer__"):
            return {each.name: self.of(getattr(value, each.name)) for each in self._first(fields(value))}
        return value

    def _first(self, elements: Iterable[T]) -> Iterator[T]:
        for each in elements:
            yield each
            if self._left < 0:
                return
