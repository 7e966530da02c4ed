"""A Stretto server on a free port of this machine, in front of a scripted one or of the pocket model."""

from contextlib import asynccontextmanager
from dataclasses import dataclass

import anthropic
import anyio
import httpx
import openai
from patience import patience
from ticking import tick_oftener

from stretto import AsyncStretto, Settings
from stretto.backends.providers.learned import learned
from stretto.server import ServerOptions, create_app
from stretto.server.running import Server, listening
from stretto.server.service import Service
from stretto.testing.server import ScriptedServer

tick_oftener()
QUESTION = [{"role": "user", "content": "How do I look after a bicycle?"}]


@dataclass
class Live:
    """What a test needs of a running server."""

    url: str
    service: Service
    server: Server
    upstream: ScriptedServer | None = None

    @property
    def openai_url(self):
        return f"{self.url}/v1"

    def openai(self, key="none", **how):
        return openai.AsyncOpenAI(base_url=self.openai_url, api_key=key, max_retries=0, **how)

    def anthropic(self, key="none", **how):
        return anthropic.AsyncAnthropic(base_url=self.url, api_key=key, max_retries=0, **how)

    def http(self, **how):
        return httpx.AsyncClient(base_url=self.url, timeout=patience(30), **how)


async def until(condition):
    """Return as soon as the condition holds."""
    with anyio.fail_after(patience(20)):
        while not condition():
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def serving(client, options=None, environ=None):
    """Serve a client until the block is left."""
    options = options or ServerOptions(port=0)
    app = create_app(client, options, environ=environ or {})
    service = app.state.service
    await service.prepare()
    server = Server(app, service)
    with listening(options) as opened:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [opened])
            await until(lambda: server.started)
            yield Live(f"http://127.0.0.1:{opened.getsockname()[1]}", service, server)
            server.should_exit = True


@asynccontextmanager
async def in_front_of(
    script="Hello.", *, provider="openai", options=None, environ=None, settings=None, roles=None, **how
):
    """The same in front of a scripted server that speaks OpenAI's API, or Anthropic's."""
    async with (
        ScriptedServer(script, **how) as upstream,
        AsyncStretto(
            f"{provider}:scripted",
            base_url=upstream.url if provider == "anthropic" else upstream.openai_url,
            settings=settings or Settings(attempts=1),
            roles=roles,
        ) as client,
        serving(client, options, environ) as live,
    ):
        # Text of a model of which nothing is known is held back in its first answer.
        learned("openai", upstream.openai_url, "scripted").bare_thoughts = False
        live.upstream = upstream
        yield live
