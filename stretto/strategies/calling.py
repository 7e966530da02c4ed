"""Call functions of the caller in parallel, as soon as a model has asked for them, and continue the answer.

The model decides which calls belong to one round: unlike LLMCompiler (Kim et al., arXiv 2312.04511), there is no
planner. A failing call never fails the answer: the model is told what went wrong.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import to_json

from stretto.backends.base import ModelRequest
from stretto.foundation.surrogates import fix_surrogates
from stretto.foundation.threads import ThreadLeftError
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import direct_spec, template_messages, with_documents
from stretto.strategies.runtime.branch import Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.in_form import write_in_form
from stretto.values.content import name_of_tool
from stretto.values.errors import StrettoError
from stretto.values.events import BranchStarted, ToolCallDelta, ToolFinished, ToolStarted
from stretto.values.generation_options import GenerationOptions
from stretto.values.messages import messages_of
from stretto.values.request import Message, Request
from stretto.values.tool_calls import ToolCall, ToolCallFragment, turn_of
from stretto.values.tools import Tool, WrongArgumentsError

MOST_ROUNDS, MOST_CALLS = 8, 64
_REPEATS = 3  # rounds of the same calls and results after which the model has to answer; fewer if it is small
_FUNCTIONS_AT_ONCE = 16  # of one answer; calls of models have `CallLimits`
MOST_CHARACTERS = 100_000  # of a result; a longer one is cut, and says so
T = TypeVar("T")
_log = logging.getLogger(__name__)

Begun = dict[int, RunningBranch | str]
"""By index of each call that is not left to the caller: the branch of the function, or why it was not called."""


async def write_with_tools(request: Request, runner: Runner) -> StrategyResult:
    """Write an answer for which the model can call the request's functions."""
    return await _Rounds(request, runner).run()


