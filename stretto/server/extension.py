"""The field ``stretto`` of a request's body, and what is told of an answer under the same name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from stretto.answer import Answer
from stretto.document import Document
from stretto.events import Event, TextDelta
from stretto.foundation.arguments import unknown_names
from stretto.request import Budget, OnLoop, OnMissing, Preference, RequestOptions
from stretto.route import Route
from stretto.server.problems import Problem, of_validation

ROUTE_HEADER = "x-stretto-route"
_LONGEST_CAUSE = 300


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    title: str = ""


class Extension(BaseModel):
    """What Stretto can be told beside a request of another API. All may be left out.

    Attributes:
        events: stream the events of the branches as well.
        strategy: how to write the answer; goes before the one in the model's name.
        preference: "fastest", "balanced" or "careful".
        documents: texts to read for the answer, each with its title.
        race: let the straight answer run against the outline.
        budget: ``max_calls`` and ``max_tokens_total``.
        deadline_s: seconds that the answer may take.
        part_tokens: the most tokens of one part of an answer in parts.
        concurrent_points: the most parts of an answer that are written at the same time.
        on_missing: "note", "omit" or "raise".
        on_loop: "tell" or "cut".
        decoding: the decoding method of a local model.
    """

    model_config = ConfigDict(extra="forbid")

    events: bool = False
    strategy: str | None = None
    preference: Preference | None = None
    documents: list[Annotated[str | _Document, Field(union_mode="left_to_right")]] | None = None
    race: bool | None = None
    budget: Budget | None = None
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    part_tokens: Annotated[StrictInt | None, Field(ge=1)] = None
    concurrent_points: Annotated[StrictInt | None, Field(ge=1)] = None
    on_missing: OnMissing | None = None
    on_loop: OnLoop | None = None
    decoding: str | None = None

    @classmethod
    def of(cls, body: dict[str, Any]) -> Extension:
        """Read the field of a body. Raises `Problem`."""
        given = body.get("stretto")
        if given is None:
            return cls()
        if not isinstance(given, dict):
            raise Problem(400, 'stretto takes an object, such as {"strategy": "skeleton"}.', param="stretto")
        if wrong := unknown_names(given, cls.model_fields, "The field stretto"):
            raise Problem(400, wrong, param="stretto", code="unknown_parameter")
        try:
            return cls(**given)
        except ValidationError as error:
            problem = of_validation(error)
            problem.param = f"stretto.{problem.param}"
            problem.message = f"stretto.{problem.message}"
            raise problem from None

    @property
    def options(self) -> RequestOptions:
        """The same as keyword arguments of a client."""
        given: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields.keys() - {"events"}}
        if self.documents:
            given["documents"] = [
                each if isinstance(each, str) else Document(text=each.text, title=each.title) for each in self.documents
            ]
        found: RequestOptions = {name: value for name, value in given.items() if value is not None}  # type: ignore[assignment]  # the names above are its names
        return found


def route_header(route: Route | None) -> dict[str, str]:
    """The route as a header: JSON in ASCII, with what a person wants to know of it."""
    if route is None:
        return {}
    told: dict[str, Any] = {"strategy": route.strategy, "backend": route.backend, "decoding": route.decoding}
    told |= {"confidence": round(route.confidence, 3), "reason": route.reason[:_LONGEST_CAUSE]}
    return {ROUTE_HEADER: json.dumps({name: value for name, value in told.items() if value not in {None, ""}})}


def extension_of(answer: Answer, *, route: bool = True, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """What an answer's own form has no place for; ``warnings`` of the request stand before those of the answer."""
    told: dict[str, Any] = {
        "strategy": answer.strategy,
        "finish_reason": answer.finish_reason,
        "usage": answer.usage.model_dump(),
        "timeline": answer.timeline.model_dump(),
        "warnings": [*warnings, *answer.warnings],
    }
    if answer.citations:
        told["citations"] = [citation.model_dump(mode="json") for citation in answer.citations]
    if route:
        told["route"] = answer.route.model_dump(mode="json")
    return told


def named_event(event: Event, beside: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """A branch's event for the stream: its name and data. ``None`` for text, which is streamed anyway.

    Not every client looks at the names of events. ``beside`` makes the data an empty chunk for one that does not.
    """
    if isinstance(event, TextDelta):
        return None
    return f"stretto.{event.type}", beside | event.model_dump(mode="json")
