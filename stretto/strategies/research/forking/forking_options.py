"""The options of ``forking`` in ``strategy_options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from stretto.strategies.research.forking.fork_reading import forms
from stretto.values.request import check_extra


class ForkingOptions(BaseModel):
    """Options of ``forking``.

    Attributes:
        tags: the form of the model's tags: "multiverse", "threadweaver" or "pasta"; by default whichever it writes.
        paths: the maximum number of paths of one fork. A fork with more continues as plain text.
        depth: how deep forks can be nested inside paths.
        join: how the model continues after the paths of a fork. "read": it prefills their texts again, in a row.
            "beside": a local model of the Llama family joins their KV caches, and prefills only their ends; all paths
            keep the positions at which they were written, as models of Multiverse have learned. "behind": likewise,
            with consecutive positions. Servers and other models always read.
        forks: the maximum number of forks of one answer; what comes after the last one is plain text.
        extra: fields of the body of each call; ``{"skip_special_tokens": False}`` for a vLLM server whose model has
            tags that are special tokens.
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
