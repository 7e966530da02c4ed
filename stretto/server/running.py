"""A server from its first request to its last: the socket, the signals, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
from collections.abc import Callable
from types import FrameType

import anyio
import uvicorn
from starlette.types import ASGIApp

from stretto.client.async_client import AsyncStretto
from stretto.server.app import create_app
from stretto.server.limits.header_limits import BoundedHead
from stretto.server.server_options import ServerOptions
from stretto.server.service import Service
from stretto.values.errors import SettingsError

_KEPT_S = 75  # an idle connection; clients and proxies in between close theirs after 60 s at most
_LAST_S = 5  # for what does not end when asked to
_AT_ONCE_S = 1.0  # the same after a second signal


class Server(uvicorn.Server):
    """uvicorn's server, except that running answers can end before it closes its port.

    Until then it answers new requests with 503, so a load balancer sends them elsewhere. A second signal ends
    everything at once.

    Attributes:
        stopped_by: the signal that stopped it.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,  # the program's own logging decides
                log_level=logging.WARNING,
                access_log=False,
                lifespan="off",
                http=BoundedHead,
                ws="none",
                server_header=False,
                timeout_keep_alive=_KEPT_S,
                timeout_graceful_shutdown=_LAST_S,
                backlog=2048,
            )
        )
        self.stopped_by: int | None = None
        self._admission = service.admission
        self._patience = anyio.CancelScope()
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as a signal handler is called
        """Note a signal, to act on at the next tick."""
        if self.stopped_by is None:
            self.stopped_by = sig
        elif self._loop is not None:
            self.force_exit = True
            self._loop.call_soon_threadsafe(self._patience.cancel)

    async def on_tick(self, counter: int) -> bool:
        """Do what uvicorn does ten times a second; returns whether it is time to close."""
        self._loop = asyncio.get_running_loop()
        if self.stopped_by is not None and not self.should_exit:
            with self._patience:
                await self._admission.drain()
            if self._patience.cancelled_caught:
                await self._admission.break_off(_AT_ONCE_S)
            self.should_exit = True
        return await super().on_tick(counter)


def listening(options: ServerOptions) -> socket.socket:
    """Return a socket listening at the address of the options. Raises `SettingsError`."""
    host = options.host.strip("[]")
    try:
        found = socket.getaddrinfo(host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        opened = socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"{where} is in use by another program. Choose another port, or 0 for a free one."
            ) from None
        if error.errno == errno.EACCES:
            raise SettingsError(f"{where} may not be used without more rights. Choose a port from 1024 on.") from None
        raise SettingsError(f"{where} cannot be listened at: {error.strerror}.") from None
    # asyncio does this only for connections whose protocol is known, and `create_server` leaves it out. Without it, a
    # stream's second piece waits until the client has acknowledged the first: up to 40 ms.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def risk(options: ServerOptions, service: Service) -> str | None:
    """Return what can happen if anyone can reach the server without a key; ``None`` if nobody can."""
    if options.loopback or service.keyring.holders:
        return None
    return (
        f"Whoever can reach {options.host}:{options.port} can use the models without a key, at the cost of yours. "
        "Set STRETTO_SERVER_KEY or give a file of keys, or listen at 127.0.0.1."
    )


def serve(client: AsyncStretto, options: ServerOptions, announce: Callable[[str, Service], None]) -> int | None:
    """Serve until a signal arrives; returns the signal. The client is closed at the end.

    ``announce`` is called with the address once the port is open. Raises `SettingsError`.
    """
    with asyncio.Runner(loop_factory=_event_loop) as runner:
        return runner.run(_serve(client, options, announce))


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop if available; it does not exist for Windows."""
    try:
        import uvloop  # noqa: PLC0415 - not on every system
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(client: AsyncStretto, options: ServerOptions, announce: Callable[[str, Service], None]) -> int | None:
    async with client:
        app = create_app(client, options)
        service: Service = app.state.service
        with listening(options) as opened:
            host, port = opened.getsockname()[:2]
            server = Server(app, service)
            async with anyio.create_task_group() as background:
                background.start_soon(_prepare, service)
                announce(f"http://{f'[{host}]' if ':' in host else host}:{port}", service)
                await server.serve(sockets=[opened])
                background.cancel_scope.cancel()
    return server.stopped_by


async def _prepare(service: Service) -> None:
    await service.prepare()
    gc.collect()
    gc.freeze()  # each full collection blocks the event loop, and would search all that was imported: up to 0.2 s
