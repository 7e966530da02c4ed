import gc
from dataclasses import replace

import anyio.lowlevel
import pytest
from serving import served

from stretto.integrations.langchain import ChatStretto
from stretto.testing.obliging import oblige


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "STRETTO_API_KEY", "STRETTO_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def connections_closed(anyio_backend):
    """Let the event loop close the connections of chat models that nobody refers to any more."""
    yield
    await several_turns()  # for what is still being cancelled
    gc.collect()
    await several_turns()


async def several_turns():
    """Turns of the loop, which closing takes a few of."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()


def reply(received):
    """An obliging reply whose usage holds a bit of everything."""
    return replace(oblige(received), prompt_tokens=50, cached_tokens=10, cache_write_tokens=5, reasoning_tokens=3)


@pytest.fixture(scope="session")
def obliging():
    with served(reply) as server:
        yield server


@pytest.fixture(scope="session")
def pocket():
    """Keeps the pocket model loaded, which all chat models of that name share."""
    chat = ChatStretto(model="local:pocket")
    chat.client()
    return chat
