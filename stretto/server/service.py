"""What all requests of one server share."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import anyio
import anyio.to_thread

from stretto.client.async_client import AsyncStretto
from stretto.server.limits.admission_control import AdmissionControl
from stretto.server.limits.keys import Keyring
from stretto.server.metrics import Metrics
from stretto.server.models import Models
from stretto.server.server_options import ServerOptions
from stretto.values.errors import StrettoError

_MOST_READ = 4  # at a time, each in a separate process
log = logging.getLogger("stretto.server")


class Service:
    """The models, keys, admission control and metrics of one server. The client belongs to the caller.

    Attributes:
        readers: how many documents are parsed at a time.
        prepared: whether no preparation is running or has failed.
    """

    def __init__(
        self, client: AsyncStretto, options: ServerOptions | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.client = client
        self.options = options or ServerOptions()
        self.models = Models(client)
        self.keyring = Keyring.load(self.options.keys, environ, client.store)
        self.admission = AdmissionControl(self.options)
        self.metrics = Metrics(self.admission)
        self.readers = anyio.CapacityLimiter(_MOST_READ)
        self.prepared = True

    async def prepare(self) -> None:
        """Do what takes long once before the first request: imports, the router's model, local models."""
        self.prepared = False
        try:
            if self.client.store is not None:
                await self.client.store.reach()  # it warns if it is unreachable, and the server goes on without it
            await self.client.route("Is it ready?")
            await self.client.load()
        except StrettoError as error:
            log.warning("not ready: %s", error)  # each request will report it
        else:
            self.prepared = True
