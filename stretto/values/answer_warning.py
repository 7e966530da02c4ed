"""Warnings of an answer: a sentence for people, a code for programs."""

from __future__ import annotations

from typing import Any, Literal, Protocol, Self, cast, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

WarningCode = Literal[
    "budget",  # the budget allowed less of the answer or of a part than was requested
    "deadline",  # the deadline ended the answer or a part
    "fallback",  # another model wrote the answer or a part of it
    "format",  # the answer does not fit response_format, or was not checked against it
    "kept",  # a rewritten text lacks something of its source, or misses the requested length
    "leak",  # words of the library's own prompts were removed
    "option",  # an option or a part of the request had no effect
    "other",  # a sentence of a backend, or of the caller's own strategy
    "part_cut",  # a part ends too early
    "part_missing",  # a part could not be written, or was left out
    "quotation",  # quotations or citations were left out
    "refusal",  # the model, or the filter of its server, refused
    "repeats",  # the answer repeats itself
    "strategy",  # the answer was not written in the way that the route says
    "tool",  # a tool failed, or its call was not carried out
    "unread",  # part of the documents or of the prompt was not read
    "votes",  # samples do not agree, or have no vote
]
"""What a warning is about. Any release may add codes."""

_CODES = frozenset(get_args(WarningCode))


class AnswerWarning(str):
    """What is missing from an answer, was left out, or was done differently: a sentence, with a code and a part.

    It is a string, so it prints and compares as text. In JSON it is an object with ``code``, ``message`` and ``part``.

    Attributes:
        code: what it is about.
        part: the id of the branch that it is about, as in `Branch.id`; ``None``: the whole answer, or more than one
            part.
    """

    code: WarningCode
    part: str | None

    def __new__(cls, message: str, code: WarningCode = "other", part: str | None = None) -> Self:
        """Create the warning."""
        made = super().__new__(cls, message)
        made.code, made.part = code, part
        return made

    @property
    def message(self) -> str:
        """The sentence, as plain text."""
        return str.__str__(self)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the warning."""
        return {"code": self.code, "message": self.message, "part": self.part}

    def __getnewargs__(self) -> tuple[str, WarningCode, str | None]:  # type: ignore[override]  # str's takes one
        return self.message, self.code, self.part

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept the JSON object or a plain sentence."""
        fields = {
            "message": core_schema.typed_dict_field(core_schema.str_schema()),
            "code": core_schema.typed_dict_field(core_schema.str_schema(), required=False),
            "part": core_schema.typed_dict_field(core_schema.nullable_schema(core_schema.str_schema()), required=False),
        }
        read = core_schema.no_info_after_validator_function(_read, core_schema.typed_dict_schema(fields))
        from_text = core_schema.no_info_after_validator_function(cls, core_schema.str_schema(strict=True))
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), read, from_text],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(
                AnswerWarning.as_json, return_schema=core_schema.typed_dict_schema(fields)
            ),
        )


class Warn(Protocol):
    """Adds a warning to an answer; see `stretto.strategies.runtime.runner.Runner.warn`."""

    def __call__(self, text: str, code: WarningCode | None = None, *, part: str | None = None) -> None: ...


def _read(fields: dict[str, Any]) -> AnswerWarning:
    code = fields.get("code")
    known = cast("WarningCode", code) if code in _CODES else "other"
    return AnswerWarning(fields["message"], known, fields.get("part"))
