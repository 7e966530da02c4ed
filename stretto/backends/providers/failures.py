"""Converts what the SDKs raise into the library's errors: one clear sentence each, never with a key in it.

The SDKs' exceptions are read by their attributes (``status_code``, ``response``, ``body``), so that
none of the SDKs has to be imported. This also covers LangChain's models, which raise the same exceptions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from stretto.backends.providers.event_values import OddEventError, value_of
from stretto.backends.providers.transport.error_bodies import (
    as_text,
    detail_of,
    is_error,
    read_json,
    word_of_error,
    words_of,
)
from stretto.backends.providers.transport.event_lines import BodyTooLargeError
from stretto.backends.providers.transport.headers import kept_headers, retry_after_s
from stretto.backends.providers.transport.http_clients import is_loopback, transport_errors
from stretto.backends.providers.transport.requested_waits import requested_wait_s
from stretto.foundation.redaction import redacted_line
from stretto.values.answer import Usage
from stretto.values.errors import (
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

_WORD = 60  # characters of a finish reason
_DEEPEST = 12  # causes of causes
_LOOKED_AT = 4_096  # bytes of a body that an error can quote
_OVERFLOW = re.compile(
    r"context.{0,10}(length|window|size|limit)|(maximum|max) (prompt|input|model|sequence) length|"
    r"(prompt|input|string|message)s?\b[^:]{0,30}\btoo (long|large)|too many (input |prompt )?tokens|"
    r"(input|prompt)s?\b[^:]{0,50}\b(exceed(s|ed)?|longer than)\b.{0,60}(token|length|limit|size)|"
    r"token count\b.{0,40}\bonly supports|request[^:]{0,20}\bexceed(s|ed)?\b[^:]{0,30}token limit|"
    r"\binputs\W.{0,40}(must be <=|must have less)|max_tokens must be at least 1, got -|expected maxLength|"
    r"payload size exceeds|range of input length|reduce the length of (the|your) (message|prompt|input)",
    re.IGNORECASE,
)
_OF_A_RATE = re.compile(
    r"\bper[ -]?(sec|min|hour|day|month)|rate.?limit|quota|\b[rt]p[smd]\b|please wait|(again|retry) (in|after|later)\b",
    re.IGNORECASE,
)
"""Messages about a rate, where waiting helps: Bedrock says "too many tokens, please wait"."""
_OVERFLOWS = frozenset({400, 422, 429, 500})  # statuses for a prompt that is too long
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"})
_OF_THE_REQUEST = re.compile(
    r"not supported|unsupported|failed to parse (tools|messages|grammar|schema|request)|missing tool|invalid request",
    re.IGNORECASE,
)
"""Messages about the request itself, even with status 500, as from llama.cpp for images sent to a text model."""

_UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, OddEventError)
_NO_MODEL = (ValueError, TypeError, AttributeError, LookupError, RecursionError)  # a malformed event
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
    "INVALID_ARGUMENT": 400,  # Google's from here on
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_NO_CREDIT = re.compile(
    r"insufficient[ _](quota|balance|credit|funds)|(exceeded|used up)[ _](your[ _])?current[ _]quota|credit balance|"
    r"billing_(error|hard|not)|(out of|no|all available) credits?\b|spending limit|\blimit: 0(?![\d.,]*\d)",
    re.IGNORECASE,
)
_NO_KEY = re.compile(
    r"api[ _]?key (is )?(not valid|invalid|expired)|API_KEY_INVALID|invalid[ _]api[ _]?key", re.IGNORECASE
)
_OF_A_DAY = re.compile(r"quotaId\W+\w*PerDay")
_TOO_LARGE = re.compile(r"request (is )?too large|tokens must be reduced", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit(?: is| of)?\s?[:=]?\s?(\d[\d,_]{0,15})", re.IGNORECASE)
_REQUESTED = re.compile(r"\brequested\s?[:=]?\s?(\d[\d,_]{0,15})", re.IGNORECASE)


def is_loading(error: BackendError) -> bool:
    """Return whether a server that has just started reports that it is loading its model, and so will answer later."""
    return error.status == 503 and "loading" in error.server_message.lower()


def usage_of(error: BaseException) -> Usage:
    """Return the calls, retries and tokens that were spent before the error."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, Usage) else Usage()


