"""The rounds of an answer: the model asks for calls, they are carried out side by side, and it goes on with them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from stretto.strategies.base import StrategyResult
from stretto.strategies.calling.carrying_out import result_of, start_tool
from stretto.strategies.direct import asked, direct_spec, with_documents
from stretto.strategies.runtime.branch import Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.in_form import write_in_form
from stretto.values.content import name_of_tool
from stretto.values.events import ToolCallDelta
from stretto.values.messages import messages_of
from stretto.values.request import Message, Request
from stretto.values.tool_calls import ToolCall, ToolCallFragment, turn_of

MOST_ROUNDS, MOST_CALLS = 8, 64
_REPEATS = 3  # rounds of the same calls and results, after which the model has to answer; fewer if it is small
_FUNCTIONS_AT_ONCE = 16  # of one answer; calls of models have `CallLimits`

Begun = dict[int, RunningBranch | str]
"""By the place of each call that is not left to the caller: the branch of the function, or why none was called."""


async def write_with_tools(request: Request, runner: Runner) -> StrategyResult:
    """Write an answer for which the model may have the request's functions called."""
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
        self._left_over: tuple[ToolCall, ...] = ()  # calls that are the caller's
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
        """Ask until the model asks for no more of the functions, or may not."""
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
            thoughts=running.heard.thoughts,
            extra=running.heard.extra,
        )

    def _is_last(self, number: int) -> bool:
        """Whether the model has to answer now: no round or call is left, or it asks for the same all the time."""
        spent = self.called >= self._most_calls or self.runner.ledger.calls_left == 1 or self._alike >= self._most_alike
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
            self.runner.warn_once(
                f"Calls of tools beyond max_tool_calls={self._most_calls} were not carried out.", "tool"
            )
        else:
            self.called += 1
            begun[place] = start_tool(self.runner, tool, call, self.called, self._at_once)

    async def _show(self, running: RunningBranch) -> tuple[RunningBranch, Any]:
        """Show what the model writes until its end; text that is held to a format only if it is the answer."""
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
        """What stands between the texts of two rounds."""
        before = self.runner.merge.text
        return "" if not before.strip() or before.endswith("\n\n") else "\n\n"

    def _again_in_form(self, target: PromptTarget, received: str, wrong: str) -> tuple[Message, ...]:
        filled = asked(self.request, target, "again_in_form", received=received, wrong=wrong)
        return (*with_documents(self.request), *self._messages(), filled[-1])

    async def _goes_on(self, running: RunningBranch, begun: Begun) -> bool:
        """Wait for the results of a round; whether the model is asked again, with them."""
        calls = _identified(running.calls.calls[: running.handed_over], len(self.turns))
        theirs = [call for place, call in enumerate(calls) if place not in begun]
        if begun:
            results = [_result(calls[place].id, *await _ended(each)) for place, each in begun.items()]
            happened = [(calls[place], result) for place, result in zip(begun, results, strict=True)]
            self._note(
                [(call.name, call.arguments, result["content"]) for call, result in happened],
                [turn_of(running.text, calls, running.heard.thoughts), *results],
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
        """Keep the turns of a round. A small model may ask for the same again and again.

        Before it has to answer, it is shown one of these rounds alone: with all of them it would go on like that.
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
        """The answer ends with this round, whatever the model asked for."""
        if self._alike >= self._most_alike:
            why = f"it asked for the same with the same result {self._alike} times in a row"
        else:
            why = "the budget allows no more"
        self.runner.warn(
            f"The model had to answer with what it had after {self.called} calls of tools: {why}.", "budget"
        )
        if running.calls:
            running.use, running.outcome = "carried_out", replace(running.outcome, reason="budget")


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
