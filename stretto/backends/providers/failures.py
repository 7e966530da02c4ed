"""Turns what the SDKs raise into the library's errors: one clear sentence each, never with a key in it.

The SDKs' exceptions are read by their shape (``status_code``, ``response``, ``body``), so that
none of the SDKs has to be imported, and so that the models of LangChain, which raise the same
exceptions, are understood as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stretto.answer import Usage
from stretto.backends.providers.event_lines import BodyTooLargeError
from stretto.backends.providers.event_values import OddEventError
from stretto.backends.providers.headers import kept_headers, retry_after_s
from stretto.backends.providers.http_clients import is_loopback, transport_errors
from stretto.backends.providers.redaction import shown
from stretto.errors import (
    AuthenticationError,
    BackendError,
    ConnectionFailedError,
    ContextOverflowError,
    ModelNotFoundError,
    RateLimitedError,
    RequestRejectedError,
    ServerFailedError,
    StreamBrokenError,
)

_DEEPEST = 12  # causes of causes
_LOOKED_AT = 4_096  # bytes of a body that an error may show
_OVERFLOW = re.compile(
    r"context.{0,10}(length|window|size)|prompt is too long|too many (input )?tokens|input.{0,30}too long",
    re.IGNORECASE,
)
_OF_THE_REQUEST = re.compile(
    r"not supported|unsupported|failed to parse (tools|messages|grammar|schema|request)|missing tool|invalid request",
    re.IGNORECASE,
)
"""What servers say of a request, also with status 500, as llama.cpp's does of images for a model of text."""

_UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, OddEventError)
_NO_MODEL = (ValueError, TypeError, AttributeError, RecursionError)  # an SDK cannot build its model of an event
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def is_loading(error: BackendError) -> bool:
    """Whether a server that has just been started says that it loads its model: it will answer in a while."""
    return error.status == 503 and "loading" in error.server_message.lower()


def usage_of(error: BaseException) -> Usage:
    """Give the calls, retries and tokens that were spent before the error."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, Usage) else Usage()


def charge(error: BackendError, usage: Usage) -> None:
    """Add to what was spent before the error (its attribute ``usage``)."""
    error.usage = usage_of(error) + usage


def translate(error: Exception, backend: str, *secrets: str, endpoint: str = "", started: bool = False) -> BackendError:
    """Give our error for what an SDK raised.

    ``endpoint``: host and port that were called, where they are known; ``started``: the stream had begun.
    Raise the result outside of the ``except`` block: the SDK's exception holds the request, and with it
    the key, and must not become its context.
    """
    if isinstance(error, BackendError):
        return error
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, BodyTooLargeError):
        return StreamBrokenError(f"{backend} sent too much: {error}", backend=backend, transient=False)
    if "APIConnectionError" in names or isinstance(error, (*transport_errors(), OSError)):
        return _unconnected(error, backend, secrets, endpoint, started)
    body = getattr(error, "body", None)
    status = _status(error, body)
    if status is None:
        if isinstance(error, _UNREADABLE) or (started and isinstance(error, _NO_MODEL)):
            return _unreadable(error, backend, secrets)
        return BackendError(
            f"{backend} failed: {type(error).__name__}: {shown(str(error), *secrets)[:300]}", backend=backend
        )
    headers = kept_headers(getattr(getattr(error, "response", None), "headers", None), *secrets)
    return _answered(status, body, _said(error, body, secrets), headers, backend)


def not_a_stream(body: bytes, backend: str, *secrets: str, headers: Mapping[str, str]) -> BackendError:
    """Give the error for an answer with status 200 that is neither a stream of events nor a whole answer."""
    read = read_json(body)
    if isinstance(read, Mapping) and (is_error(read) or _detail(read).get("message")):
        return _answered(_status(None, read) or 500, read, _said(None, read, secrets), dict(headers), backend)
    error = StreamBrokenError(
        f"{backend} answered, but not with a stream of events: {_excerpt(body, secrets)}. "
        "Check base_url, and what stands between.",
        backend=backend,
        headers=headers,
    )
    error.server_message = shown(body[:_LOOKED_AT].decode(errors="replace"), *secrets)
    return error


def read_json(text: bytes) -> Any:
    """Read JSON; ``None`` if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_error(event: Mapping[str, Any]) -> bool:
    """Whether an object is one of the forms in which servers tell errors."""
    return bool(event.get("error")) or event.get("type") == "error" or event.get("object") == "error"


