"""``direct``: the whole answer in one generation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.router.case import Case
from stretto.router.given import EDITED, Given, given_in
from stretto.router.history import history_of
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.quality.text_guard import LoopAlarm, TextGuard
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget, TextWatch
from stretto.strategies.runtime.fencing import fenced
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.in_form import with_response_format, write_in_form
from stretto.values.answer import Choice
from stretto.values.request import Message, Request
from stretto.values.route import Forecast, Route


class Direct:
    """Answers in one piece: for reasoning, prose, code, and anything else that parallel writing would harm.

    Provisional: it may change in any release.
    """

    name = "direct"
    """The name to ask for it by."""

    def offer(self, case: Case) -> Offer:
        """Offer one direct answer, which suits every request."""
        forecast = partial(_with_prediction, case)
        return Offer(
            confidence=1.0 if case.request.strategy == self.name else 1 - case.judgement.skeleton,
            reason=partial(_reason, case),
            # The gain of the last predictions has to be read now.
            forecast=forecast() if case.backend.capabilities.predictions else forecast,
            priority=0,
        )

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:  # noqa: ARG002 - every strategy is given its route
        """Stream one branch; with a ``response_format``, show it once it fits, or after a second attempt.

        If multiple answers are wanted, all stream. Each is a branch if the backend writes one answer per call.
        """
        if request.functions:
            from stretto.strategies.calling import write_with_tools  # noqa: PLC0415 - it builds on this module

            return await write_with_tools(request, runner)
        direct = runner.start(direct_spec(request, runner))
        further = _further(request, runner)
        direct, parsed = await show(request, runner, direct)
        await runner.merge.finish()
        return StrategyResult(
            strategy=self.name,
            parsed=parsed,
            tool_calls=direct.calls.calls,
            thoughts=direct.metadata.thoughts,
            extra=direct.metadata.extra,
            choices=await _choices(request, runner, direct, further) if request.n > 1 else (),
        )


def _reason(case: Case) -> str:
    unsure = "nothing in the request says what shape the answer has"
    return f"Written in one piece: {unsure if case.judgement.unsure else case.expected}."


async def show(request: Request, runner: Runner, running: RunningBranch) -> tuple[RunningBranch, Any]:
    """Show a direct answer, with a ``response_format`` once it fits; return what was shown, and its value."""
    parsed = None
    if request.options.response_format is None:
        runner.merge.add_branch(running)
    else:
        running, parsed = await show_in_form(request, runner, running)
    await running.ended()
    return running, parsed


async def show_in_form(request: Request, runner: Runner, running: RunningBranch) -> tuple[RunningBranch, Any]:
    """Show an answer once it fits its ``response_format``; a second attempt is requested like the first."""

    def again(target: PromptTarget, received: str, wrong: str) -> tuple[Message, ...]:
        return template_messages(request, target, "again_in_form", received=received, wrong=wrong)

    return await write_in_form(request, runner, running, again)


def _further(request: Request, runner: Runner) -> list[RunningBranch]:
    """Start the branches of further answers, for backends that write one answer per call."""
    if runner.capabilities.choices:
        return []
    first, seed = direct_spec(request, runner), request.options.seed
    specs = [
        replace(
            first,
            id=f"direct-{number + 1}",
            label=f"Answer {number + 1}",
            choice=number,
            # The same seed would give the same answer each time.
            options=request.options.model_copy(update={"seed": None if seed is None else seed + number}),
        )
        for number in range(1, request.n)
    ]
    return [runner.start(spec) for spec in specs]


async def _choices(
    request: Request, runner: Runner, direct: RunningBranch, further: list[RunningBranch]
) -> tuple[Choice, ...]:
    """Return all answers, the direct one first."""
    for running in further:
        await running.ended()
    choices = (*direct.choices, *(choice for running in further for choice in running.choices))
    if len(choices) < request.n:
        came = "one answer" if len(choices) == 1 else f"{len(choices)} answers"
        runner.warn(f"n={request.n} was asked for, and {runner.model} gave {came}.", "option")
    return choices


def direct_spec(request: Request, runner: Runner) -> BranchSpec:
    """Return the spec of the branch that answers the whole request by itself."""
    plain = ModelRequest(
        with_documents(request),
        tools=request.tools,
        tool_choice=request.tool_choice,
        n=request.n if runner.capabilities.choices else 1,
        extra=request.extra,
        reads=bool(request.documents),
        draft=_resembled(request) if runner.capabilities.predictions else "",
    )

    def prompt(target: PromptTarget) -> ModelRequest:
        return with_response_format(plain, request, target)

    prompt(runner.target)  # a template that cannot be filled is an error of the request, not of a branch

    def fallback_prompt(target: PromptTarget, received: str) -> ModelRequest | None:
        if not received.strip():
            return prompt(target)
        if request.whole_reason is not None:  # a body that is passed on unchanged cannot be reworded
            return None
        # The rest of a text does not match the format of the whole.
        return rest_of(request, target, received) if request.options.response_format is None else None

    return BranchSpec(
        id="direct",
        kind="direct",
        label="The answer",
        prompt=prompt,
        options=request.options,
        fallback_prompt=fallback_prompt,
        allow_refusal=True,
        allow_empty=request.whole_reason is not None,
        watch=lambda: _for_loops(request, runner),
        standalone=True,
    )


def _resembled(request: Request) -> str:
    """Return the text that a request wants changed in few places, which its answer will resemble."""
    given = given_in(request)
    return given.text if isinstance(given, Given) and given.change in EDITED else ""


def _with_prediction(case: Case) -> Forecast:
    """Add the rejected tokens of a prediction to the forecast; they are billed like generated ones."""
    forecast, given, options = case.direct_forecast, case.parse.given, case.request.options
    unsupported = case.request.tools or case.request.n > 1 or options.response_format or options.logprobs is not None
    if not (isinstance(given, Given) and given.change in EDITED and case.backend.capabilities.predictions) or (
        unsupported or options.max_tokens is not None
    ):
        return forecast
    rejected = round(history_of(case.backend).usual_change(given.change) * given.tokens)
    more = {"tokens": forecast.tokens + rejected, "written": (forecast.written or 0) + rejected, "rejected": rejected}
    return forecast.model_copy(update=more)


def _for_loops(request: Request, runner: Runner) -> TextWatch:
    """Return a watch for loops; the answer is left unchanged unless the request says to cut it."""
    if request.on_loop == "cut":
        return TextGuard()
    warning = "The answer repeats itself. Ask in other words, or with on_loop='cut' to end it there."
    return LoopAlarm(lambda: runner.warn_once(warning, "repeats", part="direct"))


def rest_of(request: Request, target: PromptTarget, received: str) -> ModelRequest:
    """Ask for the rest of an answer whose stream broke."""
    return ModelRequest(template_messages(request, target, "continue", received=received))


def template_messages(request: Request, target: PromptTarget, template: str, **values: str) -> tuple[Message, ...]:
    """Fill a template for this request, with the turns before the question; ``values`` replace defaults."""
    own = {"question": request.question, "system": request.system, "documents": fenced(request.documents)}
    filled = target.template(template).messages(**(own | values))
    return (
        *(message for message in filled if message.role == "system"),
        *request.history,
        *(message for message in filled if message.role != "system"),
    )


def shared_by_all(request: Request, messages: tuple[Message, ...]) -> int:
    """Return how many characters of the last message all templates share: up to the end of the question."""
    at = messages[-1].content.find(request.question)
    return at + len(request.question) if at >= 0 else 0


def with_documents(request: Request) -> tuple[Message, ...]:
    """Return the conversation unchanged, with its documents put before the last question."""
    if not request.documents:
        return request.messages
    messages, text = list(request.messages), fenced(request.documents)
    user_turns = [index for index, message in enumerate(messages) if message.role == "user"]
    if not user_turns:
        return (Message(role="user", content=text), *messages)
    last = messages[user_turns[-1]]
    parts = ({"type": "text", "text": text}, *last.parts) if last.parts else ()
    messages[user_turns[-1]] = last.model_copy(update={"content": f"{text}\n\n{last.content}", "parts": parts})
    return tuple(messages)
