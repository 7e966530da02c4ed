"""What a stream yields: one discriminated union, each member JSON-serialisable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.values.answer import Answer, Branch, Decided
from stretto.values.citation import PassageRecord
from stretto.values.route import Route
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import ToolCall, ToolCallFragment


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)


class RouteChosen(_Event):
    """How the request will be generated, and why. Always the first event.

    Attributes:
        type: "route_chosen".
        route: the decision.
    """

    type: Literal["route_chosen"] = "route_chosen"
    route: Route


class SectionPlanned(_Event):
    """The heading of a section is known, of a plan or of an outline; its text follows.

    Attributes:
        type: "section_planned".
        branch_id: the branch that will write the section.
        index: of the section, from 1.
        heading: of the section.
    """

    type: Literal["section_planned"] = "section_planned"
    branch_id: str
    index: int
    heading: str


class BranchStarted(_Event):
    """A branch sends its call.

    Attributes:
        type: "branch_started".
        branch_id: of the branch.
        kind: what it writes.
        title: of what it writes, where that is no section: an item, a passage, a tool.
        heading: of its section.
        form: of its section, as its plan names it; see `Branch`.
        index: of its section, from 1; ``None`` where it writes none.
    """

    type: Literal["branch_started"] = "branch_started"
    branch_id: str
    kind: str
    title: str = ""
    heading: str = ""
    form: str = ""
    index: int | None = None


class PassageRead(_Event):
    """A passage of a long document was read, or could not be.

    Attributes:
        type: "passage_read".
        record: what the passage holds for the question.
        title: of the document, with the place of the passage.
        done: passages read so far.
        total: passages to read.
    """

    type: Literal["passage_read"] = "passage_read"
    record: PassageRecord
    title: str
    done: int
    total: int


class FallbackStarted(_Event):
    """Another model goes on with a branch, because the one before it failed.

    Attributes:
        type: "fallback_started".
        branch_id: of the branch.
        model: the model that goes on.
        failed: the model that failed.
        error: why it failed.
        kept: characters of the branch's text that stay; what follows begins behind them.
    """

    type: Literal["fallback_started"] = "fallback_started"
    branch_id: str
    model: str
    failed: str
    error: str
    kept: int = 0


class BranchDelta(_Event):
    """New text of one branch, for a screen that shows branches side by side.

    Attributes:
        type: "branch_delta".
        branch_id: of the branch.
        text: the new piece.
        logprobs: of the tokens that came since the last piece, if they were asked for.
    """

    type: Literal["branch_delta"] = "branch_delta"
    branch_id: str
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class BranchFinished(_Event):
    """A branch ended well.

    Attributes:
        type: "branch_finished".
        branch: as the answer will hold it.
    """

    type: Literal["branch_finished"] = "branch_finished"
    branch: Branch


class BranchFailed(_Event):
    """A branch ended for good without its whole text.

    Attributes:
        type: "branch_failed".
        branch: as the answer will hold it; ``branch.error`` says why it failed.
    """

    type: Literal["branch_failed"] = "branch_failed"
    branch: Branch


class VoteCounted(_Event):
    """A sample of ``consensus`` has ended and voted.

    Attributes:
        type: "vote_counted".
        branch_id: of the sample.
        vote: what it voted for.
        votes: all votes so far.
        left: samples that may still vote.
        decided_by: the rule that has decided the vote, as in ``Agreement.decided_by``; ``None`` while it is open.
    """

    type: Literal["vote_counted"] = "vote_counted"
    branch_id: str
    vote: str
    votes: Mapping[str, int]
    left: int
    decided_by: Decided | None = None


class TextEdited(_Event):
    """A change was made in a text that is changed by edits. It comes behind the text that holds it.

    Attributes:
        type: "text_edited".
        branch_id: of the call that wrote the change.
        start: of the new text, in characters of the answer.
        old: what stood there.
        new: what stands there now; empty where something was taken out.
    """

    type: Literal["text_edited"] = "text_edited"
    branch_id: str
    start: int
    old: str
    new: str


class TextDelta(_Event):
    """The next piece of the merged answer. All pieces together are ``Answer.text``.

    Attributes:
        type: "text_delta".
        text: the new piece.
    """

    type: Literal["text_delta"] = "text_delta"
    text: str


class ToolCallDelta(_Event):
    """The next piece of a tool call that the model asks for. It comes after the text that was written before it.

    Attributes:
        type: "tool_call_delta".
        choice: which answer it belongs to, where several were asked for.
        delta: the new piece.
    """

    type: Literal["tool_call_delta"] = "tool_call_delta"
    choice: int = 0
    delta: ToolCallFragment


class ToolStarted(_Event):
    """A function of the caller is called, because the model asked for it.

    Attributes:
        type: "tool_started".
        branch_id: of the branch that calls it, of the kind "tool".
        call: what the model asked for.
    """

    type: Literal["tool_started"] = "tool_started"
    branch_id: str
    call: ToolCall


class ToolFinished(_Event):
    """A function of the caller has returned, or has failed.

    Attributes:
        type: "tool_finished".
        branch_id: of the branch that called it.
        call_id: that of the call.
        name: of the tool.
        result: what the model is given: what the function returned, or what went wrong.
        is_error: something went wrong.
    """

    type: Literal["tool_finished"] = "tool_finished"
    branch_id: str
    call_id: str
    name: str
    result: str
    is_error: bool = False


class ThoughtFinished(_Event):
    """What the model has thought before what follows, in an answer of one generation.

    It comes with the first text, because until then a call may be sent again.

    Attributes:
        type: "thought_finished".
        thought: a part of the model's turn, as its server gave it: Anthropic's ``thinking`` with its signature, or the
            ``reasoning_content`` of a compatible server.
    """

    type: Literal["thought_finished"] = "thought_finished"
    thought: Mapping[str, Any]


class RefusalStarted(_Event):
    """The text that follows is a refusal in the model's own words, told apart by its server.

    Attributes:
        type: "refusal_started".
        choice: which answer it is, where several were asked for.
    """

    type: Literal["refusal_started"] = "refusal_started"
    choice: int = 0


class ChoiceDelta(_Event):
    """The next piece of a further answer, where several were asked for. The first comes as `TextDelta`.

    Attributes:
        type: "choice_delta".
        choice: which answer, from 1.
        text: the new piece.
        logprobs: of the tokens that came since the last piece, if they were asked for.
    """

    type: Literal["choice_delta"] = "choice_delta"
    choice: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class AnswerFinished(_Event):
    """The whole answer. Always the last event.

    Attributes:
        type: "answer_finished".
        answer: the same that ``ask`` returns.
    """

    type: Literal["answer_finished"] = "answer_finished"
    answer: Answer


Event = Annotated[
    RouteChosen
    | SectionPlanned
    | BranchStarted
    | PassageRead
    | FallbackStarted
    | BranchDelta
    | BranchFinished
    | BranchFailed
    | TextDelta
    | ToolCallDelta
    | ToolStarted
    | ToolFinished
    | ThoughtFinished
    | RefusalStarted
    | ChoiceDelta
    | VoteCounted
    | TextEdited
    | AnswerFinished,
    Field(discriminator="type"),
]
