"""The client of each SDK: made by the HTTP library that this SDK runs on, and bounded in both libraries."""

from types import SimpleNamespace

import anthropic
import httpx
import httpx2
import openai
import pytest

from stretto.backends.providers.failures import translate
from stretto.backends.providers.transport.http_bounds import MOST_OF_AN_ERROR
from stretto.backends.providers.transport.http_clients import async_client, http_library
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.errors import ConnectionFailedError

pytestmark = pytest.mark.anyio

LIBRARIES = [httpx, httpx2]  # langchain-core brings the first, the SDKs of today the second


def an_sdk_on(library):
    return SimpleNamespace(DefaultAsyncHttpxClient=type("Default", (library.AsyncClient,), {}))


@pytest.mark.parametrize("sdk", [openai, anthropic], ids=lambda sdk: sdk.__name__)
async def test_an_sdk_gets_a_client_of_the_library_it_runs_on(sdk):
    client = async_client(sdk)
    assert isinstance(client, http_library(sdk).AsyncClient)
    kind = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[sdk.__name__]
    async with getattr(sdk, kind)(api_key="none", http_client=client):  # a client of the other library is refused
        pass


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
async def test_the_body_of_an_error_is_bounded_in_both_libraries(library):
    body = RawResponse([b"x" * 2 * MOST_OF_AN_ERROR], status=500)
    async with ScriptedServer(body) as server, async_client(an_sdk_on(library)) as client:
        assert isinstance(client, library.AsyncClient)
        answer = await client.post(f"{server.openai_url}/chat/completions", json={"messages": [], "model": "m"})
    assert (answer.status_code, len(answer.content)) == (500, MOST_OF_AN_ERROR)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
async def test_a_refused_connection_is_one_error_in_both_libraries(library):
    async with ScriptedServer() as server:
        url = server.url
    async with async_client(an_sdk_on(library)) as client:
        with pytest.raises(library.TransportError) as caught:
            await client.get(url)
    assert isinstance(translate(caught.value, "openai:some-model"), ConnectionFailedError)
