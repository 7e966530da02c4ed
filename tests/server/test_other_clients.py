"""Clients that nobody here wrote: LangChain's whole suite on ChatOpenAI, curl, and all of it on the pocket model."""

import json
import shutil
import subprocess
from contextlib import asynccontextmanager, contextmanager
from typing import ClassVar

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from live_server import QUESTION, in_front_of, serving
from patience import patience

from stretto import AsyncStretto
from stretto.testing.obliging import oblige


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def one_event_loop(anyio_backend):
    """For all tests here: ChatOpenAI shares its connections between all its instances."""
    yield  # noqa: PT022 - a fixture that has ended lets its event loop go


@contextmanager
def from_afar(context):
    """Hold an asynchronous context in a separate thread, for clients that are not asynchronous."""
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(context) as live:
        yield live


@asynccontextmanager
async def on_pocket():
    async with AsyncStretto("local:pocket") as client, serving(client) as live:
        yield live


@pytest.fixture(scope="module")
def obliging():
    """In front of a model that does what it is asked."""
    with from_afar(in_front_of(oblige)) as live:
        yield live


@pytest.fixture(scope="module")
def pocket():
    """In front of the embedded model."""
    with from_afar(on_pocket()) as live:
        yield live


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:OpenAI may require a filename:UserWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema:UserWarning")
class TestChatOpenAI(ChatModelIntegrationTests):
    """What LangChain's chat model of OpenAI does with OpenAI, it does with Stretto."""

    chat_model_class = ChatOpenAI
    supports_image_inputs = True
    supports_image_urls = True
    supports_pdf_inputs = True
    supports_audio_inputs = True
    supports_json_mode = True
    supports_model_override = True
    model_override_value = "stretto-direct"
    supports_image_tool_message = True
    supports_anthropic_inputs = True
    chat_model_params: ClassVar = {"model": "stretto", "api_key": "none", "stream_usage": True, "max_retries": 0}

    @pytest.fixture(autouse=True)
    def server(self, obliging, monkeypatch):
        self.chat_model_params = TestChatOpenAI.chat_model_params | {"base_url": obliging.openai_url}
        # The suite downloads its images, sounds and documents; any bytes do, since nobody looks at them here.
        monkeypatch.setattr(httpx, "get", lambda url, **_: httpx.Response(200, content=b"bytes"))
        monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "stretto")


@pytest.mark.thorough
def test_langchain_talks_to_the_pocket_model(pocket):
    chat = ChatOpenAI(model="stretto", base_url=pocket.openai_url, api_key="none", stream_usage=True, max_retries=0)
    chunks = list(chat.stream(QUESTION))
    text = "".join(chunk.text for chunk in chunks)
    assert text.count("**") >= 4  # points, each with a title
    assert chunks[-1].usage_metadata is None or chunks[-1].usage_metadata["output_tokens"] > 0


@pytest.mark.anyio
async def test_the_sdks_talk_to_the_pocket_model(pocket):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema | {"additionalProperties": False}}}
    async with pocket.openai() as client, pocket.anthropic() as other:
        chat = await client.chat.completions.create(model="stretto", messages=QUESTION, max_tokens=40)
        response = await client.responses.create(model="local:pocket", input="Hello.", max_output_tokens=16)
        completion = await client.completions.create(model="stretto-direct", prompt="Hello.", max_tokens=8)
        message = await other.messages.create(model="stretto", messages=QUESTION, max_tokens=40)
        held = await client.chat.completions.create(model="stretto", messages=QUESTION, response_format=form)
    assert chat.choices[0].message.content
    assert response.output_text
    assert completion.choices[0].text
    assert message.content[0].text
    assert isinstance(json.loads(held.choices[0].message.content)["ok"], bool)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_reads_a_stream(obliging):
    body = json.dumps({"model": "stretto", "messages": QUESTION, "stream": True})
    command = ["curl", "-sSN", f"{obliging.openai_url}/chat/completions", "-H", "content-type: application/json"]
    said = subprocess.run(
        [*command, "-d", body], capture_output=True, text=True, check=True, timeout=patience(30)
    ).stdout
    assert said.rstrip().endswith("data: [DONE]")
    plain = subprocess.run(
        [*command[:3], "-d", body], capture_output=True, text=True, check=True, timeout=patience(30)
    ).stdout
    assert "content-type: application/json" in json.loads(plain)["error"]["message"]
