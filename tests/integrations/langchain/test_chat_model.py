"""`ChatStretto` as LangChain's users meet it: branches in tracers, caches, fallbacks, agents, other chat models."""

import functools
import json
import operator
import re
from inspect import signature
from typing import Literal

import anyio
import anyio.lowlevel
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.tools import tool
from langchain_core.tracers import BaseTracer
from langchain_openai import ChatOpenAI
from patience import patience
from plans import ASKED, plan
from pydantic import BaseModel, Field
from serving import served

from stretto import AuthenticationError, BackendError, InvalidRequestError
from stretto.integrations.langchain import ChatStretto
from stretto.testing.server import Fault, HttpReply, RawResponse, ReplyRule, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("connections_closed")]

QUESTION = "How do I look after a bicycle?"
PLAN = plan("Clean it", "Oil it", "Check it")
KEY = "sk-test-0123456789abcdefghijkl"


def in_sections(received):
    return PLAN if ASKED in received.prompt else "Do so."


class Runs(BaseTracer):
    """Keeps the runs as a tracing service would get them."""

    def __init__(self):
        super().__init__()
        self.roots = []

    def _persist_run(self, run):
        self.roots.append(run)


def chat(server, **options):
    return ChatStretto(model="openai:gpt-4.1", base_url=server.openai_url, api_key=KEY, **options)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- branches


def shown(run, depth=0):
    yield depth, run.run_type, run.name
    for child in run.child_runs:
        yield from shown(child, depth + 1)


SECTIONS = [
    (1, "chain", "plan"),
    (1, "chain", "section: Clean it"),
    (1, "chain", "section: Oil it"),
    (1, "chain", "section: Check it"),
]


async def test_a_tracer_shows_the_sections_of_an_answer_as_child_runs():
    with served(in_sections) as server:
        traced = Runs()
        one = chat(server, strategy="skeleton").invoke(QUESTION, {"callbacks": [traced]})
        other = await chat(server, strategy="skeleton").ainvoke(QUESTION, {"callbacks": [traced]})
        streamed = functools.reduce(
            operator.add, chat(server, strategy="skeleton").stream(QUESTION, {"callbacks": [traced]})
        )
        [_ async for _ in chat(server, strategy="skeleton").astream(QUESTION, {"callbacks": [traced]})]
    assert one.content == other.content
    assert "## Clean it\n\nDo so." in one.content
    assert one.response_metadata["strategy"] == "skeleton"
    told = [(each["index"], each["heading"]) for each in one.response_metadata["sections"]]
    assert told == [(1, "Clean it"), (2, "Oil it"), (3, "Check it")]
    assert streamed.response_metadata["sections"] == one.response_metadata["sections"]
    assert len(traced.roots) == 4
    for root in traced.roots:
        assert list(shown(root)) == [(0, "llm", "ChatStretto"), *SECTIONS]
        assert all(child.end_time is not None and child.error is None for child in root.child_runs)
        assert root.child_runs[1].outputs["text"] == "Do so."
        assert root.child_runs[1].inputs == {
            "branch": "section-1",
            "kind": "section",
            "heading": "Clean it",
            "index": 1,
        }


async def test_another_chat_model_answers_in_parallel_and_its_calls_are_runs_below_the_sections():
    with served(in_sections) as server:
        backend = ChatOpenAI(model="gpt-4.1", base_url=server.openai_url, api_key=KEY, max_retries=0)
        traced, counted = Runs(), UsageMetadataCallbackHandler()
        answer = await ChatStretto(backend=backend, strategy="skeleton").ainvoke(
            QUESTION, {"callbacks": [traced, counted]}
        )
        again = ChatStretto(backend=backend, strategy="skeleton").invoke(QUESTION, {"callbacks": [traced]})
    assert answer.content == again.content
    assert answer.response_metadata["model_name"] == "langchain:gpt-4.1"
    for root in traced.roots:
        expected = [(0, "llm", "ChatStretto")]
        for section in SECTIONS:
            expected += [section, (2, "llm", "ChatOpenAI")]
        assert list(shown(root)) == expected


