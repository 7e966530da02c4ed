"""Fallbacks: which model continues after a failure, how that is reported, and the error if none can.

The next model is asked once a backend's retries are used up (`stretto.backends.resilience.retry`), or at once if its
breaker is open. The state shared by the models of an answer is here; `attempts` asks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from stretto.backends.base import Backend, ModelRequest
from stretto.strategies.runtime.branch import BranchWriter, RunningBranch
from stretto.strategies.runtime.shortfall import called, named
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import (
    AllModelsFailedError,
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    ConnectionFailedError,
    ContextOverflowError,
    InvalidRequestError,
    ModelNotFoundError,
    RateLimitedError,
    RequestRejectedError,
    StalledError,
    StrettoError,
)
from stretto.values.request import Request

_HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # another prompt cannot help
_AWAY = (*_HOPELESS, ConnectionFailedError)  # fails every call of the answer


@dataclass(eq=False)
class Failed:
    """A model that failed a branch; ``late``: it was too slow, and wrote nothing."""

    backend: Backend
    error: StrettoError
    late: bool = False


@dataclass(eq=False)
class _TakenOver:
    running: RunningBranch
    writing: BranchWriter
    failed: tuple[Failed, ...]
    kept: bool


class Fallback:
    """The fallback models of one answer.

    Branches that begin later skip a model that cannot be reached or denies access.

    Args:
        models: in order.
        unfit: models that are not asked, each with a sentence saying why.
    """

    def __init__(self, models: Sequence[Backend] = (), unfit: Mapping[str, str] | None = None) -> None:
        self.models = tuple(models)
        self._unfit = dict(unfit or {})
        self._away: list[Failed] = []
        self._taken_over: list[_TakenOver] = []

    @classmethod
    def of(cls, models: Sequence[Backend], request: Request) -> Fallback:
        """Build it from the models that can do what the request needs."""
        fit: list[Backend] = []
        unfit: dict[str, str] = {}
        for each in models:
            try:
                check_needs(request, each)
                fit.append(each)
            except InvalidRequestError as error:
                unfit[each.name] = str(error)
        return cls(fit, unfit)

    def chain(self, first: Backend, successors: Sequence[Backend] | None = None) -> FallbackChain:
        """Return the chain of models to try for a branch; ``successors`` replace the fallbacks of the answer."""
        others = [each for each in (self.models if successors is None else successors) if each is not first]
        return FallbackChain((first, *others), self._away, self._unfit if others or successors is None else {})

    def took_over(self, running: RunningBranch, failed: Sequence[Failed], *, kept: bool) -> None:
        """Note that the last writer of a branch took over, continuing another's text if ``kept``."""
        self._taken_over.append(_TakenOver(running, running.writers[-1], tuple(failed), kept))

    def warnings(self) -> Iterator[AnswerWarning]:
        """Yield a warning for each pair of models of which one took over from the other, with the parts it wrote."""
        groups: dict[tuple[str, str, bool], list[_TakenOver]] = {}
        for each in self._taken_over:
            if each.running.wrote(each.writing) and not each.running.unused:
                failed = " and ".join(before.backend.name for before in each.failed)
                groups.setdefault((failed, each.writing.backend.name, each.kept), []).append(each)
        for (failed, model, kept), parts in groups.items():
            names = list(dict.fromkeys(called(each.running) for each in parts))
            how = f"continued by {model}, where {failed} broke off" if kept else f"written by {model} for {failed}"
            why = " ".join(str(before.error) for before in parts[0].failed)
            text = f"{named(names)} {'was' if len(names) == 1 else 'were'} {how}: {why}"
            yield AnswerWarning(text, "fallback", parts[0].running.spec.id if len(parts) == 1 else None)


