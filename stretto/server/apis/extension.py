"""The field ``stretto`` of a request's body, and the field of the same name in its response."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, create_model
from pydantic.fields import FieldInfo

from stretto.foundation.arguments import unknown_names
from stretto.server.problems import Problem, of_validation
from stretto.values.answer import SECTION_FIELDS, Answer
from stretto.values.answer_warning import AnswerWarning
from stretto.values.document import Document
from stretto.values.events import Event, TextDelta
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request, RequestOptions
from stretto.values.route import Route

ROUTE_HEADER = "x-stretto-route"
_LONGEST_CAUSE = 300


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    title: str = ""
    warnings: tuple[str, ...] = ()


IN_EVERY_API = frozenset(
    {
        *("system", "max_tokens", "temperature", "top_p", "stop", "seed"),
        *("tools", "tool_choice", "n", "extra", "response_format", "logprobs", "chat_template_kwargs"),
    }
)
"""Request options that the APIs have themselves, each in its own format. The field ``stretto`` takes all others."""


class _Beside(BaseModel):
    """The fields that `Request` reads differently. Documents are texts: the server opens no files for its clients."""

    model_config = ConfigDict(extra="forbid")

    events: bool = False
    documents: list[Annotated[str | _Document, Field(union_mode="left_to_right")]] | None = None
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)


def _fields() -> type[_Beside]:
    """Build the model of the field ``stretto`` with the types and limits of `Request` and `GenerationOptions`."""
    known = GenerationOptions.model_fields | Request.model_fields
    names = [name for name in RequestOptions.__annotations__ if name not in {*IN_EVERY_API, *_Beside.model_fields}]
    fields: Any = {name: (_optional(known[name]), None) for name in names}
    return create_model("_Fields", __base__=_Beside, **fields)


def _optional(field: FieldInfo) -> Any:
    """Return the type of an optional field. A JSON string is not a number, and a fraction is not a count."""
    kind: Any = field.annotation
    is_count = kind in (int, int | None)
    kind |= None
    for limit in (*field.metadata, *([Strict()] if is_count else [])):
        kind = Annotated[kind, limit]
    return kind


_Fields = _fields()


@dataclass(frozen=True)
class Extension:
    """What a request of another API can say to Stretto. Everything is optional.

    Attributes:
        events: stream the events of the branches as well.
        options: the `RequestOptions` that other APIs lack, as keyword arguments of a client.
    """

    events: bool
    options: RequestOptions

    @classmethod
    def of(cls, body: dict[str, Any]) -> Extension:
        """Parse the field of a body. Raises `Problem`."""
        given = {} if body.get("stretto") is None else body["stretto"]
        if not isinstance(given, dict):
            raise Problem(400, 'stretto takes an object, such as {"strategy": "skeleton"}.', param="stretto")
        if wrong := unknown_names(given, _Fields.model_fields, "The field stretto"):
            raise Problem(400, wrong, param="stretto", code="unknown_parameter")
        try:
            read = _Fields(**given)
        except ValidationError as error:
            problem = of_validation(error)
            raise replace(problem, param=f"stretto.{problem.param}", message=f"stretto.{problem.message}") from None
        options: Any = {name: value for name, value in read if value is not None and name != "events"}
        if read.documents:
            options["documents"] = [
                each if isinstance(each, str) else Document(**each.model_dump()) for each in read.documents
            ]
        return cls(events=read.events, options=options)


def route_header(route: Route) -> dict[str, str]:
    """Return the route as a header: ASCII JSON with what a person wants to know of it."""
    shown: dict[str, Any] = {"strategy": route.strategy, "backend": route.backend, "decoding": route.decoding}
    shown |= {"confidence": round(route.confidence, 3), "code": route.code, "reason": route.reason[:_LONGEST_CAUSE]}
    return {ROUTE_HEADER: json.dumps({name: value for name, value in shown.items() if value not in {None, ""}})}


def extension_of(answer: Answer, *, route: bool = True, warnings: Sequence[AnswerWarning] = ()) -> dict[str, Any]:
    """Return what an API's own format has no field for; ``warnings`` of the request precede those of the answer."""
    shown: dict[str, Any] = {
        "strategy": answer.strategy,
        "finish_reason": answer.finish_reason,
        "usage": answer.usage.model_dump(),
        "timeline": answer.timeline.model_dump(),
        "warnings": [warning.as_json() for warning in (*warnings, *answer.warnings)],
    }
    if answer.sections:
        shown["sections"] = [branch.model_dump(include=SECTION_FIELDS) for branch in answer.sections]
    if answer.citations:
        shown["citations"] = [citation.model_dump(mode="json") for citation in answer.citations]
    if answer.agreement is not None:
        shown["agreement"] = answer.agreement.model_dump(mode="json")
    if route:
        shown["route"] = answer.route.model_dump(mode="json")
    return shown


def named_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Return a branch event's name and data for the stream; ``None`` for text, which is streamed anyway."""
    if isinstance(event, TextDelta):
        return None
    return f"stretto.{event.type}", event.model_dump(mode="json")
