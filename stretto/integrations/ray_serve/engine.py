"""A replica: one local model on one machine of the cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import ray
from ray import serve

from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.backends.tenants import asked_for
from stretto.integrations.ray_serve import wire
from stretto.values.errors import StrettoError
from stretto.values.request import Message


class Engine:
    """A replica that loads its model on construction, so that Ray sends it nothing before it is ready.

    Args:
        model: the model, as for `LocalBackend`.
        options: further arguments of `LocalBackend`.
    """

    async def __init__(self, model: str, options: dict[str, Any]) -> None:  # type: ignore[misc]  # Ray awaits it
        self._backend = LocalBackend(model, **options)
        self._running = self._begun = 0
        await self._backend.count_tokens(ModelRequest((Message(role="user", content="Hello."),)))

    async def describe(self) -> dict[str, Any]:
        """Return the model's capabilities, the replica's id, and how many generations it is running and has started."""
        return {
            "capabilities": wire.capabilities_text(self._backend.capabilities),
            "replica": serve.get_replica_context().replica_id.unique_id,
            "process": os.getpid(),
            "running": self._running,
            "begun": self._begun,
        }

    async def generate(self, call: str) -> AsyncGenerator[str]:
        """Run one generation: yields this replica, then chunks as text; an error takes the place of a chunk."""
        self._running += 1
        self._begun += 1
        here = ray.get_runtime_context()
        try:
            yield wire.replica_text(here.get_actor_name() or "", here.namespace)
            async with aclosing(self._chunks(call)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except StrettoError as error:
            yield wire.error_text(error)
        finally:
            self._running -= 1

    async def _chunks(self, call: str) -> AsyncGenerator[str]:
        prompt, options, tenant = wire.read_call(call)
        async with AsyncExitStack() as open_:
            with asked_for(tenant):  # not over a yield: a generator can be closed in another context
                chunks = await open_.enter_async_context(self._backend.stream(prompt, options))
            async for chunk in chunks:
                yield wire.chunk_text(chunk)

    async def count_tokens(self, prompt: str) -> int:
        """Count the tokens of a prompt."""
        return await self._backend.count_tokens(wire.read_prompt(prompt))

    async def __del__(self) -> None:
        await self._backend.aclose()
