"""The way in: `AsyncStretto`, and `Stretto`, the synchronous face of the same."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from stretto.answer import Answer
from stretto.arguments import shown, spelled_out, unknown_names
from stretto.backends.base import Backend
from stretto.errors import SettingsError, StrettoError
from stretto.events import AnswerFinished, Event, TextDelta
from stretto.hooks import Hooks, Watchers
from stretto.prompts import Catalogue
from stretto.queue import Queue
from stretto.request import Prompting, Request, RequestOptions
from stretto.route import Route
from stretto.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stretto.backends.resilient import Endpoints
    from stretto.router import Router
    from stretto.strategies.base import Strategy

    Model = str | Backend | BaseChatModel

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


class ClientOptions(TypedDict, total=False):
    """The keyword arguments of `AsyncStretto` and `Stretto`. All may be left out, and ``None`` counts as left out.

    Attributes:
        base_url: address of a server that speaks OpenAI's or Anthropic's protocol.
        api_key: the key for it. Both hold for all names of the main model's provider.
        small: a smaller, quicker model, for second opinions and for ``preference="fastest"``.
        local: a model in this process, for ``preference="fastest"``.
        roles: further models by role; the router that comes with the library uses "small" and "local".
        strategies: strategies beside those of the library; the router weighs what they offer.
        hooks: functions to call while answering, for metrics and logs.
        settings: what applies to all requests; without it, the environment and the settings file are read.
        router: what decides how a request is generated.
        prompts: a catalogue of templates, or a folder whose templates replace those of the library.
    """

    base_url: str | None
    api_key: str | None
    small: Model | None
    local: Model | None
    roles: Mapping[str, Model] | None
    strategies: Sequence[Strategy] | None
    hooks: Hooks | None
    settings: Settings | None
    router: Router | None
    prompts: Catalogue | Path | str | None


class AsyncStretto:
    """Answers questions, each in the way that suits it, on the backends it is given.

    ``model`` is a model name (``openai:gpt-5.4-mini``, ``anthropic:...``, ``local:folder``,
    ``local:pocket``), a backend, or a LangChain chat model. With nothing given: the keys in the
    environment decide, else the pocket model; `chosen_because` says which and why. Further
    models go by role: ``AsyncStretto("openai:...", small="openai:...", local="local:...")``;
    those on one server share its breaker. `ClientOptions` says what the other arguments mean.

    Making a client connects to nothing and loads nothing. Close it, or use it as a context.
    Raises `SettingsError`, `UnknownModelError`.
    """

    @spelled_out(ClientOptions)
    def __init__(self, model: Model | None = None, **options: Unpack[ClientOptions]) -> None:
        self.backends: dict[str, Backend] = {}
        if wrong := unknown_names(options, ("model", *ClientOptions.__annotations__), "A client"):
            raise SettingsError(f"{wrong} Further models go into roles=.")
        base_url, api_key, prompts = options.get("base_url"), options.get("api_key"), options.get("prompts")
        self.settings = options.get("settings") or Settings.load()
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
        self._endpoints: Endpoints | None = None
        self.backends["main"] = self._open(chosen, "model", base_url, api_key)
        for role, (argument, given) in _by_role(options).items():
            same = _provider(given) == _provider(chosen)
            self.backends[role] = self._open(given, argument, *((base_url, api_key) if same else ()))
        self._router = options.get("router")
        self._own_strategies = _checked(options.get("strategies") or ())
        hooks = options.get("hooks")
        if hooks is not None and not isinstance(hooks, Hooks):
            raise SettingsError(f"hooks= takes Hooks(...), not a value of type {type(hooks).__name__}.")
        self._watchers = Watchers(hooks)
        self.prompts = prompts if isinstance(prompts, Catalogue) else Catalogue(prompts or self.settings.prompts)

    def __repr__(self) -> str:
        return f"<AsyncStretto {_named(self.backends)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all backends."""
        with anyio.CancelScope(shield=True):
            for backend in self.backends.values():
                await backend.aclose()

    @spelled_out(RequestOptions)
    async def ask(self, prompt: Prompting | Request, **request: Unpack[RequestOptions]) -> Answer:
        """The whole answer. `RequestOptions` says what the arguments mean. Raises `StrettoError`."""
        async with self.stream(prompt, **request) as events:
            return await events.rest()

    @spelled_out(RequestOptions)
    async def route(self, prompt: Prompting | Request, **request: Unpack[RequestOptions]) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        return await self._decide(self._request(prompt, request))

    @spelled_out(RequestOptions)
    @asynccontextmanager
    async def stream(
        self, prompt: Prompting | Request, **request: Unpack[RequestOptions]
    ) -> AsyncIterator[AnswerStream]:
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
            await answer(
                request,
                route,
                self.backends[route.role],
                events.put,
                prompts=self.prompts,
                began=began,
                strategies=self._strategies(),
                watchers=self._watchers,
            )
        except Exception as error:  # noqa: BLE001 - handed to the reader of the stream
            failure.append(error)
        finally:
            events.end()

    def _open(self, given: Model, argument: str, base_url: str | None = None, api_key: str | None = None) -> Backend:
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
        return as_backend(
            given,
            base_url=base_url,
            api_key=api_key,
            resilience=resilience,
            endpoints=self._endpoints,
            argument=argument,
        )

    def _request(self, prompt: Prompting | Request, options: RequestOptions) -> Request:
        from stretto.strategies.answering import check_strategy  # noqa: PLC0415 - keeps `import stretto` light

        if not isinstance(prompt, Request):
            options = options.copy()
            if options.get("preference") is None:
                options["preference"] = self.settings.preference
            if options.get("deadline_s") is None:
                options["deadline_s"] = self.settings.deadline_s
        request = Request.of(prompt, **options)
        if request.own_strategy is None:
            check_strategy(request.strategy, self._strategies())
        return request

    def _strategies(self) -> Mapping[str, Strategy]:
        """All strategies by name: those of the library, then those of this client."""
        from stretto.strategies import STRATEGIES  # noqa: PLC0415 - keeps `import stretto` light

        return STRATEGIES | {strategy.name: strategy for strategy in self._own_strategies}

    async def _decide(self, request: Request) -> Route:
        if self._router is None:
            from stretto.router import Router, SecondOpinion  # noqa: PLC0415 - keeps `import stretto` light

            self._router = Router(second_opinion=SecondOpinion() if self.settings.second_opinion else None)
        route = await self._router.route(request, self.backends, self._strategies())
        self._watchers.route_chosen(route)
        return route


