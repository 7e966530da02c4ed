"""``consensus`` and ``collaborate`` as models of the server."""

import json

import pytest
from live_server import QUESTION, in_front_of

from stretto.testing.server import Fault, HttpReply

pytestmark = pytest.mark.anyio


def by_turns(*texts):
    """What a scripted server answers, one text for each further call; the last one stays."""
    left = list(texts)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def test_the_name_of_the_strategy_is_a_model(live):
    async with live.http() as http:
        body = {"model": "stretto-consensus", "messages": QUESTION, "stretto": {"strategy_options": {"samples": 3}}}
        got = (await http.post("/v1/chat/completions", json=body)).json()
        listed = {model["id"] for model in (await http.get("/v1/models")).json()["data"]}
    assert got["choices"][0]["message"]["content"] == "Hello there, you."
    assert got["stretto"]["agreement"]["samples"] == 3
    assert got["stretto"]["agreement"]["share"] == 1
    assert {"stretto-consensus", "stretto-collaborate"} <= listed


async def test_votes_are_events_of_the_stream(live):
    asked = {"events": True, "strategy_options": {"samples": 3, "certainty": 1}}
    async with live.http() as http:
        body = {"model": "stretto-consensus", "stream": True, "messages": QUESTION, "stretto": asked}
        text = (await http.post("/v1/chat/completions", json=body)).text
    told = [line for line in text.splitlines() if line.startswith("data: {") and '"vote_counted"' in line]
    assert len(told) >= 2
    assert json.loads(told[0].removeprefix("data: "))["vote"] == "hello"  # the others are function words


async def test_a_real_stream_that_breaks_off_has_no_vote():
    broken = HttpReply("Hello there", fault=Fault("reset", after=1))
    async with in_front_of(by_turns(broken, "Yes.", "Yes.")) as live, live.http() as http:
        asked = {"strategy_options": {"samples": 3, "certainty": 1}, "max_parallel_parts": 1}
        body = {"model": "stretto-consensus", "messages": QUESTION, "stretto": asked}
        got = (await http.post("/v1/chat/completions", json=body)).json()
    assert got["choices"][0]["message"]["content"] == "Yes."
    assert got["stretto"]["agreement"]["failed"] == 1


async def test_several_drafts_become_one_answer_and_a_wrong_option_is_refused(live):
    async with live.http() as http:
        got = (
            await http.post("/v1/chat/completions", json={"model": "stretto-collaborate", "messages": QUESTION})
        ).json()
        body = {"model": "stretto-collaborate", "messages": QUESTION, "stretto": {"strategy_options": {"quorum": 0}}}
        refused = await http.post("/v1/chat/completions", json=body)
    assert got["choices"][0]["message"]["content"] == "Hello there, you."
    assert got["stretto"]["strategy"] == "collaborate"
    assert refused.status_code == 400
    assert "quorum=0" in refused.json()["error"]["message"]
