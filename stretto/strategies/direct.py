"""``direct``: one generation, straight on."""

from __future__ import annotations

from stretto.backends.base import Prompt
from stretto.request import Document, Message, Request
from stretto.route import Route
from stretto.strategies.branch import BranchSpec
from stretto.strategies.fan_out import FanOut


class Direct:
    """Answers in one piece: for reasoning, prose, code, and whatever parallel writing would harm."""

    name = "direct"

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:  # noqa: ARG002 - every strategy is given its route
        """Stream one branch."""
        straight = runner.start(straight_spec(request, runner))
        runner.merge.add_branch(straight)
        await runner.merge.finish()


def straight_spec(request: Request, runner: FanOut) -> BranchSpec:
    """The branch that answers the whole request by itself."""
    prompt = Prompt(with_documents(request))

    def another_way(received: str) -> Prompt:
        return rest_of(request, runner, received) if received.strip() else prompt

    return BranchSpec(
        id="direct",
        kind="direct",
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
    own = {"question": request.question, "system": request.system, "documents": documents_text(request.documents)}
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
    content = f"{documents_text(request.documents)}\n\n{last.content}"
    return (*request.messages[:-1], last.model_copy(update={"content": content}))


def documents_text(documents: tuple[Document, ...]) -> str:
    """Documents as a model reads them."""
    return "\n\n".join(
        f'<document title="{document.title or number}">\n{document.text}\n</document>'
        for number, document in enumerate(documents, start=1)
    )