def _unreadable(error: Exception, backend: str, secrets: tuple[str, ...]) -> BackendError:
    if isinstance(error, json.JSONDecodeError):
        said = shown(error.doc[:_LOOKED_AT], *secrets)
        what = f": {said[:200]}" if said else ""
    else:
        said, what = "", f" ({shown(str(error), *secrets)[:200]})" if isinstance(error, OddEventError) else ""
    broken = StreamBrokenError(
        f"{backend} sent an event that cannot be read{what}. Try again; if it stays, the server or a proxy "
        "between is at fault.",
        backend=backend,
    )
    broken.server_message = said
    return broken


def _excerpt(body: bytes, secrets: tuple[str, ...]) -> str:
    return shown(body[:_LOOKED_AT].decode(errors="replace"), *secrets)[:200] or "nothing"


def _unconnected(
    error: Exception, backend: str, secrets: tuple[str, ...], endpoint: str, started: bool
) -> BackendError:
    cause = error.__cause__ or error
    why = f"{type(cause).__name__}: {shown(str(cause), *secrets)}".rstrip(": ")
    if started:
        return StreamBrokenError(
            f"{backend} broke off in the middle of the answer ({why}). Ask again.", backend=backend
        )
    if is_loopback(endpoint) and _nobody_listens(error):
        return nobody_listens(backend, endpoint)
    where = f" at {endpoint}" if endpoint else ""
    return ConnectionFailedError(
        f"{backend} cannot be reached{where} ({why}). Check base_url, the network and whether the server runs.",
        backend=backend,
    )


def nobody_listens(backend: str, endpoint: str) -> ConnectionFailedError:
    """Give the error for a port of this machine where nobody listens: no wait makes a server of it."""
    return ConnectionFailedError(
        f"{backend} cannot be reached: connection refused, nothing listens at {endpoint}. Start the server, or give "
        "its address as base_url.",
        backend=backend,
        transient=False,
    )


def _nobody_listens(error: Exception) -> bool:
    """Whether a connection was refused, and not closed later or too slow; the libraries wrap it several times."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            return False
        if isinstance(cause, ConnectionRefusedError):
            return True
        if isinstance(cause, BaseExceptionGroup):  # one for each address of a name, localhost for instance
            return all(isinstance(each, ConnectionRefusedError) for each in cause.exceptions)
        cause = cause.__cause__ or cause.__context__
    return False


def _status(error: Exception | None, body: Any) -> int | None:
    """Give the HTTP status, or the one that an error in the middle of a stream stands for."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 300:
        return status
    detail = _detail(body)
    for value in (_word(detail, "type"), _word(detail, "code")):
        if value in _STATUS_OF_TYPE:
            return _STATUS_OF_TYPE[value]
        if re.fullmatch("[345][0-9][0-9]", value):
            return int(value)
    return 500 if isinstance(body, (Mapping, str)) else None


def _detail(body: Any) -> Mapping[str, Any]:
    """Give the error object of a body, wherever the API puts it."""
    if isinstance(body, str):
        return {"message": body}
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error") or body
    return inner if isinstance(inner, Mapping) else {"message": inner}


def _word(detail: Mapping[str, Any], name: str) -> str:
    """Give a field that should be a word; a server may send anything."""
    value = detail.get(name)
    return str(value) if isinstance(value, (str, int)) else ""


def _said(error: Exception | None, body: Any, secrets: tuple[str, ...]) -> str:
    detail = _detail(body)
    said = detail.get("message") or detail.get("detail") or getattr(error, "message", None) or str(error or "")
    try:
        return shown(str(said), *secrets)
    except RecursionError:
        return ""


