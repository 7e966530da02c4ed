"""The events of a stream: a discriminated union of JSON-serialisable members."""

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
    """The heading of a section of a plan or an outline is known; its text follows.

    Attributes:
        type: "section_planned".
        branch_id: the branch that will write the section.
        index: the section's number, from 1.
        heading: the section's heading.
    """

    type: Literal["section_planned"] = "section_planned"
    branch_id: str
    index: int
    heading: str


class BranchStarted(_Event):
    """A branch sends its call.

    Attributes:
        type: "branch_started".
        branch_id: the branch.
        kind: what it writes.
        title: the title of what it writes, if that is not a section: an item, a passage, a tool.
        heading: the heading of its section.
        form: the form of its section, as its plan names it; see `Branch`.
        index: the number of its section, from 1; ``None`` if it writes none.
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
        record: what the passage says about the question.
        title: the document's title, with the location of the passage.
        done: number of passages read so far.
        total: number of passages to read.
    """

    type: Literal["passage_read"] = "passage_read"
    record: PassageRecord
    title: str
    done: int
    total: int


class FallbackStarted(_Event):
    """Another model continues a branch, because the previous one failed.

    Attributes:
        type: "fallback_started".
        branch_id: the branch.
        model: the model that continues.
        failed: the model that failed.
        error: why it failed.
        kept: characters of the branch's text that are kept; what follows is appended to them.
    """

    type: Literal["fallback_started"] = "fallback_started"
    branch_id: str
    model: str
    failed: str
    error: str
    kept: int = 0


class BranchDelta(_Event):
    """New text of one branch, for displays that show branches side by side.

    Attributes:
        type: "branch_delta".
        branch_id: the branch.
        text: the new piece.
        logprobs: log-probabilities of the tokens since the last piece, if requested.
    """

    type: Literal["branch_delta"] = "branch_delta"
    branch_id: str
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class BranchFinished(_Event):
    """A branch finished successfully.

    Attributes:
        type: "branch_finished".
        branch: as it will be in the answer.
    """

    type: Literal["branch_finished"] = "branch_finished"
    branch: Branch


class BranchFailed(_Event):
    """A branch ended without its whole text, and will not be tried again.

    Attributes:
        type: "branch_failed".
        branch: as it will be in the answer; ``branch.error`` says why it failed.
    """

    type: Literal["branch_failed"] = "branch_failed"
    branch: Branch


class VoteCounted(_Event):
    """A sample of ``consensus`` has ended and voted.

    Attributes:
        type: "vote_counted".
        branch_id: the sample's branch.
        vote: what it voted for.
        votes: all votes so far.
        left: number of samples that can still vote.
        decided_by: the rule that decided the vote, as in ``Agreement.decided_by``; ``None`` while it is open.
    """

    type: Literal["vote_counted"] = "vote_counted"
    branch_id: str
    vote: str
    votes: Mapping[str, int]
    left: int
    decided_by: Decided | None = None


class TextEdited(_Event):
    """A text that is rewritten by edits was changed in one place. Follows the text that contains the change.

    Attributes:
        type: "text_edited".
        branch_id: the branch whose call wrote the change.
        start: offset of the new text in the answer, in characters.
        old: the replaced text.
        new: the replacement; empty for a deletion.
    """

    type: Literal["text_edited"] = "text_edited"
    branch_id: str
    start: int
    old: str
    new: str


class TextDelta(_Event):
    """The next piece of the merged answer. Joined, the pieces are ``Answer.text``.

    Attributes:
        type: "text_delta".
        text: the new piece.
    """

    type: Literal["text_delta"] = "text_delta"
    text: str


class ToolCallDelta(_Event):
    """The next piece of a tool call that the model asks for. Follows the text written before the call.

    Attributes:
        type: "tool_call_delta".
        choice: which answer it belongs to, where more than one was requested.
        delta: the new piece.
    """

    type: Literal["tool_call_delta"] = "tool_call_delta"
    choice: int = 0
    delta: ToolCallFragment


class ToolStarted(_Event):
    """A function of the caller is being called, because the model asked for it.

    Attributes:
        type: "tool_started".
        branch_id: the branch that calls it, of kind "tool".
        call: what the model asked for.
    """

    type: Literal["tool_started"] = "tool_started"
    branch_id: str
    call: ToolCall


class ToolFinished(_Event):
    """A function of the caller has returned or failed.

    Attributes:
        type: "tool_finished".
        branch_id: the branch that called it.
        call_id: the id of the call.
        name: the name of the tool.
        result: what the model is given: the function's result, or what went wrong.
        is_error: whether something went wrong.
    """

    type: Literal["tool_finished"] = "tool_finished"
    branch_id: str
    call_id: str
    name: str
    result: str
    is_error: bool = False


class ThoughtFinished(_Event):
    """The model's reasoning before what follows, in an answer of one generation.

    It comes with the first text, because until then a call can be retried.

    Attributes:
        type: "thought_finished".
        thought: a part of the model's turn, as its server returned it: Anthropic's ``thinking`` with its signature, or
            the ``reasoning_content`` of a compatible server.
    """

    type: Literal["thought_finished"] = "thought_finished"
    thought: Mapping[str, Any]


class RefusalStarted(_Event):
    """The text that follows is a refusal in the model's own words, marked as such by its server.

    Attributes:
        type: "refusal_started".
        choice: which answer it is, where more than one was requested.
    """

    type: Literal["refusal_started"] = "refusal_started"
    choice: int = 0


class ChoiceDelta(_Event):
    """The next piece of a further answer, where more than one was requested. The first comes as `TextDelta`.

    Attributes:
        type: "choice_delta".
        choice: which answer, from 1.
        text: the new piece.
        logprobs: log-probabilities of the tokens since the last piece, if requested.
    """

    type: Literal["choice_delta"] = "choice_delta"
    choice: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class AnswerFinished(_Event):
    """The whole answer. Always the last event.

    Attributes:
        type: "answer_finished".
        answer: what ``ask`` returns.
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
