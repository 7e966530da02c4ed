"""Every error that callers can see: each names the thing, its value and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class StrettoError(Exception):
    """The base class of all errors raised by Stretto."""


class InvalidRequestError(StrettoError, ValueError):
    """The request itself is wrong (empty prompt, unknown role, impossible option)."""


class UnknownModelError(StrettoError, ValueError):
    """A model name that no backend serves."""


class UnknownStrategyError(StrettoError, ValueError):
    """A strategy name that does not exist."""


class UnknownPromptError(StrettoError, ValueError):
    """A prompt template that is not in the catalogue, or one that cannot be filled in."""


class DocumentError(InvalidRequestError):
    """A document that cannot be read."""


class SettingsError(StrettoError, ValueError):
    """An invalid setting from the arguments, the environment or the settings file."""


class MissingDependencyError(StrettoError, ImportError):
    """A package of an optional extra is not installed; ``name`` is that package."""


def missing(what: str, package: str, extra: str, more: str = "") -> MissingDependencyError:
    """Return the error for a missing package, from what needs it, the package, and the extra that installs it."""
    return MissingDependencyError(
        f"{what} needs {package}, which is not installed. Run: pip install 'stretto[{extra}]'{more}",
        name=package,
    )


class DeadlineExceededError(StrettoError, TimeoutError):
    """The deadline passed before any text of the answer arrived."""


class BudgetExceededError(StrettoError):
    """The budget does not allow a call that the answer needs, or every strategy is forecast to exceed it."""


class IncompleteAnswerError(StrettoError):
    """Parts of the answer are missing, and the request has ``on_missing="raise"``.

    Attributes:
        answer: the partial answer (`stretto.Answer`), with a warning for each missing part.
    """

    def __init__(self, message: str, *, answer: Any = None) -> None:
        super().__init__(message)
        self.answer = answer  # an Answer, which this module does not import


class BackendError(StrettoError):
    """A backend could not generate.

    Attributes:
        backend: the model name, ``provider:model``.
        status: the HTTP status, if any.
        transient: whether the same call can succeed later; only such errors are retried.
        retry_after_s: how long the server asked to wait, in seconds.
        headers: response headers (rate limits, request id); never the request's.
        server_message: the server's error message, redacted and truncated; empty if there was none.
        usage: the usage of the failed call, retries included (`stretto.Usage`); ``None`` if unknown.
        attempts: how often the call was sent; 0 if the backend cannot send calls in this process.
        remarks: sentences that follow the message and the number of attempts, such as why it was not retried.
    """

    transient = False
    server_message = ""
    attempts = 1
    remarks: tuple[str, ...] = ()
    usage: Any = None  # a Usage, which this module does not import

    def __init__(
        self,
        message: str,
        *,
        backend: str = "",
        status: int | None = None,
        transient: bool | None = None,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.backend = backend
        self.status = status
        if transient is not None:
            self.transient = transient
        self.retry_after_s = retry_after_s
        self.headers: Mapping[str, str] = headers or {}

    def __str__(self) -> str:
        tried = (f"Tried {self.attempts} times.",) if self.attempts > 1 else ()
        return " ".join((super().__str__(), *tried, *self.remarks))

    def remark(self, sentence: str) -> None:
        """Add a sentence to the error message."""
        self.remarks = (*self.remarks, sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args[0], self.__dict__)


def _rebuild(kind: type[BackendError], message: str, state: dict[str, Any]) -> BackendError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class AuthenticationError(BackendError):
    """The key is missing, wrong or not allowed to use this model (401, 403)."""


class ModelNotFoundError(BackendError):
    """The endpoint does not serve this model (404)."""


class RequestRejectedError(BackendError):
    """The endpoint rejected the call as invalid (400, 422).

    Attributes:
        parameter: the option that the endpoint does not accept, if it named one.
    """

    parameter: str | None = None


class ContextOverflowError(RequestRejectedError):
    """The prompt does not fit the model's context window."""


class RateLimitedError(BackendError):
    """Too many requests or tokens (429)."""

    transient = True


class ServerFailedError(BackendError):
    """The endpoint failed or is overloaded (5xx, 529)."""

    transient = True


class ConnectionFailedError(BackendError):
    """The endpoint could not be reached, or closed the connection before it answered.

    Not ``transient`` if nothing listens on a port of this machine.
    """

    transient = True


class StreamBrokenError(BackendError):
    """The stream ended or became unreadable before its end."""

    transient = True


class StalledError(BackendError):
    """Nothing arrived within ``first_text_s`` (before the first text) or ``stall_s`` (after it).

    A late first text is not ``transient``: a slow server would have to start over.
    """

    transient = True


class BreakerOpenError(BackendError):
    """The endpoint failed too often in a row; the circuit breaker rejects calls until it has cooled down."""


class AllModelsFailedError(BackendError):
    """The model and all fallbacks failed. The message names each with its error.

    Attributes:
        errors: the error of each model that was asked, in that order.
    """

    errors: tuple[BackendError, ...] = ()