class Stretto:
    """`AsyncStretto` for code that is not asynchronous; works in notebooks and inside a running loop.

    Takes the same arguments. Its event loop lives in another thread, from the first call to `close`.
    """

    @spelled_out(ClientOptions)
    def __init__(self, model: Model | None = None, **options: Unpack[ClientOptions]) -> None:
        self._stretto = AsyncStretto(model, **options)
        self._opened = ExitStack()
        self._portal: BlockingPortal | None = None
        self._closed = False
        self._finalizer = weakref.finalize(self, self._opened.close)

    def __repr__(self) -> str:
        return f"<Stretto {_named(self._stretto.backends)}>"

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

    @spelled_out(RequestOptions)
    def ask(self, prompt: Prompting | Request, **request: Unpack[RequestOptions]) -> Answer:
        """The whole answer. `RequestOptions` says what the arguments mean. Raises `StrettoError`."""
        return self._call(partial(self._stretto.ask, prompt, **request))

    @spelled_out(RequestOptions)
    def route(self, prompt: Prompting | Request, **request: Unpack[RequestOptions]) -> Route:
        """How the request would be generated, and why. Loads no model, opens no connection."""
        return self._call(partial(self._stretto.route, prompt, **request))

    @spelled_out(RequestOptions)
    @contextmanager
    def stream(self, prompt: Prompting | Request, **request: Unpack[RequestOptions]) -> Iterator[Iterator[Event]]:
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


def _provider(given: Model) -> str | None:
    return given.partition(":")[0] if isinstance(given, str) else None


def _by_role(options: ClientOptions) -> dict[str, tuple[str, Model]]:
    """The models beside the main one by role, each with the argument that it came as. Raises `SettingsError`."""
    roles: Any = options.get("roles") or {}
    if not isinstance(roles, Mapping) or not all(isinstance(role, str) for role in roles):
        raise SettingsError('roles= takes models by role, for instance roles={"small": "openai:gpt-5.4-nano"}.')
    found = {role: (f"roles[{shown(role)}]", given) for role, given in roles.items() if given is not None}
    if "main" in found:
        raise SettingsError('roles= cannot hold "main": the main model is the first argument, model=.')
    named = {"small": options.get("small"), "local": options.get("local")}
    for role, given in named.items():
        if given is not None and role in found:
            raise SettingsError(f"The role {role!r} is given twice, as {role}= and in roles=. Leave one out.")
        if given is not None:
            found[role] = (role, given)
    return found


def _checked(strategies: Sequence[Strategy]) -> tuple[Strategy, ...]:
    """The same strategies, if each is one and has a name that is free. Raises `SettingsError`."""
    if not strategies:
        return ()
    from stretto.strategies import STRATEGIES, Strategy  # noqa: PLC0415 - keeps `import stretto` light

    taken = {"auto", *STRATEGIES}
    for each in strategies:
        if isinstance(each, type) or not isinstance(each, Strategy):
            raise SettingsError(
                f"strategies= holds {shown(each)}, which is not a strategy: an object with name, offer() and run()."
            )
        if each.name in taken:
            raise SettingsError(f"The strategy name {each.name!r} is taken. Give the strategy another name.")
        taken.add(each.name)
    return tuple(strategies)


def _named(backends: Mapping[str, Backend]) -> str:
    return ", ".join(
        backend.name if role == "main" else f"{role}: {backend.name}" for role, backend in backends.items()
    )


async def _next(events: AnswerStream) -> Event | None:
    return await anext(events, None)


__all__ = ["AnswerStream", "AsyncStretto", "ClientOptions", "Stretto"]
