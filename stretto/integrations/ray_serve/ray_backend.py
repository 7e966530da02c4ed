"""The replicas of a local model as one backend with many slots."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import ray
from ray import serve
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from ray.serve.schema import ReplicaState

from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.providers.failures import charge
from stretto.integrations.ray_serve import wire
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, ConnectionFailedError, RateLimitedError, StreamBrokenError
from stretto.values.request import GenerationOptions

_COUNTED_AGAIN_S = 5.0
_ENDING_S = 5.0  # for a replica to end what it was asked to end
_SILENT_S = 2.0  # silence after which a replica is checked: some streams of one that died never end
_QUEUED_S = 3.0  # wait after which, if a replica has died, Ray's router might have lost the call with it


class RayBackend:
    """The backend for a deployment of `Engine`. Prompts with a common beginning go to one replica while it has a slot.

    If a replica dies, its streams end with `StreamBrokenError`, or `ConnectionFailedError` before the first text;
    `resilient` and the strategies ask another replica for the rest.

    Args:
        handle: the deployment.
        name: the model name.
        capabilities: the capabilities of one replica.
        concurrent_calls: calls that one replica runs concurrently.
    """

    def __init__(
        self, handle: DeploymentHandle[Any], name: str, capabilities: Capabilities, concurrent_calls: int
    ) -> None:
        self._handle = handle
        self._name = name
        self._capabilities = capabilities
        self._concurrent_calls = concurrent_calls
        self._replicas = 1
        self._counted_s = -_COUNTED_AGAIN_S
        self._lost_s = -math.inf  # when a replica was last lost
        self._open: set[_Chunks] = set()
        self._closed = False

    @classmethod
    async def of(cls, handle: DeploymentHandle[Any], model: str, concurrent_calls: int) -> RayBackend:
        """Return the backend for a deployment; waits until one of its replicas has loaded the model."""
        description = await handle.describe.remote()
        name = f"ray:{model.removeprefix('local:')}"
        backend = cls(handle, name, wire.read_capabilities(description["capabilities"]), concurrent_calls)
        await backend.count_replicas()
        return backend

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model, with the slots of all replicas."""
        return replace(self._capabilities, concurrent_calls=self._replicas * self._concurrent_calls)

    async def count_replicas(self) -> int:
        """Return the number of replicas; asks Ray at most every few seconds."""
        if time.monotonic() - self._counted_s >= _COUNTED_AGAIN_S:
            self._counted_s = time.monotonic()
            counted: int = await anyio.to_thread.run_sync(self._running_replicas, abandon_on_cancel=True)
            if counted < self._replicas:
                self._lost_s = time.monotonic()
            self._replicas = counted
        return self._replicas

    async def lost_one_since(self, began_s: float) -> bool:
        """Return whether a replica has been lost since then, or just before."""
        await self.count_replicas()
        return self._lost_s >= began_s - 1.0

    def _running_replicas(self) -> int:
        with suppress(RayError, RayServeException, KeyError):
            application = serve.status().applications[self._handle.app_name]
            running = application.deployments[self._handle.deployment_name].replica_states
            return max(1, int(running.get(ReplicaState.RUNNING, 0)))
        return self._replicas

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation on a replica. Leaving the context ends it there."""
        if self._closed:
            raise self._is_closed()
        await self.count_replicas()
        call = wire.call_text(prompt, options)
        remote = self._handle.options(stream=True, multiplexed_model_id=wire.session_of(prompt))
        chunks = _Chunks(partial(remote.generate.remote, call), self)
        self._open.add(chunks)
        try:
            yield chunks
        finally:
            self._open.discard(chunks)
            if not chunks.ended:
                await _end(chunks.response)

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Count the tokens of the prompt, chat template included; exact."""
        try:
            return int(await self._handle.count_tokens.remote(wire.prompt_text(prompt)))
        except (RayError, RayServeException) as error:
            raise self.failure(error, begun=False) from error

    async def aclose(self) -> None:
        """End the open streams. The replicas stay: they belong to the application."""
        self._closed = True
        for chunks in tuple(self._open):
            chunks.response.cancel()

    def failure(self, error: Exception, *, begun: bool) -> BackendError:
        """Return one of our errors for what Ray raised."""
        if self._closed:
            return self._is_closed()
        if isinstance(error, ActorDiedError | ActorUnavailableError):
            self._lost_s = time.monotonic()
        if isinstance(error, BackPressureError):
            return RateLimitedError(f"{self.name}: all replicas are busy. Ask later.", backend=self.name)
        why = type(error).__name__
        failed: BackendError
        if isinstance(error, RayTaskError) and not isinstance(error, ActorDiedError):  # our own bug
            failed = BackendError(f"{self.name} failed on its replica, whose log says more ({why}).", backend=self.name)
        elif begun:
            failed = StreamBrokenError(f"{self.name} broke off: its replica ended ({why}).", backend=self.name)
        else:
            failed = ConnectionFailedError(f"{self.name}: no replica answered ({why}).", backend=self.name)
        charge(failed, Usage(calls=1))
        return failed

    def _is_closed(self) -> BackendError:
        return BackendError(f"The backend {self.name} is closed. Make a new one.", backend=self.name)