class _Rounds:
    """One run.

    Attributes:
        turns: calls and results so far.
        called: functions that were called.
    """

    def __init__(self, request: Request, runner: Runner) -> None:
        self.request, self.runner = request, runner
        self.turns: list[dict[str, Any]] = []
        self.called = 0
        self._left_over: tuple[ToolCall, ...] = ()  # calls that are left to the caller
        self._most_alike = 2 if runner.capabilities.prompt_family == "small" else _REPEATS
        self._alike = 1  # rounds in a row up to now with the same calls and results
        self._from = 0  # the first turn of these rounds
        self._happened: list[tuple[str, str, str]] = []
        self._tools = {tool.name: tool for tool in request.functions}
        self._theirs = {name_of_tool(tool) for tool in request.tools} - self._tools.keys()
        self._most_calls = request.budget.max_tool_calls or MOST_CALLS
        self._most_rounds = request.budget.max_tool_rounds or MOST_ROUNDS
        self._at_once = anyio.CapacityLimiter(_FUNCTIONS_AT_ONCE)

    async def run(self) -> StrategyResult:
        """Repeat until the model calls no more functions, or may not."""
        number = 1
        while True:
            last = self._is_last(number)
            begun: Begun = {}
            running, parsed = await self._show(self._begin(number, begun, last=last))
            if last or not await self._goes_on(running, begun):
                break
            number += 1
        if last:
            self._close(running)
        if self.turns and not self._left_over:
            self.turns.append(turn_of(running.text, (), ()))
        await self.runner.merge.finish()
        return StrategyResult(
            strategy="direct",
            parsed=parsed,
            tool_calls=self._left_over,
            turns=tuple(self.turns),
            thoughts=running.metadata.thoughts,
            extra=running.metadata.extra,
        )

    def _is_last(self, number: int) -> bool:
        """Return whether the model has to answer now: no round or call is left, or it keeps asking for the same."""
        none_left = self.called >= self._most_calls or self.runner.ledger.calls_left == 1
        return none_left or self._alike >= self._most_alike or number > self._most_rounds

    def _begin(self, number: int, begun: Begun, *, last: bool) -> RunningBranch:
        request = self.request
        choice = request.tool_choice
        if last:
            choice = "none"
        elif number > 1 and choice not in ("auto", "none"):
            choice = None  # the required call has been made
        asked_now = request.model_copy(
            update={"messages": (*request.messages, *self._messages()), "tool_choice": choice}
        )
        spec = direct_spec(asked_now, self.runner)
        spec = replace(
            spec,
            id=spec.id if number == 1 else f"{spec.id}-{number}",
            on_call=(lambda *_: None) if last else partial(self._take, begun),
        )
        return self.runner.start(spec)

    def _messages(self) -> tuple[Message, ...]:
        return messages_of(self.turns)

    def _take(self, begun: Begun, place: int, call: ToolCall) -> None:
        """Start a call as soon as it is complete."""
        if call.name in self._theirs:
            return
        tool = self._tools.get(call.name)
        if tool is None or call.type != "function":
            known = ", ".join(self._tools)
            begun[place] = f"There is no tool {call.name[:80]!r}. There are: {known}."
        elif self.called >= self._most_calls:
            begun[place] = f"This call was not carried out: {self._most_calls} calls are the most of one answer."
            self.runner.warn_once(
                f"Calls of tools beyond max_tool_calls={self._most_calls} were not carried out.", "tool"
            )
        else:
            self.called += 1
            begun[place] = start_tool(self.runner, tool, call, self.called, self._at_once)

    async def _show(self, running: RunningBranch) -> tuple[RunningBranch, Any]:
        """Show what the model writes; text that must follow a format is shown only if it is the answer."""
        request, runner = self.request, self.runner
        if request.options.response_format is None:
            runner.merge.add_branch(running, lead=self._gap)
            await running.ended()
            return running, None
        running.withhold()
        await running.ended()
        if running.calls:
            return running, None
        return await write_in_form(request, runner, running, self._again_in_form)

    def _gap(self) -> str:
        """Return the separator between the texts of two rounds."""
        before = self.runner.merge.text
        return "" if not before.strip() or before.endswith("\n\n") else "\n\n"

    def _again_in_form(self, target: PromptTarget, received: str, wrong: str) -> tuple[Message, ...]:
        filled = template_messages(self.request, target, "again_in_form", received=received, wrong=wrong)
        return (*with_documents(self.request), *self._messages(), filled[-1])

    async def _goes_on(self, running: RunningBranch, begun: Begun) -> bool:
        """Wait for the results of a round; return whether to ask the model again with them."""
        calls = _identified(running.calls.calls[: running.handed_over], len(self.turns))
        theirs = [call for place, call in enumerate(calls) if place not in begun]
        if begun:
            results = [_result(calls[place].id, *await _ended(each)) for place, each in begun.items()]
            happened = [(calls[place], result) for place, result in zip(begun, results, strict=True)]
            self._note(
                [(call.name, call.arguments, result["content"]) for call, result in happened],
                [turn_of(running.text, calls, running.metadata.thoughts), *results],
            )
        if theirs:
            await self._hand_over(theirs)
        if theirs or not begun:
            return False
        if running.exception is None:
            running.use, running.outcome = "carried_out", Outcome()
        else:
            running.use = "replaced"
            self.runner.warn(
                f"{self.runner.model} broke off while it asked for tools, and went on with the calls that were whole: "
                f"{running.exception}",
                "tool",
            )
        return True

    def _note(self, happened: list[tuple[str, str, str]], turns: list[dict[str, Any]]) -> None:
        """Keep the turns of a round. A small model can ask for the same again and again.

        Before it has to answer, it is shown only one of these rounds: with all of them it would keep repeating them.
        """
        self._alike = self._alike + 1 if happened == self._happened else 1
        self._happened = happened
        if self._alike >= self._most_alike:
            del self.turns[self._from :]
        elif self._alike == 1:
            self._from = len(self.turns)
        self.turns += turns

    async def _hand_over(self, calls: list[ToolCall]) -> None:
        """Leave calls to the caller."""
        self._left_over = tuple(calls)
        for index, call in enumerate(calls):
            piece = ToolCallFragment(index, call.id, call.name, call.arguments, call.type, call.extra)
            await self.runner.announce(ToolCallDelta(delta=piece))

    def _close(self, running: RunningBranch) -> None:
        """End the answer with this round, whatever the model asked for."""
        if again := self._alike >= self._most_alike:
            why = f"it asked for the same with the same result {self._alike} times in a row"
        else:
            why = "the budget allows no more"
        warning = f"The model had to answer with what it had after {self.called} calls of tools: {why}."
        self.runner.warn(warning, "tool" if again else "budget")
        if running.calls:
            running.use, running.outcome = "carried_out", replace(running.outcome, reason="budget")