def charge(error: BackendError, usage: Usage) -> None:
    """Add to what was spent before the error (its attribute ``usage``)."""
    error.usage = usage_of(error) + usage


def translate(
    error: Exception,
    backend: str,
    *secrets: str,
    endpoint: str = "",
    proxy: str = "",
    started: bool = False,
    retry_header: str = "",
) -> BackendError:
    """Return our error for what an SDK raised.

    ``endpoint``: host and port of the call, if known; ``proxy``: the one in between; ``started``: the stream had begun.
    Raise the result outside the ``except`` block: the SDK's exception contains the request, and with it
    the key, and must not become its context.
    """
    if isinstance(error, BackendError):
        return error
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, BodyTooLargeError):
        return StreamBrokenError(f"{backend} sent too much: {error}", backend=backend, transient=False)
    if "APIConnectionError" in names or isinstance(error, (*transport_errors(), OSError)):
        return _unconnected(error, backend, secrets, endpoint=endpoint, proxy=proxy, started=started)
    body = _body(error)
    status = _status(error, body)
    if status is None:
        if isinstance(error, _UNREADABLE) or (started and isinstance(error, _NO_MODEL)):
            return _unreadable(error, backend, secrets)
        return _by_its_words(error, backend, secrets)
    received = getattr(getattr(error, "response", None), "headers", None)
    headers = kept_headers(received, *secrets, retry_header=retry_header)
    words = words_of(body) or _own_words(error, names)
    return _answered(status, body, words, secrets, backend, headers=headers)


def _own_words(error: Exception, names: set[str]) -> str:
    if "HTTPStatusError" in names:  # httpx's message is the URL, and where HTTP is explained
        try:
            return str(error.response.text)  # type: ignore[attr-defined]  # as httpx's errors have it
        except Exception:  # noqa: BLE001 - it was not read
            return ""
    return str(getattr(error, "message", None) or error)


def _by_its_words(error: Exception, backend: str, secrets: tuple[str, ...]) -> BackendError:
    message = redacted_line(str(error), *secrets)
    if _is_overflow(400, message, None):
        return ContextOverflowError(
            f"{backend} cannot hold this prompt: {message[:300].rstrip('.')}. Shorten it, or use a larger model.",
            backend=backend,
        )
    return BackendError(f"{backend} failed: {type(error).__name__}: {message[:300]}", backend=backend)


def not_a_stream(body: bytes, backend: str, *secrets: str, headers: Mapping[str, str]) -> BackendError:
    """Return the error for a response with status 200 that is neither an event stream nor a complete answer."""
    read = read_json(body)
    if is_error(read) or (isinstance(read, Mapping) and detail_of(read).get("message")):
        return _answered(_status(None, read) or 500, read, words_of(read), secrets, backend, headers=headers)
    excerpt = redacted_line(body[:_LOOKED_AT].decode(errors="replace"), *secrets)
    error = StreamBrokenError(
        f"{backend} answered, but not with a stream of events: {excerpt[:200] or 'nothing'}. "
        "Check base_url and any proxy in between.",
        backend=backend,
        headers=headers,
    )
    error.server_message = excerpt
    return error


def failed_end(backend: str, word: str) -> BackendError:
    """Return the error for an answer whose finish reason is a failure."""
    return StreamBrokenError(
        f"{backend} ended its answer with {word[:_WORD]!r}: it failed on the way, and what came is not the whole "
        "answer. Ask again.",
        backend=backend,
    )


def _unreadable(error: Exception, backend: str, secrets: tuple[str, ...]) -> BackendError:
    if isinstance(error, json.JSONDecodeError):
        excerpt = redacted_line(error.doc[:_LOOKED_AT], *secrets)
        what = f": {excerpt[:200]}" if excerpt else ""
    else:
        detail = str(error) if isinstance(error, OddEventError) else f"{type(error).__name__}: {error}"
        excerpt, what = "", f" ({redacted_line(detail, *secrets)[:200]})"
    broken = StreamBrokenError(
        f"{backend} sent an event that cannot be read{what}. Try again; if that persists, the server or a proxy "
        "between is at fault.",
        backend=backend,
    )
    broken.server_message = excerpt
    return broken


