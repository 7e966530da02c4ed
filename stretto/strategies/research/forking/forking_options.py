"""What can be told to ``forking`` in ``strategy_options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from stretto.strategies.research.forking.fork_reading import forms
from stretto.values.request import check_extra

__all__ = ["ForkingOptions"]


class ForkingOptions(BaseModel):
    """Options of ``forking``.

    Attributes:
        tags: the form of the model's tags: "multiverse", "threadweaver" or "pasta"; by default whichever it writes.
        paths: of one fork, at most. A fork with more is written on as plain text.
        depth: how deep forks may stand inside paths.
        join: how the model goes on behind the paths of a fork. "read": it reads their texts again, in a row. "beside":
            a local model of the Llama family places what it has of each, and reads their ends only; all paths have the
            positions that they were written at, which models of Multiverse have learned. "behind": likewise, with
            positions behind each other. Servers and other models read in any case.
        forks: of one answer, at most; what comes after the last one is plain text.
        extra: fields of the body of each call; ``{"skip_special_tokens": False}`` for a vLLM whose model has tags that
            are special tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tags: str | None = None
    paths: int = Field(default=16, ge=2, le=64)
    depth: int = Field(default=2, ge=1, le=4)
    join: Literal["read", "beside", "behind"] = "read"
    forks: int = Field(default=8, ge=1, le=32)
    extra: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("tags")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in forms():
            raise ValueError(f"the known forms are {', '.join(forms())}")
        return value

    @field_validator("extra")
    @classmethod
    def _free(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        check_extra(value)
        return value
