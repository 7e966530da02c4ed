"""What an answer knows of the samples that it was chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Decided = Literal["unchangeable", "certain", "all_votes", "similarity", "judge", "only_one"]


class Agreement(BaseModel):
    """How far the samples of an answer agree (strategy ``consensus``).

    Attributes:
        votes: the number of votes by what was voted for, most votes first. Numbers, choices, JSON and short phrases
            are written in one way each; a longer text is one of its own.
        share: of the votes that were counted, the part that the answer got; 0 where the texts were compared instead.
        decided_by: "unchangeable" (no vote could change the outcome), "certain" (the leader was probable enough to
            stay in front), "all_votes" (every sample was counted), "similarity" (the text that is most like the
            others), "judge" (a model chose), "only_one" (no more than one sample had a vote).
        samples: that were wanted.
        begun: whose call was sent.
        finished: that were written to their end.
        failed: that broke off, were cut or refused, or do not fit the format; they have no vote.
        cancelled: that were not needed any more, whether begun or not.
        weak: that were ended in mid-stream, because the model was less sure of them than of any finished sample.
    """

    model_config = ConfigDict(frozen=True)

    votes: Mapping[str, int] = Field(default_factory=dict)
    share: float = 0.0
    decided_by: Decided = "all_votes"
    samples: int = 0
    begun: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    weak: int = 0