class FallbackChain:
    """The models of one branch, and how those before the current one have failed."""

    def __init__(self, models: Sequence[Backend], away: list[Failed], unfit: Mapping[str, str]) -> None:
        self.failures: list[Failed] = []  # the models that have failed, in order, each with its last error
        self._left = list(models)
        self._away = away
        self._unfit = unfit
        self._tried: list[Backend] = []

    def first(self) -> Backend:
        reached = [each for each in self._left if self._known_away(each) is None]
        if not reached:  # then the rest are no better
            return self._take(self._left[0])
        while (passed := self._known_away(self._left[0])) is not None:
            self._left.pop(0)
            self.failures.append(passed)
        return self._take(self._left[0])

    @property
    def error(self) -> StrettoError:
        by_models = [each.error for each in self.failures if isinstance(each.error, BackendError)]
        skipped = [f"{name} was not asked: {why}" for name, why in self._unfit.items()]
        if len(self.failures) == 1 or len(by_models) < len(self.failures):
            error = self.failures[-1].error
            if isinstance(error, BackendError):
                for sentence in skipped:
                    error.remark(sentence)
            return error
        causes = (_with_name(each) for each in self.failures)
        first = by_models[0]
        failure = AllModelsFailedError(
            " ".join(("Every model failed.", *causes, *skipped)),
            backend=first.backend,
            status=first.status,
            transient=any(each.transient for each in by_models),
        )
        failure.errors = tuple(by_models)
        return failure

    @property
    def has_another(self) -> bool:
        return any(self._known_away(each) is None for each in self._left)

    def failed(self, backend: Backend, error: StrettoError, *, wrote: bool) -> None:
        """Note the error of a model's call; an error from before a breaker opened says more than the breaker's."""
        late = isinstance(error, StalledError) and not error.transient and not wrote
        before = next((each for each in self.failures if each.backend is backend), None)
        if before is None:
            self.failures.append(Failed(backend, error, late))
        elif not isinstance(error, BreakerOpenError):
            before.error, before.late = _after(before.error, error), late
        if isinstance(error, _AWAY) and self._known_away(backend) is None:
            self._away.append(Failed(backend, error))

    def next(self, backend: Backend, error: BackendError) -> Backend | None:
        """Return the model to continue with after this error; ``None``: no other would do better.

        A request that was rejected as invalid is the caller's mistake, and goes to no other model. One that is too long
        goes to models with a larger window; one with an option that this model does not accept, to the next.
        """
        too_long = isinstance(error, ContextOverflowError)
        if isinstance(error, RequestRejectedError) and not too_long and error.parameter is None:
            return None
        while self._left:
            other = self._left[0]
            if (passed := self._known_away(other)) is not None:
                self._left.pop(0)
                self.failures.append(passed)
            elif too_long and not _is_larger(other, backend):
                self._left.pop(0)
                error.remark(f"{other.name} was not asked: its context window is no larger.")
            else:
                return self._take(other)
        return None

    def once_more(self) -> Backend | None:
        """Return the model to ask once more with another prompt: the last that can answer; ``None``: none can."""
        vain = _HOPELESS if len(self._tried) == 1 else _AWAY
        for backend in reversed(self._tried):
            found = next(each for each in self.failures if each.backend is backend)
            exhausted = isinstance(found.error, RateLimitedError) and not found.error.transient
            unsent = isinstance(found.error, BackendError) and not found.error.attempts
            if not (found.late or exhausted or unsent or isinstance(found.error, vain)):
                return backend
        return None

    def _take(self, backend: Backend) -> Backend:
        self._left = [each for each in self._left if each is not backend]
        self._tried.append(backend)
        return backend

    def _known_away(self, backend: Backend) -> Failed | None:
        return next((each for each in self._away if each.backend is backend), None)


def _is_larger(other: Backend, failed: Backend) -> bool:
    """Return whether a model can read more than the one that failed."""
    had, has = failed.capabilities.context_window, other.capabilities.context_window
    return had is None or has is None or has > had


def _after(before: StrettoError, error: StrettoError) -> StrettoError:
    """Return the later of two errors of one model, with the attempts of both."""
    if error is before or not (isinstance(error, BackendError) and isinstance(before, BackendError)):
        return error
    merged = copy(error)  # a backend can raise one error for multiple calls
    merged.attempts += before.attempts
    return merged


def _with_name(failed: Failed) -> str:
    message, name = str(failed.error), failed.backend.name
    return message if name in message else f"{name}: {message}"


def alone(prompt: ModelRequest) -> ModelRequest:
    """Return a prompt without the turns before the question, for a model that does not read them."""
    question_at = max((at for at, each in enumerate(prompt.messages) if each.role == "user"), default=0)
    system = (each for each in prompt.messages[:question_at] if each.role == "system")
    return replace(prompt, messages=(*system, *prompt.messages[question_at:]))


def check_needs(request: Request, backend: Backend) -> None:
    """Raise `InvalidRequestError` for anything the backend cannot do, with the remedy."""
    able = backend.capabilities
    if request.options.logprobs is not None and not able.logprobs:
        raise InvalidRequestError(
            f"logprobs={request.options.logprobs} cannot be had from {backend.name}: it reports no log-probabilities. "
            "Leave it out, or use a local: model or one of openai: that does not reason."
        )
    if isinstance(request.options.response_format, str) and not able.regex:
        raise InvalidRequestError(
            f"response_format is a regular expression, and {backend.name} cannot hold an answer to one. "
            "Give a JSON schema or a pydantic model, leave it out, or use a local: model."
        )
    calls = any(message.role == "tool" or message.tool_calls for message in request.messages)
    if (request.tools or calls) and not able.tools:
        what = "tools= cannot be used" if request.tools else "The tool calls in the conversation cannot be read"
        raise InvalidRequestError(
            f"{what}: {backend.name} takes no tools. Leave them out, or use another model: those of "
            "providers take them, and local: ones whose chat template does."
        )
    media = [kind for message in request.messages for kind in message.media]
    refused = [kind for kind in media if not able.media or kind in able.refused_media]
    if refused:
        reads = "does not take it" if able.media else "reads text only"
        raise InvalidRequestError(
            f"The conversation holds a part of the type {refused[0]!r}, and {backend.name} {reads}. Leave it "
            "out, describe it in words, or use another model."
        )