async def test_tokens_are_counted_once():
    with served(in_sections) as server:
        counted = UsageMetadataCallbackHandler()
        answer = chat(server, strategy="skeleton").invoke(QUESTION, {"callbacks": [counted]})
    (usage,) = counted.usage_metadata.values()
    assert usage["total_tokens"] == answer.usage_metadata["total_tokens"] > 0


async def test_the_events_of_a_chain_tell_of_sections():
    with served(in_sections) as server:
        events = [event async for event in chat(server, strategy="skeleton").astream_events(QUESTION, version="v2")]
    begun = [event["name"] for event in events if event["event"] == "on_chain_start"]
    assert begun == [name for _, _, name in SECTIONS]
    pieces = [event["data"]["chunk"].content for event in events if event["event"] == "on_chat_model_stream"]
    assert "".join(pieces).startswith("Care pays.\n\n## Clean it\n\nDo so.")


async def test_a_failed_branch_is_a_failed_run():
    with served(HttpReply("", fault=Fault("status", status=400))) as server:
        traced = Runs()
        with pytest.raises(BackendError):
            await chat(server).ainvoke("What is 2 + 2?", {"callbacks": [traced]})
    (root,) = traced.roots
    assert root.error is not None
    assert [child.error is not None for child in root.child_runs] == [True]


async def test_a_stream_that_is_left_ends_its_runs_and_its_calls():
    with served(HttpReply("one two", fault=Fault("stall", after=1))) as server:
        traced = Runs()
        stream = chat(server).astream("What is 2 + 2?", {"callbacks": [traced]})
        assert (await anext(stream)).content == "one"
        await stream.aclose()
        (root,) = traced.roots
        with anyio.fail_after(patience(10)):  # LangChain leaves the model's own generator to the event loop
            while root.child_runs[0].end_time is None:
                await anyio.lowlevel.checkpoint()
    assert root.child_runs[0].error


# --- messages


async def test_the_route_and_the_tokens_are_told():
    with served(HttpReply("Four.", prompt_tokens=9, cached_tokens=4, reasoning_tokens=2)) as server:
        answer = await chat(server).ainvoke("What is 2 + 2?")
        *_, last = [chunk async for chunk in chat(server).astream("What is 2 + 2?")]
    for message in (answer, last):
        assert message.usage_metadata["input_token_details"]["cache_read"] == 4
        assert message.usage_metadata["output_token_details"]["reasoning"] == 2
        assert message.response_metadata["route"]["strategy"] == "direct"
        assert message.response_metadata["finish_reason"] == "stop"
        json.dumps(message.response_metadata)


async def test_an_agent_calls_its_tools_and_goes_on_with_their_results(obliging):
    model = chat(obliging).bind_tools([add])
    question = HumanMessage("Add 3 to itself.")
    asked = await model.ainvoke([question])
    assert [call["name"] for call in asked.tool_calls] == ["add"]
    assert asked.response_metadata["finish_reason"] == "tool_calls"
    result = add.invoke(asked.tool_calls[0])
    final = await model.ainvoke([question, asked, result])
    assert (final.tool_calls, final.content) == ([], "Here is what you asked for.")
    sent = obliging.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"a": 3, "b": 3}
    assert sent[2]["content"] == "6"


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["local:pocket", "openai:any", ChatOpenAI(model="any", api_key=KEY)])
def test_tokens_are_counted_without_the_network(model, monkeypatch):
    """LangChain's own way fetches the tokeniser of GPT-2."""
    monkeypatch.setattr("langchain_core.language_models.base.get_tokenizer", None)
    chat = ChatStretto(backend=model) if isinstance(model, ChatOpenAI) else ChatStretto(model=model)
    short, long = [HumanMessage("Why?")], [HumanMessage("Why? " * 50), AIMessage("Because."), HumanMessage("So?")]
    assert 0 < chat.get_num_tokens_from_messages(short) < chat.get_num_tokens_from_messages(long)
    assert chat.get_num_tokens("Why?") == chat.get_num_tokens_from_messages(short)
    kept = trim_messages(long, max_tokens=40, token_counter=chat, strategy="last")
    assert [message.content for message in kept] == ["Because.", "So?"]


