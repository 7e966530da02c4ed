"""The questions of a calibration, with the right answer, if known, and a format, if wanted."""

from __future__ import annotations

import math
from typing import Any

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from stretto.comparing.comparison_questions import Question
from stretto.foundation.json_schema import read_format
from stretto.values.errors import InvalidRequestError


class LabelledQuestion(Question):
    """A question for all models.

    Attributes:
        answer: the right answer, or alternative wordings of it.
        response_format: JSON schema or regular expression for the answers.
    """

    answer: tuple[str, ...] = ()
    response_format: dict[str, Any] | str | None = None

    @field_validator("answer", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            raise PydanticCustomError("no_number", "it is no number")
        if isinstance(value, bool | int | float):
            value = str(value)
        return (value,) if isinstance(value, str) else value

    @field_validator("response_format", mode="before")
    @classmethod
    def _usable(cls, value: object) -> object:
        try:
            read_format(value)
        except InvalidRequestError as error:  # reported with the line: every answer to it would fail
            raise PydanticCustomError("format", "{why}", {"why": str(error).rstrip(".")}) from None
        return value
