"""What all requests of one server share."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import anyio
import anyio.to_thread

from stretto.backends.base import ModelRequest
from stretto.backends.providers.http_clients import make_ready
from stretto.client import AsyncStretto
from stretto.errors import StrettoError
from stretto.request import Message
from stretto.server.gate import Gate
from stretto.server.keys import Keyring
from stretto.server.metrics import Metrics
from stretto.server.models import Models
from stretto.server.options import ServerOptions

_MOST_READ = 4  # at a time, each in a process of its own
log = logging.getLogger("stretto.server")


class Service:
    """The models, the keys, the gate and the counters of one server.

    Attributes:
        client: who answers; it belongs to the caller.
        options: how the server serves.
        models: what is served, by name.
        keyring: who is let in.
        gate: how many at a time.
        metrics: what was counted.
        readers: how many documents are parsed at a time.
        prepared: nothing is being prepared any more, and nothing of it has failed.
    """

    def __init__(
        self, client: AsyncStretto, options: ServerOptions | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.client = client
        self.options = options or ServerOptions()
        self.models = Models(client)
        self.keyring = Keyring.load(self.options.keys, environ, client.store)
        self.gate = Gate(self.options)
        self.metrics = Metrics(self.gate)
        self.readers = anyio.CapacityLimiter(_MOST_READ)
        self.prepared = True

    async def prepare(self) -> None:
        """Do ahead of the first request what takes long once: imports, the router's model, local models."""
        self.prepared = False
        try:
            if self.client.store is not None:
                await self.client.store.reach()  # it warns where it cannot be, and the server goes on without
            await self.client.route("Is it ready?")
            for backend in self.client.backends.values():
                if (sdk := getattr(backend, "sdk", None)) is not None:
                    await anyio.to_thread.run_sync(make_ready, sdk)
                if backend.name.startswith("local:"):
                    await backend.count_tokens(ModelRequest((Message(role="user", content="Hello."),)))
        except StrettoError as error:
            log.warning("not ready: %s", error)  # and each request will say so
        else:
            self.prepared = True
