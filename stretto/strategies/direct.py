"""``direct``: one generation, straight on."""

from __future__ import annotations

from stretto.backends.base import Prompt
from stretto.request import Message, Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.branch import BranchSpec
from stretto.strategies.fan_out import FanOut
from stretto.strategies.fencing import fenced
from stretto.strategies.in_form import held_to_format, write_in_form


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
        spec = straight_spec(request, runner)
        if request.options.response_format is None:
            runner.merge.add_branch(runner.start(spec))
        else:
            await write_in_form(
                request,
                runner,
                spec,
                lambda received, wrong: asked(request, runner, "again_in_form", received=received, wrong=wrong),
            )
        await runner.merge.finish()


def straight_spec(request: Request, runner: FanOut) -> BranchSpec:
    """The branch that answers the whole request by itself."""
    plain = Prompt(with_documents(request), reads=bool(request.documents))
    prompt = held_to_format(plain, request, runner)

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
