"""The rounds of an answer: the model asks for calls, they are carried out side by side, and it goes on with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from stretto.events import ToolCallDelta
from stretto.messages import messages_of
from stretto.request import Message, Request
from stretto.strategies.branch import RunningBranch
from stretto.strategies.calling.carrying_out import result_of, start_tool
from stretto.strategies.direct import asked, direct_spec, with_documents
from stretto.strategies.in_form import write_in_form
from stretto.strategies.runner import Runner
from stretto.tool_calls import ToolCall, ToolCallFragment, turn_of

__all__ = ["write_with_tools"]

MOST_ROUNDS, MOST_CALLS = 8, 64
_AT_ONCE = 16  # calls of one answer that run side by side

Begun = dict[int, RunningBranch | str]
"""By the place of each call that is not left to the caller: the branch of the function, or why none was called."""


async def write_with_tools(request: Request, runner: Runner) -> None:
    """Write an answer for which the model may have the request's functions called."""
    await _Rounds(request, runner).run()


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
        self._tools = {tool.name: tool for tool in request.functions}
        self._theirs = {_name_of(tool) for tool in request.tools} - self._tools.keys()
        self._most_calls = request.budget.max_tool_calls or MOST_CALLS
        self._most_rounds = request.budget.max_tool_rounds or MOST_ROUNDS
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def run(self) -> None:
        """Ask until the model asks for no more of the functions, or may not."""
        number, runner = 1, self.runner
        while True:
            last = self._is_last(number)
            begun: Begun = {}
            running = await self._show(self._begin(number, begun, last=last))
            if last or not await self._goes_on(running, begun):
                break
            number += 1
        if last:
            self._close(running)
        runner.thoughts, runner.extra = running.thoughts, running.extra
        if self.turns and not runner.tool_calls:
            self.turns.append(turn_of(running.text, (), ()))
        runner.turns = tuple(self.turns)
        await runner.merge.finish()

    def _is_last(self, number: int) -> bool:
        """Whether the model has to answer now: no further round, call or function is left."""
        spent = self.called >= self._most_calls or self.runner.ledger.calls_left == 1
        return spent or number > self._most_rounds

    def _begin(self, number: int, begun: Begun, *, last: bool) -> RunningBranch:
        request = self.request
        choice = request.tool_choice
        if last:
            choice = "none"
        elif number > 1 and choice not in ("auto", "none"):
            choice = None  # a call that was demanded has been made
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
        """Begin a call as soon as it is whole."""
        if call.name in self._theirs:
            return
        tool = self._tools.get(call.name)
        if tool is None or call.type != "function":
            known = ", ".join(self._tools)
            begun[place] = f"There is no tool {call.name[:80]!r}. There are: {known}."
        elif self.called >= self._most_calls:
            begun[place] = f"This call was not carried out: {self._most_calls} calls are the most of one answer."
            self.runner.warn_once(f"Calls of tools beyond max_tool_calls={self._most_calls} were not carried out.")
        else:
            self.called += 1
            begun[place] = start_tool(self.runner, tool, call, self.called, self._at_once)

    async def _show(self, running: RunningBranch) -> RunningBranch:
        """Show what the model writes until its end; text that is held to a format only if it is the answer."""
        request, runner = self.request, self.runner
        if request.options.response_format is None:
            runner.merge.add_branch(running, lead=self._gap)
            await running.ended()
            return running
        running.withhold()
        await running.ended()
        if running.calls:
            return running
        return await write_in_form(request, runner, running, self._again_in_form)

    def _gap(self) -> str:
        """What stands between the texts of two rounds."""
        before = self.runner.merge.text
        return "" if not before.strip() or before.endswith("\n\n") else "\n\n"

    def _again_in_form(self, received: str, wrong: str) -> tuple[Message, ...]:
        filled = asked(self.request, self.runner, "again_in_form", received=received, wrong=wrong)
        return (*with_documents(self.request), *self._messages(), filled[-1])

    async def _goes_on(self, running: RunningBranch, begun: Begun) -> bool:
        """Wait for the results of a round; whether the model is asked again, with them."""
        calls = _identified(running.calls.calls[: running.handed_over], len(self.turns))
        theirs = [call for place, call in enumerate(calls) if place not in begun]
        if begun:
            self.turns.append(turn_of(running.text, calls, running.thoughts))
            for place, each in begun.items():
                self.turns.append(_result(calls[place].id, *await _ended(each)))
        if theirs:
            await self._hand_over(theirs)
        if theirs or not begun:
            return False
        running.carried_out = True
        if running.exception is None:
            running.finish_reason = "stop"
        else:
            running.replaced = True
            self.runner.warn(
                f"{self.runner.model} broke off while it asked for tools, and went on with the calls that were whole: "
                f"{running.exception}"
            )
        return True

    async def _hand_over(self, calls: list[ToolCall]) -> None:
        """Leave calls to the caller."""
        self.runner.tool_calls = tuple(calls)
        for index, call in enumerate(calls):
            piece = ToolCallFragment(index, call.id, call.name, call.arguments, call.type, call.extra)
            await self.runner.announce(ToolCallDelta(delta=piece))

    def _close(self, running: RunningBranch) -> None:
        """The answer ends with this round, whatever the model asked for."""
        self.runner.warn(
            f"The model had to answer with what it had after {self.called} calls of tools: the budget allows no more."
        )
        if running.calls:
            running.carried_out = True
            running.finish_reason = "budget"


async def _ended(begun: RunningBranch | str) -> tuple[str, bool]:
    """What the model is given for a call, and whether something went wrong."""
    if isinstance(begun, str):
        return f"Error: {begun}", True
    await begun.ended()
    return result_of(begun)


def _result(call_id: str, text: str, is_error: bool) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": text}
    return turn | {"is_error": True} if is_error else turn


def _identified(calls: tuple[ToolCall, ...], number: int) -> list[ToolCall]:
    """The calls, each with an id that no other one of its turn has: some servers give none."""
    known: set[str] = set()
    found: list[ToolCall] = []
    for place, call in enumerate(calls):
        own = call.id if call.id and call.id not in known else f"call_{number}_{place}"
        known.add(own)
        found.append(call if own == call.id else call.model_copy(update={"id": own}))
    return found


def _name_of(tool: Mapping[str, Any]) -> Any:
    return (tool.get("function") or tool.get("custom") or tool).get("name")
