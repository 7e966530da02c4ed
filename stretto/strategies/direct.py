"""``direct``: one generation, straight on."""

from __future__ import annotations

from dataclasses import replace

from stretto.backends.base import Prompt
from stretto.errors import InvalidRequestError
from stretto.request import Message, Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.branch import BranchSpec, Running
from stretto.strategies.fan_out import FanOut
from stretto.strategies.fencing import fenced
from stretto.strategies.fitting import Fit, fit


class Direct:
    """Answers in one piece: for reasoning, prose, code, and whatever parallel writing would harm."""

    name = "direct"

    def offer(self, case: Case) -> Offer:
        """Offer one straight answer, which every request can have."""
        judgement = case.judgement
        reason = "nothing in the request tells what shape the answer has" if judgement.unsure else case.expected
        return Offer(
            confidence=1.0 if case.request.strategy == self.name else 1 - judgement.skeleton,
            cause=f"Written straight through: {reason}.",
            forecast=case.straight,
            priority=0,
        )

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:  # noqa: ARG002 - every strategy is given its route
        """Stream one branch; with a ``response_format``, show it once it fits, or was asked for once more."""
        runner.strategy = self.name
        straight = runner.start(straight_spec(request, runner))
        if request.options.response_format is None:
            runner.merge.add_branch(straight)
        elif runner.capabilities.regex:  # it draws tokens that fit and no others: nothing would change in a second try
            runner.merge.add_branch(straight)
            await straight.ended()
            _report(runner, straight, fit(straight.text, request.options))
        else:
            runner.merge.add(await _in_form(request, runner, straight))
        await runner.merge.finish()


async def _in_form(request: Request, runner: FanOut, straight: Running) -> str:
    """The text of an answer that fits its format, if the first or a second try gives one."""
    await _ended(straight)
    found = fit(straight.text, request.options)
    if found.wrong and straight.exception is None and straight.finish_reason == "stop":
        prompt = replace(
            _held_to_format(request, runner),
            messages=asked(request, runner, "again_in_form", received=straight.text, wrong=found.wrong),
        )
        again = runner.start(replace(straight_spec(request, runner), id="direct-again", prompt=lambda: prompt))
        await _ended(again)
        second = fit(again.text, request.options)
        if again.exception is None and not (second.wrong and again.finish_reason != "stop"):
            straight.drop("it did not fit response_format")
            straight, found = again, second
        else:
            again.drop("the first answer is no worse")
    _report(runner, straight, found)
    return straight.text


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


def straight_spec(request: Request, runner: FanOut) -> BranchSpec:
    """The branch that answers the whole request by itself."""
    prompt = _held_to_format(request, runner)

    def another_way(received: str) -> Prompt | None:
        if not received.strip():
            return prompt
        # The rest of a text matches no format that the whole of it matches.
        return rest_of(request, runner, received) if request.options.response_format is None else None

    return BranchSpec(
        id="direct",
        kind="direct",
        called="The answer",
        prompt=lambda: prompt,
        options=request.options,
        another_way=another_way,
        accepts_refusal=True,
    )


def _held_to_format(request: Request, runner: FanOut) -> Prompt:
    """The conversation with its ``response_format``. Raises `InvalidRequestError` where the backend has none."""
    wanted, plain = request.options.response_format, Prompt(with_documents(request), reads=bool(request.documents))
    if wanted is None:
        return plain
    if isinstance(wanted, str):
        able, kind = runner.capabilities.regex, "a regular expression"
    else:
        able, kind = runner.capabilities.json_schema, "a JSON schema"
    if not able:
        raise InvalidRequestError(
            f"response_format is {kind}, and {runner.model} cannot hold an answer to one. "
            "Leave it out, or use another model."
        )
    return replace(plain, response_regex=wanted) if isinstance(wanted, str) else replace(plain, response_schema=wanted)


def rest_of(request: Request, runner: FanOut, received: str) -> Prompt:
    """Ask for the rest of an answer whose stream broke."""
    return Prompt(asked(request, runner, "continue", received=received))


def asked(request: Request, runner: FanOut, template: str, **values: str) -> tuple[Message, ...]:
    """A template filled for this request, with the turns before it where they belong; ``values`` go before its own."""
    own = {"question": request.question, "system": request.system, "documents": fenced(request.documents)}
    filled = runner.template(template).messages(**(own | values))
    return (
        *(message for message in filled if message.role == "system"),
        *request.history,
        *(message for message in filled if message.role != "system"),
    )


def shared_by_all(request: Request, messages: tuple[Message, ...]) -> int:
    """Characters of the last message up to the end of the question, which all templates begin with."""
    at = messages[-1].content.find(request.question)
    return at + len(request.question) if at >= 0 else 0


def with_documents(request: Request) -> tuple[Message, ...]:
    """The conversation as it is, its documents put before the last question."""
    if not request.documents:
        return request.messages
    last = request.messages[-1]
    content = f"{fenced(request.documents)}\n\n{last.content}"
    return (*request.messages[:-1], last.model_copy(update={"content": content}))