async def test_what_was_thought_before_a_tool_call_goes_back_with_its_result():
    from stretto import ToolCall  # noqa: PLC0415 - as below

    thinking = HttpReply(tool_calls=[ToolCall(id="1", name="add", arguments="{}")], thought="It is a sum.")
    with served(lambda got: thinking if len(got.body["messages"]) == 1 else "It is 3.") as server:
        model = ChatStretto(model="anthropic:some-model", base_url=server.url, api_key=KEY).bind_tools([add])
        first, *rest = model.stream("Add.")
        for asked in (await model.ainvoke("Add."), sum(rest, first)):
            await model.ainvoke([HumanMessage("Add."), asked, ToolMessage("3", tool_call_id="1")])
            assert server.requests[-1].body["messages"][1]["content"] == [
                {"type": "thinking", "thinking": "It is a sum.", "signature": "signed"},
                {"type": "tool_use", "id": "1", "name": "add", "input": {}},
            ]


async def test_fields_of_a_call_that_its_server_signs_go_back_with_its_result():
    """Gemini refuses the result of a tool without the signature of its call."""
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}, "extra_content": {"a": "b"}}
    said = {"role": "assistant", "tool_calls": [call | {"index": 0}]}
    body = json.dumps({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": said}]}).encode()
    signed = RawResponse([b"data: " + body + b"\n\ndata: [DONE]\n\n"])
    with served(lambda got: signed if len(got.body["messages"]) == 1 else "It is 3.") as server:
        model = chat(server).bind_tools([add])
        first, *rest = model.stream("Add.")
        for asked in (await model.ainvoke("Add."), sum(rest, first)):
            await model.ainvoke([HumanMessage("Add."), asked, ToolMessage("3", tool_call_id="1")])
            assert server.requests[-1].body["messages"][1]["tool_calls"] == [call]


async def test_arguments_that_are_no_json_are_an_invalid_tool_call():
    from stretto import ToolCall  # noqa: PLC0415 - for this test alone

    with served(HttpReply(tool_calls=[ToolCall(id="1", name="add", arguments='{"a": ')])) as server:
        answer = await chat(server).bind_tools([add]).ainvoke("Add.")
        again = (
            await chat(server)
            .bind_tools([add])
            .ainvoke([HumanMessage("Add."), answer, ToolMessage("No.", tool_call_id="1")])
        )
    assert (answer.tool_calls, answer.invalid_tool_calls[0]["args"]) == ([], '{"a": ')
    assert again.invalid_tool_calls


async def test_several_answers_are_several_generations():
    with served(HttpReply("One.", choices=["Two."])) as server:
        result = await chat(server, n=2).agenerate([[HumanMessage("Why?")]])
    assert [each.text for each in result.generations[0]] == ["One.", "Two."]


async def test_what_is_bound_goes_into_the_body():
    with served("Yes.") as server:
        model = chat(server, model_kwargs={"user": "me"}, temperature=0.5, stop=["END"])
        await model.bind(presence_penalty=0.5, top_p=0.9).ainvoke("Why?", max_tokens=7)
        body = server.requests[0].body
    assert (body["user"], body["presence_penalty"], body["top_p"], body["temperature"]) == ("me", 0.5, 0.9, 0.5)
    assert (body["stop"], body["max_tokens"]) == (["END"], 7)


async def test_the_documents_of_a_retriever_are_read(obliging):
    found = [Document("The saddle is called Bob.", metadata={"source": "names.txt"})]
    await chat(obliging).ainvoke("What is the saddle called?", documents=found, strategy="direct")
    assert re.search(r"names\.txt.*The saddle is called Bob\.", obliging.requests[-1].prompt, re.DOTALL)


# --- what LangChain does with any chat model


async def test_a_cache_answers_the_second_time():
    with served("Yes.") as server:
        model = chat(server, cache=InMemoryCache())
        first, second = model.invoke("Why?"), await model.ainvoke("Why?")
        model.invoke("Why?", temperature=0.1)
        assert len(server.requests) == 2
    assert first.content == second.content


async def test_a_rate_limiter_is_asked():
    class Asked(InMemoryRateLimiter):
        times = 0

        def acquire(self, *, blocking=True):
            self.times += 1
            return blocking

        async def aacquire(self, *, blocking=True):
            return self.acquire(blocking=blocking)

    with served("Yes.") as server:
        limiter = Asked()
        model = chat(server, rate_limiter=limiter)
        model.invoke("Why?")
        await model.ainvoke("Why?")
        list(model.stream("Why?"))
    assert limiter.times == 3


async def test_fallbacks_and_retries_work():
    with served(HttpReply("", fault=Fault("status", status=400))) as ill, served("Yes.") as well:
        assert chat(ill).with_fallbacks([chat(well)]).invoke("Why?").content == "Yes."
        calls = len(ill.requests)
        ill.requests.clear()
        retrying = chat(ill).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        with pytest.raises(BackendError):
            await retrying.ainvoke("Why?")
        assert len(ill.requests) == 2 * calls


@pytest.mark.thorough
async def test_max_retries_are_those_of_the_library():
    with served(HttpReply("", fault=Fault("status", status=500, headers={"retry-after-ms": "1"}))) as server:
        with pytest.raises(BackendError):
            chat(server, max_retries=2).invoke("Why?")
        assert len(server.requests) == 3


async def test_a_batch_is_answered_in_its_order():
    with served(lambda got: got.body["messages"][-1]["content"].upper()) as server:
        answers = await chat(server).abatch(["What is a?", "What is b?", "What is c?"])
        assert [answer.content for answer in answers] == ["WHAT IS A?", "WHAT IS B?", "WHAT IS C?"]
        assert [answer.content for answer in chat(server).batch(["What is a?"])] == ["WHAT IS A?"]


async def test_a_configured_model_keeps_its_name_in_a_trace():
    with served("Yes.") as server:
        traced = Runs()
        model = chat(server).with_config(run_name="answering", tags=["mine"], callbacks=[traced])
        model.invoke("What is 2 + 2?")
    (root,) = traced.roots
    assert (root.name, root.tags) == ("answering", ["mine"])
    assert [child.name for child in root.child_runs] == ["direct"]


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")  # it is how LangChain reads what it has written
def test_it_is_written_as_json_without_its_key_and_read_again(monkeypatch):
    model = ChatStretto(model="openai:gpt-4.1", api_key=KEY, temperature=0.5, strategy="direct")
    written = dumps(model)
    assert KEY not in written + repr(model) + str(model._identifying_params)
    secrets = {"STRETTO_API_KEY": KEY}
    allowed = {"allowed_objects": [ChatStretto]} if "allowed_objects" in signature(loads).parameters else {}
    read = loads(written, valid_namespaces=["stretto"], secrets_map=secrets, **allowed)
    assert isinstance(read, ChatStretto)
    assert read == model
    assert read.api_key.get_secret_value() == KEY


async def test_the_key_of_ones_own_server_goes_nowhere_else(monkeypatch):
    async with ScriptedServer("Yes.") as server:
        monkeypatch.setenv("STRETTO_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
            await ChatStretto(model="anthropic:claude-haiku-4-5").ainvoke("Why?")
        assert server.requests == []
    async with ScriptedServer("Yes.", key=KEY) as server:
        monkeypatch.setenv("STRETTO_BASE_URL", server.openai_url)
        assert (await ChatStretto(model="openai:some-model").ainvoke("What is 2 + 2?")).content == "Yes."


def test_local_models_of_one_name_are_one_model(pocket):
    assert ChatStretto(model="local:pocket").client() is pocket.client()
    assert ChatStretto(model="local:pocket", max_retries=1).client() is not pocket.client()


# --- structured output


class Colour(BaseModel):
    """A colour."""

    name: str


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode", None])
@pytest.mark.parametrize("strategy", ["auto", "skeleton"])
async def test_values_are_taken_out_of_answers_also_where_others_are_written_in_parts(obliging, method, strategy):
    model = chat(obliging, strategy=strategy).with_structured_output(Colour, method=method)
    assert (await model.ainvoke("Give JSON with 'name'.")) == Colour(
        name="name" if method != "json_mode" else "as asked"
    )
    raw = (
        chat(obliging).with_structured_output(Colour, method=method, include_raw=True).invoke("Give JSON with 'name'.")
    )
    assert isinstance(raw["raw"], AIMessage)
    assert (raw["parsing_error"], type(raw["parsed"])) == (None, Colour)


class Town(BaseModel):
    """A page of a travel guide."""

    name: str
    history: str = Field(description="Two paragraphs")
    sights: str = Field(description="Two paragraphs")
    food: str = Field(description="Two paragraphs")


@pytest.mark.parametrize("options", [{"preference": "fastest"}, {"strategy": "fields"}])
def test_a_record_with_long_fields_is_written_field_by_field(options):
    long = [ReplyRule(f"only the field `{name}` now", f'{{"{name}": "On {name}."}}') for name in ("sights", "food")]
    first = '{"name": "Vell", "history": "On history."}'
    with served([ReplyRule("only these fields now", first), *long]) as server:
        model = chat(server, **options).with_structured_output(Town, method="json_schema")
        assert model.invoke("Describe Vell.") == Town(
            name="Vell", history="On history.", sights="On sights.", food="On food."
        )
        assert len(server.requests) == 3 + (options == {"strategy": "fields"})  # which also agrees on what they tell


@pytest.mark.parametrize("strict", [None, True, False])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
async def test_strict_reaches_the_server_as_it_was_given(obliging, method, strict):
    model = chat(obliging).with_structured_output(Colour, method=method, strict=strict)
    await model.ainvoke("Give JSON with 'name'.")
    body = obliging.requests[-1].body
    sent = body["response_format"]["json_schema"] if method == "json_schema" else body["tools"][0]["function"]
    assert sent.get("strict", False) is (strict or False)


async def test_what_does_not_fit_is_told_with_the_raw_answer():
    with served("no JSON") as server:
        found = chat(server).with_structured_output(Colour, include_raw=True).invoke("Which?")
    assert (found["parsed"], found["raw"].content) == (None, "no JSON")
    assert "Invalid json output" in str(found["parsing_error"])


def test_an_unknown_method_is_named(obliging):
    with pytest.raises(InvalidRequestError, match=r"method='xml' is not known\. Use one of: json_schema"):
        chat(obliging).with_structured_output(Colour, method="xml")


class Verdict(BaseModel):
    """Whether it is so."""

    sure: bool
    answer: Literal["yes", "no"]


@pytest.mark.thorough
def test_a_local_model_is_held_to_a_schema(pocket):
    found = pocket.with_structured_output(Verdict).invoke("Does a chain need oil?", temperature=0, max_tokens=64)
    assert isinstance(found, Verdict)


async def test_samples_that_agree_are_an_answer_with_its_agreement():
    with served(HttpReply("Four.")) as server:
        options = {"strategy": "consensus", "strategy_options": {"samples": 3}}
        answer = await chat(server, **options).ainvoke("What is 2 + 2?")
    assert answer.content == "Four."
    assert answer.response_metadata["agreement"]["samples"] == 3
    json.dumps(answer.response_metadata)
