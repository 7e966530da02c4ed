"""The standard suites of LangChain, on the pocket model and over scripted servers of OpenAI and Anthropic."""

from inspect import signature
from typing import ClassVar

import httpx
import pytest
from langchain_core.load import load
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from stretto.integrations.langchain import ChatStretto

pytestmark = pytest.mark.anyio

KEY = "test"
LISTS = "allowed_objects" in signature(load).parameters  # not in the oldest langchain-core
ONLY_LISTED = (
    "langchain-core loads with allowed_objects='all' what stands on a list inside langchain-core, and nothing else. "
    "Loading with allowed_objects=[ChatStretto] works: test_chat_model.py shows it."
)


class OnPocket:
    """No key, no network. The pocket model was trained to answer questions in plain text, and has no tools.

    It can be held to a schema (test_chat_model.py), but it does not end a string in JSON that may have any length.
    """

    chat_model_class = ChatStretto
    chat_model_params: ClassVar = {"model": "local:pocket"}
    has_tool_calling = False
    has_structured_output = False

    @pytest.fixture(autouse=True)
    def loaded(self, pocket):
        pass


class OverServer:
    """What a request asks for comes back as the provider's API has it."""

    chat_model_class = ChatStretto
    supports_image_inputs = True
    supports_image_urls = True
    supports_pdf_inputs = True
    supports_image_tool_message = True
    supports_pdf_tool_message = True
    supports_anthropic_inputs = True
    supports_json_mode = True

    @pytest.fixture(autouse=True)
    def found_elsewhere(self, monkeypatch):
        # The suite downloads its images, sounds and documents; any bytes do, since nobody looks at them here.
        monkeypatch.setattr(httpx, "get", lambda url, **_: httpx.Response(200, content=b"bytes"))
        monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "stretto")


class OverOpenAI(OverServer):
    supports_audio_inputs = True
    supports_model_override = True
    model_override_value = "openai:gpt-4o"
    supported_usage_metadata_details: ClassVar = {
        "invoke": ["reasoning_output", "cache_read_input"],
        "stream": ["reasoning_output", "cache_read_input"],
    }
    chat_model_params: ClassVar = {"model": "openai:gpt-4.1", "api_key": KEY}


class OverAnthropic(OverServer):
    supports_audio_inputs = False  # the Messages API takes none, and says so in one clear error
    supports_model_override = True
    model_override_value = "anthropic:claude-sonnet-5"
    supported_usage_metadata_details: ClassVar = {
        "invoke": ["reasoning_output", "cache_read_input", "cache_creation_input"],
        "stream": ["reasoning_output", "cache_read_input", "cache_creation_input"],
    }
    chat_model_params: ClassVar = {"model": "anthropic:claude-haiku-4-5", "api_key": KEY}


class TestPocketUnit(OnPocket, ChatModelUnitTests):
    @pytest.mark.xfail(LISTS, reason=ONLY_LISTED)
    def test_serdes(self, model, snapshot):
        super().test_serdes(model, snapshot)


class TestOpenAIUnit(OverOpenAI, ChatModelUnitTests):
    @pytest.mark.xfail(LISTS, reason=ONLY_LISTED)
    def test_serdes(self, model, snapshot):
        super().test_serdes(model, snapshot)


class TestAnthropicUnit(OverAnthropic, ChatModelUnitTests):
    @pytest.mark.xfail(LISTS, reason=ONLY_LISTED)
    def test_serdes(self, model, snapshot):
        super().test_serdes(model, snapshot)


@pytest.mark.thorough  # a model of this processor answers each of them
class TestPocket(OnPocket, ChatModelIntegrationTests):
    pass


class Asking:
    """What the suite asks for to see each kind of tokens."""

    def ask(self, *, stream):
        chat = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return chat.invoke("Hello")
        first, *rest = chat.stream("Hello")
        return sum(rest, first)

    def invoke_with_reasoning_output(self, *, stream=False):
        return self.ask(stream=stream)

    def invoke_with_cache_read_input(self, *, stream=False):
        return self.ask(stream=stream)

    def invoke_with_cache_creation_input(self, *, stream=False):
        return self.ask(stream=stream)


class TestOpenAI(Asking, OverOpenAI, ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def server(self, obliging):
        self.chat_model_params = OverOpenAI.chat_model_params | {"base_url": obliging.openai_url}


class TestAnthropic(Asking, OverAnthropic, ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def server(self, obliging):
        self.chat_model_params = OverAnthropic.chat_model_params | {"base_url": obliging.url}
