"""The options of one strategy, ``strategy_options`` of a request."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from stretto.foundation.arguments import reason, safe_repr
from stretto.strategies.base import Strategy
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request

Options = TypeVar("Options", bound=BaseModel)


def options_of(request: Request, kind: type[Options]) -> Options:
    """Return the options of the request's strategy as a model. Raises `InvalidRequestError`."""
    try:
        return kind(**request.strategy_options)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        known = ", ".join(kind.model_fields)
        if first["type"] == "extra_forbidden":
            raise InvalidRequestError(
                f"strategy_options= holds {safe_repr(name)}, and strategy={request.strategy!r} has no such option. "
                f"Its options are: {known}."
            ) from None
        if not name:  # an error about more than one option
            why = reason(first).removeprefix("value error, ")
            raise InvalidRequestError(f"strategy_options= cannot be used: {why}.") from None
        raise InvalidRequestError(
            f"strategy_options= holds {name}={safe_repr(first.get('input'))}, which cannot be used: {reason(first)}."
        ) from None


def comma_separated(value: object) -> object:
    """Accept ``main,small`` for several names, as on a command line."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def check_strategy_options(request: Request, strategy: Strategy | None) -> None:
    """Raise `InvalidRequestError` for options that the strategy does not have; ``None``: the router chooses it."""
    if not request.strategy_options:
        return
    kind: type[BaseModel] | None = getattr(strategy, "options", None)
    if kind is None:
        named = "Name the strategy that they are for" if strategy is None else "Leave them out"
        raise InvalidRequestError(
            f"strategy_options= cannot be used: strategy={request.strategy!r} has none. {named}, "
            "for instance strategy='consensus'."
        )
    options_of(request, kind)
