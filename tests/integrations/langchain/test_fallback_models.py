"""A chat model with fallbacks: strings or other chat models, also in the middle of a stream."""

import pytest
from langchain_openai import ChatOpenAI

from stretto.integrations.langchain import ChatStretto
from stretto.testing.server import Fault, HttpReply, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("connections_closed")]
QUESTION = "How do I look after a bicycle?"


async def test_another_chat_model_goes_on_in_mid_stream():
    broken = HttpReply("Oil it now and then.", fault=Fault("cut", after=3))
    async with ScriptedServer(broken) as first, ScriptedServer("now and then.") as second:
        inner, other = (ChatOpenAI(model="m", base_url=each.openai_url, api_key="any") for each in (first, second))
        chat = ChatStretto(backend=inner, fallback=[other], strategy="direct")
        pieces = [chunk async for chunk in chat.astream(QUESTION)]
    assert "".join(piece.text for piece in pieces) == "Oil it now and then."
    (warning,) = pieces[-1].response_metadata["warnings"]
    assert (warning["code"], warning["part"]) == ("fallback", "direct")


def test_a_model_by_name_has_fallbacks_by_name():
    chat = ChatStretto(model="openai:any", base_url="http://127.0.0.1:9/v1", api_key="any", fallback=["local:pocket"])
    reply = chat.bind(max_tokens=8, strategy="direct").invoke(QUESTION)
    assert reply.text
    assert reply.response_metadata["warnings"][-1]["code"] == "fallback"


@pytest.mark.parametrize(
    ("strategy", "options", "asked"),
    [
        ("consensus", {"samples": 3}, ["main"] * 3),
        ("collaborate", {"quorum": 2}, ["main", "main", "small"]),
        ("cascade", {"by": "agreement"}, ["small", "small"]),
    ],
)
async def test_what_asks_several_times_has_its_options(strategy, options, asked):
    async with ScriptedServer("Forty.") as server:
        chat = ChatStretto(
            model="openai:main",
            roles={"small": "openai:small"},
            base_url=server.openai_url,
            api_key="any",
            strategy=strategy,
            strategy_options=options,
        )
        message = await chat.ainvoke("How many thieves did Ali Baba meet?")
    assert (message.text, message.response_metadata["strategy"]) == ("Forty.", strategy)
    called = sorted(request.body["model"] for request in server.requests)
    assert set(called) == set(asked)
    assert 2 <= len(called) <= len(asked)


async def test_further_models_have_roles_by_name_or_as_chat_models():
    async with ScriptedServer("Forty.") as server:
        there = {"base_url": server.openai_url, "api_key": "any"}
        chat = ChatStretto(
            model="openai:main",
            roles={"other": ChatOpenAI(model="other", **there), "third": "openai:third"},
            strategy="collaborate",
            strategy_options={"quorum": 3},
            **there,
        )
        message = await chat.ainvoke("How many thieves did Ali Baba meet?")
    assert message.text == "Forty."
    asked = sorted(request.body["model"] for request in server.requests)
    assert asked == ["main", "main", "other", "third"], message.response_metadata["warnings"]


async def test_a_cascade_of_two_models_of_one_server():
    def reply(received):
        small = received.body["model"] == "small"
        return HttpReply("A small answer." if small else "The main answer.")

    async with ScriptedServer(reply) as server:
        chat = ChatStretto(
            model="openai:main",
            roles={"small": "openai:small"},
            base_url=server.openai_url,
            api_key="any",
            strategy="cascade",
        )
        message = await chat.ainvoke(QUESTION)
    asked = [request.body["model"] for request in server.requests]
    assert (message.text, asked) == ("A small answer.", ["small"])
    assert "openai:small" in message.response_metadata["route"]["reason"]