def _unconnected(
    error: Exception, backend: str, secrets: tuple[str, ...], *, endpoint: str, proxy: str, started: bool
) -> BackendError:
    cause = error.__cause__ or error
    why = f"{type(cause).__name__}: {redacted_line(str(cause), *secrets)}".rstrip(": ")
    if started:
        return StreamBrokenError(
            f"{backend} broke off in the middle of the answer ({why}). Ask again.", backend=backend
        )
    if proxy:
        refused = _nobody_listens(error) and is_loopback(urlsplit(proxy).hostname or "")
        return ConnectionFailedError(
            f"{backend} cannot be reached through the proxy {proxy} ({why}). Check the proxy, or leave the host out of "
            "it with NO_PROXY.",
            backend=backend,
            transient=not (refused or re.match(r"ProxyError: 4\d\d", why)),
        )
    if is_loopback(endpoint) and _nobody_listens(error):
        return nobody_listens(backend, endpoint)
    where = f" at {endpoint}" if endpoint else ""
    return ConnectionFailedError(
        f"{backend} cannot be reached{where} ({why}). Check base_url, the network and whether the server runs.",
        backend=backend,
    )


def nobody_listens(backend: str, endpoint: str) -> ConnectionFailedError:
    """Return the error for a port on this machine where nobody listens: waiting does not help."""
    return ConnectionFailedError(
        f"{backend} cannot be reached: connection refused, nothing listens at {endpoint}. Start the server, or give "
        "its address as base_url.",
        backend=backend,
        transient=False,
    )


def _nobody_listens(error: Exception) -> bool:
    """Return whether a connection was refused, not closed later or too slow; the libraries wrap it several times."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            return False
        if isinstance(cause, ConnectionRefusedError):
            return True
        if isinstance(cause, BaseExceptionGroup):  # one for each address of a name such as localhost
            return all(isinstance(each, ConnectionRefusedError) for each in cause.exceptions)
        cause = cause.__cause__ or cause.__context__
    return False


def _body(error: Exception) -> Any:
    """Return the body of an error as JSON: all of it, even if the SDK kept only part."""
    body = getattr(error, "body", None)
    try:
        whole = read_json(error.response.content)  # type: ignore[attr-defined] # as the SDKs' errors have it
    except Exception:  # noqa: BLE001 - there is none, or it was not read
        return body
    return body if whole is None else whole


def _status(error: Exception | None, body: Any) -> int | None:
    """Return the HTTP status, or the one that an error within a stream represents."""
    response = getattr(error, "response", None)
    of_aws = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    codes = (
        getattr(error, "status_code", None),
        getattr(error, "code", None),  # Google's
        value_of(of_aws, "HTTPStatusCode"),
        getattr(response, "status_code", None),  # of httpx itself
    )
    for code in codes:
        if isinstance(code, int) and 300 <= code < 600:
            return code
    detail = detail_of(body)
    for value in (word_of_error(detail, name) for name in ("type", "status", "code")):
        if value in _STATUS_OF_TYPE:
            return _STATUS_OF_TYPE[value]
        if re.fullmatch("[345][0-9][0-9]", value):
            return int(value)
    return 500 if isinstance(body, (Mapping, list, str)) else None


def _answered(
    status: int, body: Any, words: str, secrets: tuple[str, ...], backend: str, *, headers: Mapping[str, str]
) -> BackendError:
    """Choose the error for a status, and the sentence that says what to do; ``words``: the body's message."""
    message, requested_s = redacted_line(words, *secrets), requested_wait_s(body, words)
    kind, what, remedy, transient = _kind_of(status, body, words, requested_s)
    should_retry = headers.get("x-should-retry")
    for_good = kind in (AuthenticationError, ContextOverflowError) or (kind is RateLimitedError and not transient)
    if should_retry is not None and not for_good:
        transient = should_retry == "true"
    wait_s = retry_after_s(headers)
    failure = kind(
        f"{backend} {what} (status {status}): {message}. {remedy}",
        backend=backend,
        status=status,
        transient=transient,
        retry_after_s=requested_s if wait_s is None else wait_s,
        headers=headers,
    )
    failure.server_message = message
    if isinstance(failure, RequestRejectedError):
        failure.parameter = rejected_parameter(body, words)
    return failure


