"""Errors as an HTTP status and a body that clients of OpenAI and Anthropic understand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stretto.foundation.arguments import looks_like_key, safe_repr
from stretto.values import errors

_NO_RETRY = {"x-should-retry": "false"}  # the SDKs would otherwise retry, up to twice

Body = TypeVar("Body", bound=BaseModel)


@dataclass
class Problem(Exception):  # noqa: N818 - not a fault of the program: a response with a status
    """A response with a status of 400 or above.

    Attributes:
        status: the HTTP status.
        message: what is wrong, its value and the remedy, for a person.
        type: the kind of error, in OpenAI's words.
        param: the field of the body that is wrong.
        code: the error code, for programs.
        headers: headers to add to the response.
    """

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_openai(self) -> dict[str, Any]:
        """Return OpenAI's error envelope."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def as_anthropic(self, request_id: str) -> dict[str, Any]:
        """Return Anthropic's error envelope."""
        kind = _ANTHROPIC_TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        message = f"{self.param}: {self.message}" if self.param else self.message
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


_TYPES = {400: "invalid_request_error", 404: "invalid_request_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that says when to retry; whole seconds, at least one."""
    return {"retry-after": str(max(1, math.ceil(min(seconds, 3600.0))))}


def shutting_down() -> Problem:
    """Return the problem for a request that a stopping server does not answer, or stops answering."""
    return Problem(
        503,
        "The server is shutting down. Send the request again in a moment.",
        "server_error",
        code="shutting_down",
        headers=retry_after(5) | {"connection": "close"},
    )


_MEMBERS = ("str", "_Document")  # of the unions in bodies, in addition to lists and mappings


def read_as(model: type[Body], body: object) -> Body:
    """Parse a body. Raises `Problem` for a field that cannot be used."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise of_validation(error) from None


def of_validation(error: ValidationError) -> Problem:
    """Return the problem for a field of the body that cannot be used, naming the field."""
    first = error.errors(include_url=False)[0]
    parts = ["[hidden]" if looks_like_key(part) else part for part in map(str, first["loc"])]
    # pydantic appends the type of a union's member to the field; a client knows only the field.
    fields = (part for part in parts if part == "[hidden]" or not (part.endswith("]") or part in _MEMBERS))
    name = ".".join(fields) or "body"
    if first["type"] == "missing":
        return Problem(400, f"The field {name} is missing.", param=name, code="missing_required_parameter")
    reason = first["msg"].removeprefix("Value error, ")
    message = f"{name}={safe_repr(first.get('input'))} cannot be used: {reason[:1].lower()}{reason[1:]}."
    return Problem(400, message, param=name, code="invalid_value")


def of_turn(error: errors.InvalidRequestError | ValidationError, where: str) -> Problem:
    """Return the problem for a turn of a conversation that cannot be used, with its place in the body."""
    if isinstance(error, ValidationError):
        cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
        if not isinstance(cause, errors.InvalidRequestError):
            problem = of_validation(error)
            problem.param = f"{where}.{problem.param}"
            problem.message = f"{where}.{problem.message}"
            return problem
        error = cause
    return Problem(400, str(error), param=where, code="invalid_value")


_ANSWERS: tuple[tuple[type[Exception], int, str, str | None], ...] = (  # first match wins: subclasses before bases
    (errors.ContextOverflowError, 400, "context_length_exceeded", "messages"),
    (errors.RequestRejectedError, 400, "rejected_by_backend", None),
    (errors.RateLimitedError, 429, "rate_limit_exceeded", None),
    (errors.BreakerOpenError, 503, "backend_unavailable", None),
    (errors.AuthenticationError, 502, "backend_authentication", None),  # not 401: the client's key is valid
    (errors.ModelNotFoundError, 502, "backend_model_not_found", None),
    (errors.StalledError, 504, "backend_timeout", None),
    (errors.BackendError, 502, "backend_failed", None),
    (errors.DeadlineExceededError, 504, "deadline_exceeded", "stretto.deadline_s"),
    (errors.BudgetExceededError, 400, "budget_exceeded", "stretto.budget"),
    (errors.IncompleteAnswerError, 502, "incomplete_answer", None),
    (errors.UnknownStrategyError, 400, "invalid_value", "stretto.strategy"),
    (errors.UnknownModelError, 404, "model_not_found", "model"),
    (errors.InvalidRequestError, 400, "invalid_value", None),
    (errors.StrettoError, 500, "server_error", None),
)
_IN_VAIN = frozenset({"backend_authentication", "backend_model_not_found", "deadline_exceeded", "incomplete_answer"})


def of_error(error: Exception) -> Problem:
    """Return the response for an error of the library. Any other error reveals nothing."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.AllModelsFailedError) and error.errors:
        return replace(of_error(error.errors[0]), message=str(error))
    for kind, status, code, param in _ANSWERS:
        if isinstance(error, kind):
            headers = _NO_RETRY if code in _IN_VAIN else {}
            if isinstance(error, errors.RateLimitedError | errors.BreakerOpenError):
                headers = retry_after(error.retry_after_s or 1.0)
            if isinstance(error, errors.RequestRejectedError) and error.parameter is not None:
                param = error.parameter  # noqa: PLW2901 - the backend knows better
            return Problem(status, str(error), _TYPES.get(status, "server_error"), param, code, headers)
    message = "The server failed at this request. Its log says why, under the id of the request."
    return Problem(500, message, "server_error", code="internal_error")
