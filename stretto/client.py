"""The way in: `AsyncStretto`, and `Stretto`, the synchronous face of the same."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio

from stretto.answer import Answer
from stretto.backends.base import Backend
from stretto.background import BackgroundLoop
from stretto.errors import InvalidRequestError, StrettoError
from stretto.fork import Fork
from stretto.imports import import_all, made_ready
from stretto.prompts import Catalogue
from stretto.request import Message, Request
from stretto.route import Route
from stretto.settings import Settings
from stretto.streams import AnswerStream, StreamContext, SyncAnswerStream
from stretto.writing import Emit, Writing

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stretto.backends.resilient import Endpoints
    from stretto.router import Router

Prompting = str | Message | Request | Sequence[Message | Mapping[str, Any] | str]
T = TypeVar("T")

FORKED = (
    "This client was made before a fork, and its threads and connections stayed in the parent process. "
    "Make a new one in the child."
)


class AsyncStretto:
    """Answers questions, each in the way that suits it, on the backends it is given.

    ``model`` is a model name (``openai:gpt-5.4-mini``, ``anthropic:...``, ``local:folder``,
    ``local:pocket``), a backend, or a LangChain chat model. With nothing given: the keys in the
    environment decide, else the pocket model; `chosen_because` says which and why. Further
    backends go by role: ``AsyncStretto("openai:...", local="local:...", small="openai:...")``;
    ``base_url`` and ``api_key`` hold for all names of the main model's provider, and those on one
    server share its breaker.

    Making a client connects to nothing and loads nothing. Close it, or use it as a context.
    """

    def __init__(
        self,
        model: str | Backend | BaseChatModel | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: Settings | None = None,
        router: Router | None = None,
        prompts: Catalogue | Path | str | None = None,
        **roles: str | Backend | BaseChatModel,
    ) -> None:
        self.settings = settings or Settings.load()
        chosen = model if model is not None else self.settings.model
        self.chosen_because = ""
        if chosen is None:
            from stretto.backends.registry import default_model  # noqa: PLC0415 - keeps `import stretto` light

            chosen, self.chosen_because = default_model(os.environ)
            if self.settings.base_url is not None and not chosen.startswith("openai:"):
                self.chosen_because += " The setting base_url is not used: name a model of that server, openai:NAME."
        if isinstance(chosen, str) and chosen.startswith("openai:"):  # what those two settings are for
            base_url = base_url or self.settings.base_url
            if api_key is None and base_url is not None and self.settings.api_key is not None:
                api_key = self.settings.api_key.get_secret_value()
        named = {"main": chosen, **roles}
        self._endpoints: Endpoints | None = None
        self._owned: list[Backend] = []
        self._writings: set[Writing] = set()
        self._fork = Fork()
        self.backends: dict[str, Backend] = {
            role: self._open(given, base_url, api_key)
            if role == "main" or _provider(given) == _provider(chosen)
            else self._open(given)
            for role, given in named.items()
        }
        self._router = router
        self.prompts = prompts if isinstance(prompts, Catalogue) else Catalogue(prompts or self.settings.prompts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_named(self.backends)})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the answers under way, and close the backends that were opened here.

        A backend that was passed in stays open: it belongs to the caller. Waits for a model that is being loaded.
        """
        if self._fork.happened():
            return
        closed = StrettoError("This client was closed while it was answering.")
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as closing:  # one that fails does not keep the others open
                for backend in reversed(self._owned):
                    closing.push_async_callback(backend.aclose)
                for writing in tuple(self._writings):
                    await writing.aclose(closed)

    async def ask(self, prompt: Prompting, **request: Any) -> Answer:
        """The whole answer. Arguments as in `Request.of`; raises `StrettoError`."""
        async with self.stream(prompt, **request) as events:
            return await events.rest()

    async def route(self, prompt: Prompting, **request: Any) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        await made_ready()
        self._check_process()
        return await self._decide(self._request(prompt, request))

    def stream(self, prompt: Prompting, **request: Any) -> AbstractAsyncContextManager[AnswerStream]:
        """The events of one answer while it is being generated. Leaving the context cancels the rest."""
        return StreamContext(partial(self._begin, prompt, request))

    async def _begin(self, prompt: Prompting, arguments: dict[str, Any]) -> Writing:
        began = time.perf_counter()
        await made_ready()
        writing = self._writing(self._request(prompt, arguments), began)
        await writing.start(self._writings)
        return writing

    def _writing(self, request: Request, began: float) -> Writing:
        """What will write the answer once it is started. Raises `StrettoError` after a fork."""
        self._check_process()
        return Writing(partial(self._produce, request, began))

    async def _produce(self, request: Request, began: float, emit: Emit) -> None:
        from stretto.strategies.answering import answer  # noqa: PLC0415 - keeps `import stretto` light

        route = await self._decide(request)
        await answer(request, route, self.backends[route.role], emit, prompts=self.prompts, began=began)

    def _check_process(self) -> None:
        if self._fork.happened():
            raise StrettoError(FORKED)

    def _open(
        self, given: str | Backend | BaseChatModel, base_url: str | None = None, api_key: str | None = None
    ) -> Backend:
        """A backend for a name or a LangChain model; a backend is used as it is."""
        if isinstance(given, Backend):
            return given
        from stretto.backends.registry import as_backend  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.backends.resilient import Endpoints, Resilience  # noqa: PLC0415 - likewise

        self._endpoints = self._endpoints or Endpoints()
        resilience = Resilience(
            attempts=self.settings.retries + 1,
            max_in_flight=self.settings.concurrency,
            stall_s=self.settings.stall_s,
            first_text_s=self.settings.first_text_s,
            hedge=self.settings.hedge,
        )
        backend = as_backend(
            given,
            base_url=base_url,
            api_key=api_key,
            resilience=resilience,
            endpoints=self._endpoints,
            local=self.settings.local,
        )
        self._owned.append(backend)
        return backend

    def _request(self, prompt: Prompting, arguments: dict[str, Any]) -> Request:
        from stretto.strategies.answering import check_strategy  # noqa: PLC0415 - keeps `import stretto` light

        usual = {"preference": self.settings.preference, "deadline_s": self.settings.deadline_s}
        if isinstance(prompt, Request):
            usual = {}
        try:
            request = Request.of(prompt, **(usual | arguments))
        except TypeError as error:
            raise InvalidRequestError(
                f"The request cannot be made: {error}. See Request.of for its arguments."
            ) from None
        check_strategy(request.strategy)
        return request

    async def _decide(self, request: Request) -> Route:
        if self._router is None:
            from stretto.router import Router, SecondOpinion  # noqa: PLC0415 - keeps `import stretto` light

            self._router = Router(second_opinion=SecondOpinion() if self.settings.second_opinion else None)
        return await self._router.route(request, self.backends)