class _Chunks(AsyncIterator[Chunk]):
    # A class rather than a generator: there is nothing to close when a reader stops early.

    def __init__(self, send: Callable[[], DeploymentResponseGenerator[str]], backend: RayBackend) -> None:
        self.response = send()
        self._send = send
        self._backend = backend
        self._began_s = time.monotonic()
        self._replica: wire.Replica | None = None
        self._begun = False
        self.ended = False

    async def __anext__(self) -> Chunk:
        if self.ended:
            raise StopAsyncIteration
        try:
            if self._replica is None:
                self._replica = wire.read_replica(await self._text())
            text = await self._text()
        except StopAsyncIteration:
            self.ended = True
            raise
        except (RayError, RayServeException) as error:
            self.ended = True
            raise self._backend.failure(error, begun=self._begun) from error
        try:
            chunk = wire.read_chunk(text)
        except BackendError as error:
            error.backend = self._backend.name
            raise
        self._begun = self._begun or chunk.is_answer
        return chunk

    async def _text(self) -> str:
        """Return what the replica sends next. Raises `RayError` even if Ray fails to notice that a replica is gone."""
        while True:
            waiting = asyncio.ensure_future(self.response.__anext__())
            try:
                while not (await asyncio.wait({waiting}, timeout=_SILENT_S))[0]:
                    if await self._is_lost():
                        break
                else:
                    text: str = waiting.result()
                    return text
            finally:
                await _dropped(waiting)
            if self._replica is not None:
                raise RayError("the replica is gone")
            await _end(self.response)  # no replica has it, so it can be sent again without running twice
            self.response = self._send()
            self._began_s = time.monotonic()

    async def _is_lost(self) -> bool:
        if self._replica is None:
            queued_s = time.monotonic() - self._began_s
            return queued_s >= _QUEUED_S and await self._backend.lost_one_since(self._began_s)
        return not await anyio.to_thread.run_sync(_lives, self._replica, abandon_on_cancel=True)


async def _dropped(waiting: asyncio.Future[str]) -> None:
    if not waiting.done():
        waiting.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({waiting}, timeout=_ENDING_S)
    if waiting.done() and not waiting.cancelled():
        waiting.exception()  # retrieved, so that asyncio does not warn about it


def _lives(replica: wire.Replica) -> bool:
    try:
        ray.get_actor(replica.actor, namespace=replica.namespace)
    except ValueError:
        return False
    return True


async def _end(response: DeploymentResponseGenerator[str]) -> None:
    """Cancel a generation, and wait until its replica has stopped it."""
    response.cancel()
    with anyio.CancelScope(shield=True), anyio.move_on_after(_ENDING_S), suppress(RayError, RayServeException):
        async for _ in response:
            pass
