"""An address alone stands for the model that is served there."""

import pytest
from engines import MODEL, lmstudio, ollama, vllm
from forwarding import forwarding

from stretto import AsyncStretto, Settings
from stretto.values.errors import ConnectionFailedError, ModelNotFoundError, SettingsError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_an_address_alone_stands_for_the_one_model_that_is_served_there(path):
    async with vllm() as server, AsyncStretto(server.url + path, settings=Settings()) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
        able = stretto.backends["main"].capabilities
    assert answer.text == "OK."
    assert answer.route.backend == f"openai:127.0.0.1:{server.port}"
    assert server.requests[0].body["model"] == MODEL
    assert able.context_window == 40_960


AZURE = "api-version=2024-10-21&empty="


@pytest.mark.parametrize("messages", [1, 600], ids=["a question", "a very long conversation"])
@pytest.mark.parametrize(
    ("model", "path"),
    [("openai:some-model", "/chat/completions"), ("anthropic:claude-haiku-4-5", "/v1/messages")],
)
async def test_the_query_of_an_address_goes_with_every_request_behind_its_path(model, path, messages):
    async with forwarding() as server:
        url = f"http://127.0.0.1:{server.port}/openai/deployments/mine?{AZURE}"
        async with AsyncStretto(model, base_url=url, api_key="key-of-azure") as stretto:
            answer = await stretto.ask([{"role": "user", "content": "Hello?"}] * messages, strategy="direct")
    assert answer.text == "By proxy."
    assert all(f"?{AZURE} HTTP" in head for head in server.asked)
    (call,) = [head for head in server.asked if head.startswith("POST")]
    assert call.startswith(f"POST /openai/deployments/mine{path}?")
    assert ("api-key: key-of-azure" in call.lower()) == model.startswith("openai")


async def test_the_query_of_an_address_alone_is_kept():
    async with forwarding() as server, AsyncStretto(f"http://127.0.0.1:{server.port}?{AZURE}") as stretto:
        with pytest.raises(ModelNotFoundError):
            await stretto.ask("Hello?")
    assert server.asked[0].startswith(f"GET /v1/models?{AZURE} HTTP")


async def test_of_several_models_in_lm_studio_the_loaded_one_is_meant():
    async with lmstudio() as server, AsyncStretto(server.url, settings=Settings()) as stretto:
        await stretto.ask("Why?", strategy="direct")
    assert server.requests[0].body["model"] == "qwen/qwen3-8b"


async def test_an_address_with_several_models_asks_for_a_name():
    async with (
        ollama(models=("llama3.2:latest", "qwen3:8b")) as server,
        AsyncStretto(server.url, settings=Settings()) as stretto,
    ):
        with pytest.raises(ModelNotFoundError, match=r"serves 2 models \(llama3.2:latest, qwen3:8b\)\. Name the one"):
            await stretto.ask("Why?")


async def test_an_address_where_nobody_answers_is_one_clear_error():
    async with AsyncStretto("http://127.0.0.1:9", settings=Settings(attempts=1)) as stretto:
        with pytest.raises(ConnectionFailedError, match=r"nothing listens at 127\.0\.0\.1:9"):
            await stretto.ask("Why?")


@pytest.mark.parametrize("address", ["http://", "http://user:secret@", "http://a b", "https://host:port"])
async def test_an_address_that_is_none_is_refused_and_not_repeated(address):
    with pytest.raises(SettingsError, match="must begin with http://") as caught:
        AsyncStretto(address)
    assert "secret" not in str(caught.value)