class Stretto:
    """`AsyncStretto` for code that is not asynchronous; works in notebooks and inside a running loop.

    Takes the same arguments. Its event loop runs in a separate thread, from the first call to `close`.
    """

    def __init__(self, model: str | Backend | BaseChatModel | None = None, **arguments: Any) -> None:
        self._stretto = AsyncStretto(model, **arguments)
        self._loop = BackgroundLoop(self._stretto.aclose, FORKED)
        self._finalizer = weakref.finalize(self, self._loop.close)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_named(self.backends)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def backends(self) -> Mapping[str, Backend]:
        """The backends by role."""
        return self._stretto.backends

    @property
    def chosen_because(self) -> str:
        """Why this model, where none was named."""
        return self._stretto.chosen_because

    def close(self) -> None:
        """End the answers under way, close the backends that were opened here, and end the thread. Idempotent."""
        self._loop.close()

    def ask(self, prompt: Prompting, **request: Any) -> Answer:
        """The whole answer. Arguments as in `Request.of`; raises `StrettoError`."""
        return self._call(partial(self._stretto.ask, prompt, **request))

    def route(self, prompt: Prompting, **request: Any) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        return self._call(partial(self._stretto.route, prompt, **request))

    @contextmanager
    def stream(self, prompt: Prompting, **request: Any) -> Iterator[SyncAnswerStream]:
        """The events of one answer while it is being generated. Leaving the context cancels the rest."""
        began = time.perf_counter()
        writing = self._stretto._writing(self._stretto._request(prompt, request), began)
        try:
            self._call(partial(writing.start, self._stretto._writings))
            yield SyncAnswerStream(AnswerStream(writing), self._loop)
        finally:
            self._leave(writing)

    def _call(self, run: Callable[[], Awaitable[T]]) -> T:
        import_all()  # in this thread, which waits anyway
        return self._loop.call(run)

    def _leave(self, writing: Writing) -> None:
        """Tell the loop that the reader has left; whatever the reader raised stays in this thread."""
        if self._loop.is_here:  # the garbage collector found an abandoned stream; this thread cannot wait for itself
            writing.stop()
        else:
            with suppress(StrettoError):  # closed, which has ended the answer
                self._loop.call(writing.aclose)


def _provider(given: str | Backend | BaseChatModel) -> str | None:
    return given.partition(":")[0] if isinstance(given, str) else None


def _named(backends: Mapping[str, Backend]) -> str:
    return ", ".join(f"{role}={backend.name!r}" for role, backend in backends.items())


__all__ = ["AnswerStream", "AsyncStretto", "Stretto", "SyncAnswerStream"]
