"""What a stream yields: one discriminated union, each member JSON-serialisable."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.answer import Answer, Branch, BranchKind
from stretto.citation import PassageRecord
from stretto.route import Route


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)


class RouteChosen(_Event):
    """How the request will be generated, and why. Always the first event."""

    type: Literal["route_chosen"] = "route_chosen"
    route: Route


class OutlinePointReady(_Event):
    """A line of the outline is complete. ``branch_id`` is the branch that will write it."""

    type: Literal["outline_point_ready"] = "outline_point_ready"
    branch_id: str
    index: int
    title: str


class BranchStarted(_Event):
    """A branch sends its call."""

    type: Literal["branch_started"] = "branch_started"
    branch_id: str
    kind: BranchKind
    title: str


class PassageRead(_Event):
    """A passage of a long document was read, or could not be: ``done`` of ``total``."""

    type: Literal["passage_read"] = "passage_read"
    record: PassageRecord
    title: str
    done: int
    total: int


class BranchDelta(_Event):
    """New text of one branch, for a screen that shows branches side by side."""

    type: Literal["branch_delta"] = "branch_delta"
    branch_id: str
    text: str


class BranchFinished(_Event):
    """A branch ended well."""

    type: Literal["branch_finished"] = "branch_finished"
    branch: Branch


class BranchFailed(_Event):
    """A branch ended for good without its whole text; ``branch.error`` says why."""

    type: Literal["branch_failed"] = "branch_failed"
    branch: Branch


class TextDelta(_Event):
    """The next piece of the merged answer. All of them, concatenated, are ``Answer.text``."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class AnswerFinished(_Event):
    """The whole answer. Always the last event."""

    type: Literal["answer_finished"] = "answer_finished"
    answer: Answer


Event = Annotated[
    RouteChosen
    | OutlinePointReady
    | BranchStarted
    | PassageRead
    | BranchDelta
    | BranchFinished
    | BranchFailed
    | TextDelta
    | AnswerFinished,
    Field(discriminator="type"),
]