async def _ended(begun: RunningBranch | str) -> tuple[str, bool]:
    """Return the result of a call for the model, and whether something went wrong."""
    if isinstance(begun, str):
        return f"Error: {begun}", True
    await begun.ended()
    return result_of(begun)


def _result(call_id: str, text: str, is_error: bool) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": text}
    return turn | {"is_error": True} if is_error else turn


def _identified(calls: tuple[ToolCall, ...], number: int) -> list[ToolCall]:
    """Return the calls with ids that are unique within the turn, since some servers send none."""
    known: set[str] = set()
    found: list[ToolCall] = []
    for place, call in enumerate(calls):
        own = call.id if call.id and call.id not in known else f"call_{number}_{place}"
        known.add(own)
        found.append(call if own == call.id else call.model_copy(update={"id": own}))
    return found


class _ToolFailedError(StrettoError):
    """A function returned no result; the message is for the model."""


def start_tool(
    runner: Runner, tool: Tool, call: ToolCall, number: int, at_once: anyio.CapacityLimiter
) -> RunningBranch:
    """Call a function in a separate branch; ``number``: of the call within the answer, from 1."""
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
    """Return the result of an ended call for the model, and whether something went wrong."""
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
            if not isinstance(error.__cause__, WrongArgumentsError):  # which the model can correct itself
                runner.warn_once(f"The tool {tool.name} failed; its error was sent to the model: {error}", "tool")
    result, is_error = result_of(running)
    await runner.announce(
        ToolFinished(branch_id=spec.id, call_id=call.id, name=tool.name, result=result, is_error=is_error)
    )


async def _called(tool: Tool, call: ToolCall) -> str:
    """Call a function and return its result as text. Raises `_ToolFailedError`."""
    outcome: list[str | _ToolFailedError] = []

    async def work() -> None:
        outcome.append(await _outcome(tool, call))

    with anyio.move_on_after(tool.timeout_s):
        async with anyio.create_task_group() as own:  # a task that the function can cancel without ending the answer
            own.start_soon(work, name=f"stretto tool {tool.name}")
    if not outcome:
        raise _ToolFailedError(f"It gave no result within {tool.timeout_s:g} s.")
    if isinstance(outcome[0], str):
        return outcome[0]
    raise outcome[0]


async def _outcome(tool: Tool, call: ToolCall) -> str | _ToolFailedError:
    """Return the outcome of a call as a value, since an exception outside `Exception` would end the event loop."""
    try:
        return await tool.call(tool.read(call.arguments), _written)
    except WrongArgumentsError as error:
        failed = _ToolFailedError(str(error))
        failed.__cause__ = error
    except BaseException as error:  # noqa: BLE001 - of the caller's code
        if _is_ctrl_c(error):
            # Raised by the event loop, like any Ctrl-C. From this task it would become an exception group.
            asyncio.get_running_loop().call_soon(_interrupt, error)
            await anyio.sleep_forever()
        await checkpoint_if_cancelled()  # by the answer or the time limit; else the function awaited a cancelled task
        _log.info("the tool %s failed", tool.name, exc_info=True)
        failed = _ToolFailedError(_error_text(error.error if isinstance(error, ThreadLeftError) else error))
    return failed


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether the user interrupted the program. Python raises that in its main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _interrupt(error: BaseException) -> None:
    raise KeyboardInterrupt from error


def _error_text(error: BaseException) -> str:
    """Describe an exception to the model; its ``__str__`` can fail."""
    try:
        message = fix_surrogates(str(error)[:MOST_CHARACTERS])
    except BaseException as failure:
        if _is_ctrl_c(failure):
            raise
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _written(value: Any) -> str:
    """Format a function's return value for the model: a string unchanged, everything else as JSON."""
    if isinstance(value, str):
        more = f"{len(value) - MOST_CHARACTERS:,} more characters"
        text = fix_surrogates(value[: MOST_CHARACTERS + 1])
    else:
        more = "there is more"
        text = fix_surrogates(to_json(_Beginning(MOST_CHARACTERS + 2).of(value), fallback=str).decode())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n[cut here: {more}]"


class _Beginning:
    """Truncates nested values to about so many characters of JSON, so that no more is serialised."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def of(self, value: Any) -> Any:
        """Return the value, with fewer elements if it has too many."""
        self._left -= 2  # a value takes at least one character, and its separator another
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
