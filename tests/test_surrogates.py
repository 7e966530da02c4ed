"""Halves of characters, which servers cut in two and no encoding takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from stretto import AsyncStretto, Request, TokenLogprob
from stretto.backends.base import Capabilities, Chunk
from stretto.foundation.surrogates import Mending, fix_surrogates
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import ScriptedServer
from stretto.values.errors import ServerFailedError
from stretto.values.events import Event

PIECES = st.lists(st.text(st.characters(categories=("Cs", "L", "So")), max_size=4), max_size=8)


@pytest.mark.anyio
async def test_a_pair_that_was_cut_in_two_is_one_character_again_and_a_half_is_replaced():
    backend = ScriptedBackend({"": Reply(chunks=("a \ud83d", "\ude00 b", " \ud83d"))})
    async with AsyncStretto(backend) as stretto, stretto.stream("Why?", strategy="direct") as stream:
        events = [event async for event in stream]
    assert events[-1].answer.text == "a 😀 b �"
    for event in events:
        assert TypeAdapter(Event).validate_json(event.model_dump_json()) == event


@pytest.mark.anyio
async def test_warnings_errors_titles_and_scores_can_be_written_down_too():
    class Odd(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            scores = (TokenLogprob(token="\ud83d", logprob=-1.0, top=(("\ude00", -1.0),)),)  # noqa: S106 - a piece of text
            yield Chunk(warnings=("odd \ud83d",), logprobs=scores)
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk

    script = {
        "point 1,|part on": Reply(fault=ServerFailedError("down \ud83d")),
        "point 2,": "Fine.",
        "": "1. A\ud83d\n2. B",
    }
    async with AsyncStretto(Odd(script, capabilities=Capabilities(logprobs=True))) as stretto:
        answer = await stretto.ask(
            "How do I make tea \ud83d?", strategy="skeleton", strategy_options={"form": "points"}, logprobs=1
        )
    assert json.loads(answer.model_dump_json())["branches"][1]["heading"] == "A�"


def test_a_prompt_can_be_sent_whatever_it_was_read_from():
    request = Request.of("name\udcff", documents=["text\udcff"])
    assert request.question == "name�"
    request.model_dump_json()


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("option", [{"stop": ["\ud83d"]}, {"tool_choice": "\ud83d"}])
async def test_options_can_be_sent_whatever_they_were_read_from(provider, option):
    async with ScriptedServer("Yes.") as server:
        url = server.openai_url if provider == "openai" else server.url
        async with AsyncStretto(f"{provider}:scripted", base_url=url, api_key="key") as stretto:
            assert (await stretto.ask("Why?", strategy="direct", **option)).text == "Yes."


@pytest.mark.anyio
@pytest.mark.parametrize("wanted", ["array", "object"])
async def test_an_answer_whose_json_escapes_half_a_character_is_checked(wanted):
    backend = ScriptedBackend({"": '{"a": "\\ud83d"}'})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", response_format={"type": wanted})
    assert answer.parsed == (None if wanted == "array" else {"a": "�"})
    assert ("format" in [warning.code for warning in answer.warnings]) == (wanted == "array")


@given(PIECES)
def test_any_cutting_gives_the_same_text_and_it_can_be_encoded(pieces):
    mending = Mending()
    text = "".join([*map(mending.feed, pieces), mending.finish()])
    assert text == fix_surrogates("".join(pieces))
    text.encode()
