"""The way in: `AsyncStretto`, and `Stretto`, the synchronous face of the same."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from stretto.answer import Answer
from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError, StrettoError
from stretto.events import AnswerFinished, Event, TextDelta
from stretto.prompts import Catalogue
from stretto.queue import Queue
from stretto.request import Message, Request
from stretto.route import Route
from stretto.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stretto.backends.resilient import Endpoints
    from stretto.router import Router

Prompting = str | Message | Request | Sequence[Message | Mapping[str, Any] | str]
T = TypeVar("T")

EVENTS_AHEAD = 1024  # events a slow reader may fall behind before the branches wait for it


class AnswerStream(AsyncIterator[Event]):
    """The events of one answer. After the last one, `answer` holds it."""

    def __init__(self, events: Queue[Event], failure: list[Exception]) -> None:
        self._events = events
        self._failure = failure
        self._answer: Answer | None = None

    async def __anext__(self) -> Event:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            if self._failure:
                raise self._failure[0] from None
            raise
        if isinstance(event, AnswerFinished):
            self._answer = event.answer
        return event

    async def text(self) -> AsyncIterator[str]:
        """Only the merged text, piece by piece."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def rest(self) -> Answer:
        """Read to the end and return the answer."""
        async for _ in self:
            pass
        return self.answer

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream was read to its end."""
        if self._answer is None:
            raise StrettoError("The answer is not complete. Read the stream to its end first, or call rest().")
        return self._answer


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
        self.backends: dict[str, Backend] = {
            role: self._open(given, base_url, api_key)
            if role == "main" or _provider(given) == _provider(chosen)
            else self._open(given)
            for role, given in named.items()
        }
        self._router = router
        self.prompts = prompts if isinstance(prompts, Catalogue) else Catalogue(prompts or self.settings.prompts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all backends."""
        with anyio.CancelScope(shield=True):
            for backend in self.backends.values():
                await backend.aclose()

    async def ask(self, prompt: Prompting, **request: Any) -> Answer:
        """The whole answer. Arguments as in `Request.of`; raises `StrettoError`."""
        async with self.stream(prompt, **request) as events:
            return await events.rest()

    async def route(self, prompt: Prompting, **request: Any) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        return await self._decide(self._request(prompt, request))

    @asynccontextmanager
    async def stream(self, prompt: Prompting, **request: Any) -> AsyncIterator[AnswerStream]:
        """The events of one answer while it is being generated. Leaving the context cancels the rest."""
        began = time.perf_counter()
        asked = self._request(prompt, request)
        events = Queue[Event](EVENTS_AHEAD)
        failure: list[Exception] = []
        raised: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._produce, asked, events, failure, began)
            try:
                yield AnswerStream(events, failure)
            except Exception as error:  # noqa: BLE001 - raised again below, outside the task group that would wrap it
                raised = error
            finally:
                if not events.ended:  # where all is done, cancelling would only put its reason together
                    events.end()
                    tasks.cancel_scope.cancel()
        if raised is not None:
            raise raised

    async def _produce(self, request: Request, events: Queue[Event], failure: list[Exception], began: float) -> None:
        from stretto.strategies.answering import answer  # noqa: PLC0415 - keeps `import stretto` light

        try:
            route = await self._decide(request)
            await answer(request, route, self.backends[route.role], events.put, prompts=self.prompts, began=began)
        except Exception as error:  # noqa: BLE001 - handed to the reader of the stream
            failure.append(error)
        finally:
            events.end()

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
        return as_backend(given, base_url=base_url, api_key=api_key, resilience=resilience, endpoints=self._endpoints)

    def _request(self, prompt: Prompting, arguments: dict[str, Any]) -> Request:
        from stretto.strategies.answering import check_strategy  # noqa: PLC0415 - keeps `import stretto` light

        usual = {
            "preference": self.settings.preference,
            "deadline_s": self.settings.deadline_s,
            "on_missing": self.settings.on_missing,
        }
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

    Takes the same arguments. Its event loop lives in a thread of its own, from the first call to `close`.
    """

    def __init__(self, model: str | Backend | BaseChatModel | None = None, **arguments: Any) -> None:
        self._stretto = AsyncStretto(model, **arguments)
        self._opened = ExitStack()
        self._portal: BlockingPortal | None = None
        self._closed = False
        self._finalizer = weakref.finalize(self, self._opened.close)

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
        """Close all backends and end the thread. Idempotent."""
        self._closed = True
        self._opened.close()

    def ask(self, prompt: Prompting, **request: Any) -> Answer:
        """The whole answer. Arguments as in `Request.of`; raises `StrettoError`."""
        return self._call(partial(self._stretto.ask, prompt, **request))

    def route(self, prompt: Prompting, **request: Any) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        return self._call(partial(self._stretto.route, prompt, **request))

    @contextmanager
    def stream(self, prompt: Prompting, **request: Any) -> Iterator[Iterator[Event]]:
        """The events of one answer while it is being generated. Leaving the context cancels the rest."""
        portal = self._running()
        with portal.wrap_async_context_manager(self._stretto.stream(prompt, **request)) as events:

            def each() -> Iterator[Event]:
                while (event := portal.call(_next, events)) is not None:
                    yield event

            yield each()

    def _call(self, run: Callable[[], Awaitable[T]]) -> T:
        future = self._running().start_task_soon(run)
        try:
            return future.result()
        except BaseException:  # Ctrl-C reaches this thread only: nothing may go on in the other
            future.cancel()
            raise

    def _running(self) -> BlockingPortal:
        if self._closed:
            raise StrettoError("This Stretto is closed. Make a new one.")
        if self._portal is None:
            portal = self._opened.enter_context(start_blocking_portal(name="stretto"))
            # On closing, a stream that its reader left open must not be waited for.
            self._opened.callback(portal.call, portal.stop, True)
            self._opened.enter_context(portal.wrap_async_context_manager(self._stretto))
            self._portal = portal
        return self._portal


def _provider(given: str | Backend | BaseChatModel) -> str | None:
    return given.partition(":")[0] if isinstance(given, str) else None


async def _next(events: AnswerStream) -> Event | None:
    return await anext(events, None)


__all__ = ["AnswerStream", "AsyncStretto", "Stretto"]