def _answered(status: int, body: Any, said: str, headers: dict[str, str], backend: str) -> BackendError:
    """Choose the error for a status, and the sentence that says what to do."""
    kind, what, remedy, transient = _kind_of(status, _detail(body), said)
    asked = headers.get("x-should-retry")
    if asked is not None and kind is not AuthenticationError:
        transient = asked == "true"
    error = kind(
        f"{backend} {what} (status {status}): {said}. {remedy}",
        backend=backend,
        status=status,
        transient=transient,
        retry_after_s=retry_after_s(headers),
        headers=headers,
    )
    error.server_message = said
    if isinstance(error, RequestRejectedError):
        error.parameter = rejected_parameter(body, said)
    return error


def _kind_of(status: int, detail: Mapping[str, Any], said: str) -> tuple[type[BackendError], str, str, bool]:
    """Give the error's class, what happened, what to do, and whether it may pass by itself."""
    code = _word(detail, "code") or _word(detail, "type")
    if status == 402 or code in {"insufficient_quota", "billing_error"}:
        return RateLimitedError, "has no credit left", "Check the plan and billing of the account.", False
    if status == 413 or code == "context_length_exceeded" or (status == 400 and _OVERFLOW.search(said)):
        return ContextOverflowError, "cannot hold this prompt", "Shorten it, or use a larger model.", False
    if status == 500 and _OF_THE_REQUEST.search(said):
        return _REJECTED
    if status < 400:
        return RequestRejectedError, "points elsewhere", "Give the final address as base_url.", False
    if status >= 500:
        passing = status not in {501, 505}
        return ServerFailedError, "failed", "Ask again later, or use another model.", passing
    return _KINDS.get(status, _REJECTED)


_REJECTED = (RequestRejectedError, "refuses the request", "Change what it names.", False)
_KEY_REFUSED = (AuthenticationError, "does not accept the key", "Check the key and what it may use.", False)
_NOT_READY = (ServerFailedError, "was not ready", "Ask again.", True)
_KINDS: Mapping[int, tuple[type[BackendError], str, str, bool]] = {
    401: _KEY_REFUSED,
    403: _KEY_REFUSED,
    404: (ModelNotFoundError, "was not found", "Check the model's name and base_url.", False),
    408: _NOT_READY,
    409: _NOT_READY,
    425: _NOT_READY,
    429: (RateLimitedError, "limits the rate", "Wait, send less at once, or raise the limit.", True),
}


_UNWANTED = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|deprecated|"
    r"cannot (both )?be (used|specified)|extra (inputs|fields)|no longer|use '?max_",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(max_completion_tokens|max_tokens|temperature|top_p|stop_sequences|reasoning_effort|effort|stream_options|"
    r"prompt_cache_key|top_logprobs|logprobs|guided_json|"
    r"response_format)\b|[`'\"](stop|seed|n)[`'\"]|^(stop|seed|n):|\bparam(?:eter)?: (stop|seed|n)\b"
)
_WITH_OTHERS = re.compile(r"\bwith (tools|tool calls|stream)", re.IGNORECASE)  # it is taken, but not beside these


def rejected_parameter(body: Any, said: str) -> str | None:
    """Name the parameter that a 400 or 422 objects to as such; ``None`` if it objects to a value."""
    detail = _detail(body)
    if isinstance(
        listed := detail.get("detail"), list
    ):  # FastAPI: [{"loc": ["body", name], "type": "extra_forbidden"}]
        first = next((item for item in listed if isinstance(item, Mapping)), {})
        where = first.get("loc")
        if "extra" in _word(first, "type") and isinstance(where, list) and where:
            return str(where[-1]) or None
    unwanted = _word(detail, "code") in {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
    if not unwanted and (not _UNWANTED.search(said) or _WITH_OTHERS.search(said)):
        return None
    if isinstance(detail.get("param"), str):
        return str(detail["param"])
    found = _NAMED.search(said)
    return next(filter(None, found.groups()), None) if found else None
