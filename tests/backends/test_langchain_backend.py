import anyio
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from talking import KEY, Heard, hear

from stretto import AsyncStretto, RequestRejectedError, ToolCall
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import AuthenticationError, BackendError, ServerFailedError, StreamBrokenError
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio


def chat(server, **changes):
    settings = {"model": "gpt-4.1", "base_url": server.openai_url, "api_key": KEY, "max_retries": 0}
    return ChatOpenAI(**(settings | changes))


async def test_a_model_of_langchain_core_streams():
    heard = await hear(open_backend(FakeListChatModel(responses=["Hello there"])))
    assert (heard.text, heard.finish, heard.usage.calls) == ("Hello there", "stop", 1)


async def test_a_message_with_blocks_is_read():
    model = GenericFakeChatModel(messages=iter([AIMessage(content="Hello there")]))
    assert (await hear(open_backend(model))).text == "Hello there"


async def test_chat_openai_streams_usage_and_finish_reason():
    async with ScriptedServer(HttpReply("one two three", prompt_tokens=9, cached_tokens=4)) as server:
        heard = await hear(open_backend(chat(server)), options=GenerationOptions(max_tokens=2, temperature=0.5))
    assert (heard.text, heard.finish) == ("one two", "length")
    assert (heard.usage.prompt_tokens, heard.usage.completion_tokens, heard.usage.cached_tokens) == (9, 2, 4)
    assert server.requests[0].body["temperature"] == 0.5


async def test_a_model_that_has_a_field_for_usage_and_no_argument_is_not_given_one():
    class Strict(FakeListChatModel):
        stream_usage: bool = True  # as ChatOpenRouter has it, whose stream passes arguments on to an SDK

        async def _astream(self, *_, **__):
            yield ChatGenerationChunk(message=AIMessageChunk("Hello there"))

    assert (await hear(open_backend(Strict(responses=[])))).text == "Hello there"


async def test_a_refused_parameter_is_left_out_and_remembered():
    async with ScriptedServer(rejects=("top_p",)) as server:
        backend = open_backend(chat(server))
        for _ in range(2):
            assert (await hear(backend, options=GenerationOptions(top_p=0.5))).text == "OK."
    assert ["top_p" in request.body for request in server.requests] == [True, False, False]


async def test_a_failure_is_retried_by_exactly_one_layer():
    quick = Resilience(attempts=3, first_wait_s=0.001)
    async with ScriptedServer() as server:
        server.script(*[Fault("status", status=500)] * 3)
        with pytest.raises(ServerFailedError):
            await hear(open_backend(chat(server), resilience=quick))
        assert len(server.requests) == 3
        server.requests.clear()
        server.script(*[Fault("status", status=500, headers={"retry-after-ms": "1"})] * 3)
        with pytest.raises(ServerFailedError):
            await hear(open_backend(chat(server, max_retries=1), resilience=quick))
        assert len(server.requests) == 2


async def test_a_refused_key_is_ours_and_hidden():
    async with ScriptedServer(key="sk-another-key-0123456789") as server:
        with pytest.raises(AuthenticationError) as caught:
            await hear(open_backend(chat(server)))
    assert KEY not in str(caught.value) + repr(vars(caught.value))


async def test_a_stream_cut_off_is_noticed():
    async with ScriptedServer("one two three") as server:
        server.script(Fault("cut", after=2))
        heard = Heard()
        with pytest.raises(StreamBrokenError):
            await hear(open_backend(chat(server)), heard=heard)
    assert heard.text == "one two"


async def test_leaving_early_ends_the_call_at_the_server():
    async with ScriptedServer("one two three") as server:
        server.script(Fault("stall", after=2))
        async with anyio.create_task_group() as callers:
            callers.start_soon(hear, open_backend(chat(server)))
            await server.wait_until(lambda server: server.active_streams == 1)
            callers.cancel_scope.cancel()
        await server.wait_until(lambda server: server.active_streams == 0)


async def test_an_error_of_an_unknown_kind_is_still_ours():
    model = GenericFakeChatModel(messages=iter([]))
    with pytest.raises(BackendError, match="langchain:GenericFakeChatModel"):
        await hear(open_backend(model))


async def test_a_model_of_langchain_that_takes_no_stop_texts_is_cut_here_and_its_options_are_named():
    class Deaf(GenericFakeChatModel):
        model_name: str = "gpt-5-mini"

    model = Deaf(messages=iter([AIMessage(content="one two END three")]))
    async with AsyncStretto(open_backend(model)) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", stop="END", temperature=0.5)
    assert (answer.text, answer.finish_reason) == ("one two ", "stop")
    assert [(warning.code, "temperature=0.5" in warning) for warning in answer.warnings] == [("option", True)]


# --- tools and the whole conversation

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = ToolCall(id="one", name="add", arguments='{"a": 1}')


async def test_tools_are_bound_and_their_calls_stream_back():
    reply = HttpReply("Let me see.", tool_calls=[CALL])
    async with ScriptedServer(reply) as server, AsyncStretto(chat(server)) as stretto:
        answer = await stretto.ask("What is 1?", tools=[ADD], tool_choice="required")
    assert (answer.text, answer.tool_calls, answer.finish_reason) == ("Let me see.", (CALL,), "tool_calls")
    body = server.requests[0].body
    assert (body["tools"], body["tool_choice"]) == ([ADD], "required")


async def test_the_conversation_goes_on_as_it_is():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    sent = [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [CALL.as_openai()]},
        {"role": "tool", "content": "A cat.", "tool_call_id": "one"},
    ]
    async with ScriptedServer("A cat.") as server, AsyncStretto(chat(server)) as stretto:
        answer = await stretto.ask(sent, tools=[ADD], extra={"presence_penalty": 0.5})
    assert answer.text == "A cat."
    assert server.requests[0].body["messages"] == sent
    assert server.requests[0].body["presence_penalty"] == 0.5


async def test_a_model_that_gives_its_calls_whole_is_read():
    call = {"name": "add", "args": {"a": 1}, "id": "one", "type": "tool_call"}

    class Whole(GenericFakeChatModel):
        disable_streaming: bool = True

        def bind_tools(self, *_, **__):
            return self

    model = Whole(messages=iter([AIMessage(content="", tool_calls=[call])]))
    async with AsyncStretto(model) as stretto:
        answer = await stretto.ask("What is 1?", tools=[ADD])
    assert (answer.tool_calls, answer.finish_reason) == ((CALL,), "tool_calls")


async def test_a_chat_model_without_tools_is_named():
    async with AsyncStretto(FakeListChatModel(responses=["Yes."])) as stretto:
        with pytest.raises(RequestRejectedError, match="langchain:FakeListChatModel takes no tools"):
            await stretto.ask("What is 1?", tools=[ADD])
