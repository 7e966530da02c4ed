"""A scripted server in a separate thread, for tests that are synchronous."""

from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from stretto.testing.server import ScriptedServer


@contextmanager
def served(replies):
    """The server, until the context is left."""
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(ScriptedServer(replies)) as server,
    ):
        yield server
