"""What the backends that talk to an API through an SDK have in common: clients, keys, closing, errors."""

from __future__ import annotations

import asyncio
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import anyio
from pydantic import SecretStr

from stretto.answer import Usage
from stretto.backends.base import Capabilities, Chunk, Prompt
from stretto.backends.failures import charge, kept_headers, translate
from stretto.backends.http_clients import host_of, make_ready
from stretto.backends.known_models import capabilities_of, estimate_tokens
from stretto.backends.known_parameters import ParameterMemory
from stretto.errors import AuthenticationError, BackendError, StreamBrokenError
from stretto.request import GenerationOptions

_CLOSING_S = 5.0


class RemoteBackend(ABC):
    """One model behind an API. Sends each call once: retries and limits are for ``resilient``.

    ``base_url`` is the address of a compatible server. The key of the environment goes to the
    provider, or to the address that the environment names, never to a ``base_url`` given here:
    for that one, pass ``api_key``.
    """

    provider: ClassVar[str]
    sdk: ClassVar[str]  # the module to import before the first call
    default_url: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self.compatible = base_url is not None
        key = api_key or (None if self.compatible else os.environ.get(self.key_variable, "").strip())
        self._key = SecretStr(key or "")
        self._url = base_url or os.environ.get(self.url_variable) or self.default_url
        self._capabilities = capabilities_of(self.provider, model)
        self._memory = ParameterMemory(model)
        # Connections belong to the event loop that opened them; the generator closes them with it.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]]
        self._clients = WeakKeyDictionary()
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint}>"

    @property
    def name(self) -> str:
        """The model name, ``provider:model``."""
        return f"{self.provider}:{self.model}"

    @property
    def endpoint(self) -> str:
        """Host and port that calls go to."""
        return host_of(self._url)

    @property
    def address(self) -> tuple[str, str]:
        """Provider and whole address, which may hold a password: for comparing, not for showing."""
        return self.provider, self._url.rstrip("/")

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model by its name."""
        return self._capabilities

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncGenerator[Chunk, None]]:
        """Send one call; the first chunk carries the headers, the last one usage and finish reason."""
        response, calls = await self._open(prompt, options)
        chunks = self._chunks(response, calls)
        try:
            yield chunks
        finally:
            with anyio.move_on_after(_CLOSING_S, shield=True):
                await chunks.aclose()
                await response.close()

    async def count_tokens(self, prompt: Prompt) -> int:
        """Estimate the tokens of the prompt; a true count would be a call."""
        return estimate_tokens(prompt)

    async def aclose(self) -> None:
        """Close the connections; answers still under way end with a `BackendError`.

        Those of other event loops are closed by these, as soon as they run.
        """
        self._closed = True
        _, holding = self._clients.pop(asyncio.get_running_loop(), (None, None))
        if holding is not None:
            await holding.aclose()
        self._clients.clear()  # a generator that nobody refers to is closed by its own event loop

    @abstractmethod
    def _connect(self, key: str, url: str) -> Any:
        """Make an SDK client that does not retry."""

    @abstractmethod
    def _parameters(self, prompt: Prompt, options: GenerationOptions) -> dict[str, Any]:
        """Give everything the call should send, by the API's names."""

    @abstractmethod
    async def _send(self, client: Any, parameters: dict[str, Any]) -> Any:
        """Begin a stream; the result is the SDK's."""

    @abstractmethod
    def _read(self, event: Any) -> Chunk:
        """Read one event of the SDK's stream; an empty chunk where it says nothing to us."""

    async def _client(self) -> Any:
        if self._closed:
            raise BackendError(f"{self.name} is closed. Open a new one.", backend=self.name)
        key = self._key.get_secret_value()
        if not key and not self.compatible:
            raise AuthenticationError(
                f"{self.name} needs a key. Set {self.key_variable}, or pass api_key=.", backend=self.name
            )
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                del self._clients[other]
            client = self._connect(key or "none", self._url)
            holding = _closed_with_its_loop(client)
            await anext(holding)
            self._clients[loop] = client, holding
        return self._clients[loop][0]

    async def _open(self, prompt: Prompt, options: GenerationOptions) -> tuple[Any, int]:
        if self.sdk not in sys.modules:  # a second of import would hold up everything else in the event loop
            await anyio.to_thread.run_sync(make_ready, self.sdk)
        client = await self._client()
        wanted = self._parameters(prompt, options)
        calls = 0
        while True:
            parameters = self._memory.fit(wanted)
            calls += 1
            try:
                return await self._send(client, parameters), calls
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
                failure = self._failure(error, started=False)
            self._memory.repeat_without(failure, parameters, Usage(calls=calls))

    async def _chunks(self, response: Any, calls: int) -> AsyncGenerator[Chunk, None]:
        usage, finish, failure = Usage(calls=calls), None, None
        try:
            yield Chunk(headers=kept_headers(response.response.headers))
            async for event in response:
                chunk = self._read(event)
                usage = _latest(usage, chunk.usage) if chunk.usage else usage
                finish = finish if finish == "refusal" else chunk.finish_reason or finish
                yield Chunk(text=chunk.text, logprobs=chunk.logprobs)  # without text, a sign of life
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
            failure = self._failure(error, started=True)
        if failure is None and finish is None:
            failure = StreamBrokenError(
                f"{self.name} ended its answer without a finish reason: it was cut off on the way. Ask again.",
                backend=self.name,
            )
        if failure is not None:
            charge(failure, usage)
            raise failure
        yield Chunk(usage=usage, finish_reason=finish)

    def _failure(self, error: Exception, *, started: bool) -> BackendError:
        if self._closed:
            return BackendError(f"{self.name} was closed while it was answering.", backend=self.name)
        return translate(error, self.name, self._key.get_secret_value(), endpoint=self.endpoint, started=started)


async def _closed_with_its_loop(client: Any) -> AsyncGenerator[None, None]:
    # Before an event loop ends, it closes its asynchronous generators: the one notice that it gives.
    try:
        yield
    finally:
        with anyio.move_on_after(_CLOSING_S, shield=True):
            await client.close()


def _latest(old: Usage, new: Usage) -> Usage:
    """Join two reports of one stream: APIs report running totals, some with every event."""
    return Usage(**{name: max(getattr(old, name), getattr(new, name)) for name in Usage.model_fields})
