"""Types of the fields that several APIs have in common, and what their tools must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from stretto.foundation.arguments import safe_repr
from stretto.server.problems import Problem
from stretto.values.generation_options import not_bool

MOST_MESSAGES = 4096  # each costs time in every layer that reads it
MOST_TOOLS = 1024  # OpenAI takes 128
MOST_STOPS = 256  # OpenAI takes 4

Count = Annotated[int, BeforeValidator(not_bool), Field(ge=1)]
"""A number of tokens or answers. ``true`` is none, though Python takes it for 1."""

Number = Annotated[float, BeforeValidator(not_bool)]
Seed = Annotated[int, BeforeValidator(not_bool), Field(ge=-(2**63), lt=2**63)]
Small = Annotated[int, BeforeValidator(not_bool), Field(ge=0, le=20)]


def check_number(field: str, given: Sequence[Any] | str | None, most: int) -> None:
    """Raise `Problem` where a list is longer than this server reads."""
    if given is not None and not isinstance(given, str) and len(given) > most:
        message = f"{field} holds {len(given):,} entries, and {most:,} are the most. Send fewer."
        raise Problem(400, message, param=field, code="array_above_max_length")


def check_tools(tools: Sequence[Mapping[str, Any]] | None, choice: Any) -> None:
    """Raise `Problem` for a tool without a type or a name, and for a choice among no tools."""
    check_number("tools", tools, MOST_TOOLS)
    for place, tool in enumerate(tools or ()):
        if "input_schema" in tool and "function" not in tool:  # Anthropic's form
            named, where = tool.get("name"), f"tools.{place}.name"
        else:
            kind = tool.get("type")
            if not isinstance(kind, str) or not kind:
                message = f'tools.{place}.type={safe_repr(kind)} cannot be used: it takes "function" or another type.'
                raise Problem(400, message, param=f"tools.{place}.type", code="invalid_value")
            if kind not in ("function", "custom"):
                continue  # of the model's own server, which knows what it holds
            inner = tool.get(kind)
            named = inner.get("name") if isinstance(inner, Mapping) else None
            where = f"tools.{place}.{kind}.name"
        if not isinstance(named, str) or not named:
            message = f"{where}={safe_repr(named)} cannot be used: a tool needs a name."
            raise Problem(400, message, param=where, code="invalid_value")
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    if not tools and kind not in (None, "auto", "none"):  # which clients send with every request
        message = "tool_choice cannot be used without tools. Add tools, or leave it out."
        raise Problem(400, message, param="tool_choice", code="invalid_value")


def check_contents(turns: Sequence[Mapping[str, Any]], field: str, places: Sequence[int] | None = None) -> None:
    """Raise `Problem` for a turn whose content is an empty list; one of the assistant may hold calls instead."""
    check_number(field, turns, MOST_MESSAGES)
    for place, turn in zip(places or range(len(turns)), turns, strict=True):
        if turn.get("content") == [] and turn.get("role") != "assistant":
            where = f"{field}.{place}.content"
            raise Problem(400, f"{where}=[] cannot be used: it takes a text or at least one part.", param=where)
