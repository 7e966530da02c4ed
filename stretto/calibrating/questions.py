"""The questions of a calibration: with the right answer, where it is known, and with a format, where one is wanted."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from stretto.comparing.questions import Question


class LabelledQuestion(Question):
    """A question that all models answer.

    Attributes:
        answer: the right answer, or several wordings of it.
        response_format: JSON schema, or regular expression, that the answers are held to.
    """

    answer: tuple[str, ...] = ()
    response_format: dict[str, Any] | str | None = None

    @field_validator("answer", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if isinstance(value, bool | int | float):
            value = str(value)
        return (value,) if isinstance(value, str) else value
