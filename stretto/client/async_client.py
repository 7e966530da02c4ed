"""The client for asynchronous code: `AsyncStretto`."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

import anyio

from stretto.backends.base import Backend, LoadsAhead, method_of
from stretto.client.answer_task import AnswerTask, Emit
from stretto.client.client_backends import ClientBackends
from stretto.client.client_options import (
    ClientOptions,
    check_options,
    fallback_models,
    models_by_role,
    own_strategies,
    provider_of,
)
from stretto.client.first_imports import ensure_imported
from stretto.client.streams import AnswerStream, StreamContext
from stretto.config.settings import Settings
from stretto.foundation.arguments import expand_kwargs, safe_repr
from stretto.foundation.bounds import is_long
from stretto.foundation.threads import Fork, check_threads, in_own_thread
from stretto.observe.hooks import Watchers
from stretto.observe.structured_logs import log_answer, log_failure
from stretto.observe.telemetry import note_answer, note_route, request_span, route_span
from stretto.prices import Prices
from stretto.prompts import Catalogue
from stretto.values.answer import Answer
from stretto.values.errors import StrettoError
from stretto.values.request import PromptLike, Request, RequestOptions
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.abilities import Abilities
    from stretto.abilities.checking import Progress
    from stretto.backends.resilience.shared import Store
    from stretto.client.client_options import ModelLike
    from stretto.documents.limits import ReadingTime
    from stretto.strategies.base import Strategy

_AFTER_DEADLINE_S = 5.0  # until a backend that cannot be cancelled is abandoned; everything else has ended by then
FORKED = (
    "This client was made before a fork, and its threads and connections stayed in the parent process. "
    "Make a new one in the child."
)


class AsyncStretto:
    """Answers each question with the strategy that suits it, on the given backends.

    Creating a client opens no connection and loads no model. Close it, or use it in a ``with`` block. One client serves
    any number of concurrent requests. Models on one server share its circuit breaker.

    Args:
        model: a model name (``openai:NAME``, ``anthropic:NAME``, ``local:FOLDER``, ``local:pocket``), a backend, or a
            LangChain chat model. By default, a model whose API key is in the environment, else ``local:pocket``.
        options: see `ClientOptions`.

    Attributes:
        backends: the backends by role; "main" answers unless the router chooses another.
        fallback: the backends that take over if one of these fails, in this order.
        model_reason: why this model was chosen, if none was given.
        settings: the settings for all requests.
        templates: the prompt templates.

    Raises:
        SettingsError: an argument or setting is invalid.
        UnknownModelError: no backend serves a model of this name.
    """

    @expand_kwargs(ClientOptions)
    def __init__(self, model: ModelLike | None = None, **options: Unpack[ClientOptions]) -> None:
        self.backends: dict[str, Backend] = {}
        check_options(options)
        base_url, api_key, templates = options.get("base_url"), options.get("api_key"), options.get("templates")
        self.settings = options.get("settings") or Settings.load()
        self._client_backends = ClientBackends(self.settings)
        self._closed = False
        chosen = model if model is not None else self.settings.model
        self.model_reason = ""
        if chosen is None:
            from stretto.backends.registry import default_model  # noqa: PLC0415 - keeps `import stretto` light

            chosen, self.model_reason = default_model(os.environ)
            if self.settings.base_url is not None and not chosen.startswith("openai:"):
                self.model_reason += " The setting base_url is not used: name a model of that server, openai:NAME."
        if isinstance(chosen, str):
            base_url, api_key = self._client_backends.server_of(chosen, base_url, api_key)
        self._writings: set[AnswerTask] = set()
        self._fork = Fork()

        def opened(argument: str, given: ModelLike) -> Backend:
            same = provider_of(given) == provider_of(chosen)
            return self._client_backends.backend(given, argument, *((base_url, api_key) if same else ()))

        self.backends["main"] = opened("model", chosen)
        by_role = models_by_role(options)
        for role, given in by_role.items():
            self.backends[role] = opened(f"roles[{safe_repr(role)}]", given)
        named = {given: self.backends[role] for role, given in by_role.items() if isinstance(given, str)}
        self.fallback = tuple(
            named[given] if isinstance(given, str) and given in named else opened("fallback", given)
            for given in fallback_models(options, self.settings, chosen)
        )
        self._router = options.get("router")
        self._own_strategies = own_strategies(options)
        self._library_strategies: Mapping[str, Strategy] = {}
        self._watchers = Watchers(options.get("hooks"))
        self._prices = Prices(self.settings.prices)
        self.templates = (
            templates if isinstance(templates, Catalogue) else Catalogue(templates or self.settings.templates)
        )
        self._prompt_family = options.get("prompt_family") or self.settings.prompt_family
        if self._prompt_family is not None:
            self.templates.check_family(self._prompt_family)

    @property
    def store(self) -> Store | None:
        """The store in which replicas share rate limits and breakers, if the settings name one."""
        return self._client_backends.store

    def __repr__(self) -> str:
        return f"<AsyncStretto {named(self.backends)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel running answers, and close the backends that this client opened. It cannot be used afterwards.

        Backends that were passed in stay open. Waits a few seconds for a model that is being loaded.
        """
        self._closed = True
        if self._fork.happened() or not _on_asyncio():
            return
        closed = StrettoError("This client was closed while it was answering.")
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as closing:  # a failure must not leave the others open
                if self.store is not None:
                    closing.push_async_callback(self.store.aclose)  # pushed first, closed last
                for backend in reversed(self._client_backends.owned):
                    closing.push_async_callback(backend.aclose)
                for writing in tuple(self._writings):
                    await writing.aclose(closed)
                self._library_strategies = {}

    async def load(self) -> None:
        """Load what the first answer would wait for: local models, SDKs and the router. Makes no calls.

        Models are loaded one after the other. Raises `StrettoError` for one that cannot be loaded.
        """
        self._check_usable()
        _check_loop()
        await self._made_ready()
        for backend in (*self.backends.values(), *self.fallback):
            if (load_ahead := method_of(backend, LoadsAhead.load_ahead)) is not None:
                await load_ahead()

    @expand_kwargs(RequestOptions)
    async def ask(self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]) -> Answer:
        """Return the whole answer. `RequestOptions` documents the arguments. Raises `StrettoError`."""
        writing = await self._begin(prompt, request)
        try:
            return await AnswerStream(writing).rest()
        finally:
            await writing.aclose()

    @expand_kwargs(RequestOptions)
    async def route(self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]) -> Route:
        """Return how the request would be generated, and why. Loads no model, opens no connection."""
        self._check_usable()
        _check_loop()
        await self._made_ready()
        return (await self._decide(await self._request_read(prompt, request))).settled()

    @expand_kwargs(RequestOptions)
    def stream(
        self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]
    ) -> AbstractAsyncContextManager[AnswerStream]:
        """Stream the events of one answer. Leaving the context cancels the rest."""
        return StreamContext(partial(self._begin, prompt, request))

    async def _begin(self, prompt: PromptLike | Request, options: RequestOptions) -> AnswerTask:
        began = time.perf_counter()
        self._check_usable()
        _check_loop()
        await self._made_ready(self._deadline_of(prompt, options))
        writing = self._writing(await self._request_read(prompt, options), began)
        await writing.start(self._writings)
        return writing

    async def _made_ready(self, deadline_s: float | None = None) -> None:
        backends = (*self.backends.values(), *self.fallback)
        listed = (each for each in backends if not each.name.startswith("local:"))
        await ensure_imported(deadline_s, prices=any(getattr(each, "at_provider", True) for each in listed))

    def _deadline_of(self, prompt: PromptLike | Request, options: RequestOptions) -> float | None:
        """Return the deadline as given, before the imports that could validate it."""
        own = prompt.deadline_s if isinstance(prompt, Request) else self.settings.deadline_s
        given = options.get("deadline_s")
        return given if isinstance(given, (int, float)) and given > 0 else own

    def _family_of(self, backend: Backend) -> str | None:
        """Return the prompt family from the options, or the one measured to work best with a model."""
        from stretto.abilities import abilities_of  # noqa: PLC0415 - keeps `import stretto` light

        if self._prompt_family is not None:
            return self._prompt_family
        found = abilities_of(backend)
        return None if found is None else found.family

    async def check(self, progress: Progress | None = None) -> Abilities:
        """Measure what the main model can do, and save it; the router and the prompts use it from then on.

        Takes at most two minutes and 60 calls. ``progress`` is called with the number of questions done, their total,
        and what is being measured. Raises `StrettoError`, and `OSError` if the result cannot be written.
        """
        from stretto.abilities import keep  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.abilities.checking import check  # noqa: PLC0415 - likewise
        from stretto.backends.base import ask_servers  # noqa: PLC0415 - likewise

        self._check_usable()
        _check_loop()
        await self._made_ready()
        await ask_servers(self.backends.values())
        found = await check(self.backends["main"], self.templates, progress or (lambda *_: None))
        await anyio.to_thread.run_sync(keep, found)
        return found

    async def forget(self) -> None:
        """Forget what was learned about this client's models.

        Results of checks and calibrations are deleted for all programs with these settings; a calibration is deleted if
        any of the models takes part in it. What servers reported and rejected, and which drafts a local model accepted,
        is forgotten for all clients of this process. Statistics from answers and calls are forgotten for this client,
        and for others that share its backend. Caches that speed up later starts are kept. Raises `OSError` for a file
        that cannot be removed.
        """
        from stretto.client.forgetting import forget  # noqa: PLC0415 - keeps `import stretto` light

        self._check_usable()
        for backend in (*self.backends.values(), *self.fallback):
            forget(backend)

    def _writing(self, request: Request, began: float) -> AnswerTask:
        """Return the task that will write an answer, not started yet. Raises `StrettoError` after a fork."""
        self._check_usable()
        deadline_s = request.deadline_s
        within_s = math.inf if deadline_s is None else began + deadline_s + _AFTER_DEADLINE_S - time.perf_counter()
        return AnswerTask(partial(self._produce, request, began), within_s, request.options.given_format)

    async def _produce(self, request: Request, began: float, emit: Emit) -> None:
        from stretto.backends.base import ask_servers  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.strategies.runtime.assembly import answer  # noqa: PLC0415 - likewise

        text = self.settings.log_text
        with request_span(request) as span:
            try:
                await ask_servers(self.backends.values(), request.deadline_s)
                route = await self._decide(request)
                answered = await answer(
                    request,
                    route,
                    self.backends[route.role],
                    emit,
                    templates=self.templates,
                    began=began,
                    strategies=self._strategies(),
                    watchers=self._watchers,
                    prices=self._prices,
                    backends=self.backends,
                    prompt_family=self._family_of,
                    fallback=self.fallback,
                )
            except Exception as error:
                log_failure(request, error, text=text)
                raise
            note_answer(span, answered)
            log_answer(request, answered, text=text)

    def _check_usable(self) -> None:
        if self._fork.happened():
            raise StrettoError(FORKED)
        if self._closed:
            raise StrettoError("This AsyncStretto is closed. Make a new one.")
        check_threads()

    def _request(
        self, prompt: PromptLike | Request, options: RequestOptions, allowance: ReadingTime | None = None
    ) -> Request:
        from stretto.strategies.runtime.assembly import check_strategy  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.strategies.strategy_options import check_strategy_options  # noqa: PLC0415 - likewise

        if not isinstance(prompt, Request):
            options = options.copy()
            if options.get("preference") is None:
                options["preference"] = self.settings.preference
            if options.get("deadline_s") is None:
                options["deadline_s"] = self.settings.deadline_s
            if options.get("on_missing") is None:
                options["on_missing"] = self.settings.on_missing
            if "chat_template_kwargs" not in {**options, **(options.get("extra") or {})}:
                options["chat_template_kwargs"] = self.settings.chat_template_kwargs
        if options.get("documents") is not None and allowance is None:
            allowance = self._allowance(prompt, options)
        request = Request._of(prompt, options, allowance)
        if request.own_strategy is None:
            check_strategy(request.strategy, self._strategies())
        if request.strategy_options:
            check_strategy_options(request, request.own_strategy or self._strategies().get(request.strategy))
        return request

    async def _request_read(self, prompt: PromptLike | Request, options: RequestOptions) -> Request:
        """Read the request, in a thread if it is long. Reading of files ends with this task."""
        if options.get("documents") is None:
            if is_long(prompt, options.get("tools"), options.get("stop")):
                return await anyio.to_thread.run_sync(self._request, prompt, options)
            return self._request(prompt, options)
        allowance = self._allowance(prompt, options)
        try:
            with anyio.move_on_after(allowance.left_s() if allowance.deadline_s is not None else None):
                return await in_own_thread(partial(self._request, prompt, options, allowance), "stretto reads")
        finally:
            allowance.cancel()
        raise allowance.passed()

    def _allowance(self, prompt: PromptLike | Request, options: RequestOptions) -> ReadingTime:
        from stretto.documents.limits import ReadingLimits, ReadingTime  # noqa: PLC0415 - keeps `import stretto` light

        settings = self.settings
        limits = ReadingLimits(settings.reading_s, settings.reading_memory_mb, settings.follow_links)
        return ReadingTime(limits, self._deadline_of(prompt, options))

    def _strategies(self) -> Mapping[str, Strategy]:
        """Return all strategies by name: those of the library, then those of this client."""
        from stretto.strategies import own_instances, plugin_strategies  # noqa: PLC0415 - keeps `import stretto` light

        self._library_strategies = library = self._library_strategies or own_instances()
        return {**library, **plugin_strategies()} | {strategy.name: strategy for strategy in self._own_strategies}

    async def _decide(self, request: Request) -> Route:
        if self._router is None:
            from stretto.router import Router, SecondOpinion  # noqa: PLC0415 - keeps `import stretto` light

            second = SecondOpinion() if self.settings.second_opinion else None
            self._router = Router(second_opinion=second, prices=self._prices)
        with route_span() as span:
            route = await self._router.route(
                request,
                self.backends,
                self._strategies(),
                prompt_family=self._family_of,
                own_prompts=self.templates.overrides,
            )
            note_route(span, route)
        self._watchers.route_chosen(route)
        return route


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _check_loop() -> None:
    if not _on_asyncio():
        raise StrettoError(
            "AsyncStretto runs on asyncio only, and this is another event loop, such as trio's. "
            "Use Stretto in a thread: trio.to_thread.run_sync(stretto.ask, ...)."
        )


def named(backends: Mapping[str, Backend]) -> str:
    """Return the names of a client's backends for its ``repr``."""
    return ", ".join(
        backend.name if role == "main" else f"{role}: {backend.name}" for role, backend in backends.items()
    )