def _kind_of(
    status: int, body: Any, message: str, requested_s: float | None
) -> tuple[type[BackendError], str, str, bool]:
    """Return the error's class, what happened, what to do, and whether it is transient."""
    detail = detail_of(body)
    code = word_of_error(detail, "code") or word_of_error(detail, "type")
    if (
        status == 402
        or code in {"insufficient_quota", "billing_error"}
        or _has_no_credit(status, body, message, requested_s)
    ):
        return RateLimitedError, "has no credit left", "Check the plan and billing of the account.", False
    if status == 429 and _is_too_large(message):  # waiting makes no room for it
        return RateLimitedError, "takes no request of this size", "Shorten it, or raise the limit.", False
    if status == 413 or code in _OVERFLOW_CODES or _is_overflow(status, message, requested_s):
        return ContextOverflowError, "cannot hold this prompt", "Shorten it, or use a larger model.", False
    if status < 400:
        return RequestRejectedError, "points elsewhere", "Give the final address as base_url.", False
    if status == 400 and _NO_KEY.search(message):  # Google's way
        status = 401
    if status == 500 and _OF_THE_REQUEST.search(message):
        status = 400
    if status >= 500:
        return ServerFailedError, "failed", "Ask again later, or use another model.", status not in {501, 505}
    return _KINDS.get(status, _REJECTED)


def _has_no_credit(status: int, body: Any, message: str, requested_s: float | None) -> bool:
    """Return whether an account has used up what a short wait does not restore: its credit, or its daily quota."""
    if status not in {400, 403, 429}:
        return False
    if _OF_A_DAY.search(as_text(body)):  # Google asks for a wait here too, but it restores nothing
        return True
    found = _NO_CREDIT.search(message)
    return found is not None and (requested_s is None or "quota" not in found[0].lower())


def _is_overflow(status: int, message: str, requested_s: float | None) -> bool:
    """Return whether the prompt is too long for the model, whatever the status is."""
    if status not in _OVERFLOWS or (status == 429 and (requested_s is not None or _OF_A_RATE.search(message))):
        return False
    return bool(_OVERFLOW.search(message))


def _is_too_large(message: str) -> bool:
    """Return whether a single request is larger than its limit."""
    limit, requested = _LIMIT.search(message), _REQUESTED.search(message)
    if limit and requested:
        return int(re.sub("[,_]", "", requested[1])) > int(re.sub("[,_]", "", limit[1]))
    return bool(_TOO_LARGE.search(message))


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
    407: (ConnectionFailedError, "is behind a proxy", "Put its user and password into the proxy's address.", False),
    429: (RateLimitedError, "limits the rate", "Wait, send less at once, or raise the limit.", True),
}


_UNWANTED = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|deprecated|"
    r"cannot (both )?be (used|specified)|extra (inputs|fields)|no longer|use '?max_",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(max_completion_tokens|max_tokens|temperature|top_p|stop_sequences|reasoning_effort|effort|stream_options|"
    r"prompt_cache_key|prediction|top_logprobs|logprobs|guided_json|"
    r"response_format)\b|[`'\"](stop|seed|n)[`'\"]|^(stop|seed|n):|\bparam(?:eter)?: (stop|seed|n)\b"
)
_WITH_OTHERS = re.compile(r"\bwith (tools|tool calls|stream)", re.IGNORECASE)  # unsupported only together with these


def rejected_parameter(body: Any, message: str) -> str | None:
    """Return the parameter that a 400 or 422 rejects as such; ``None`` if it rejects a value."""
    detail = detail_of(body)
    where = detail.get("loc")
    if "extra" in word_of_error(detail, "type") and isinstance(where, list) and where:  # FastAPI: ["body", name]
        return str(where[-1]) or None
    unwanted = word_of_error(detail, "code") in {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
    if not unwanted and (not _UNWANTED.search(message) or _WITH_OTHERS.search(message)):
        return None
    if isinstance(detail.get("param"), str):
        return str(detail["param"])
    found = _NAMED.search(message)
    return next(filter(None, found.groups()), None) if found else None
