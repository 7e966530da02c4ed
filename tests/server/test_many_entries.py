"""Bodies of many messages, tools or stop texts are read beside the other requests, or refused by their number."""

import gc
import sys
import threading

import anyio
import pytest
from live_server import in_front_of, serving

from stretto import AsyncStretto
from stretto.foundation.bounds import MOST
from stretto.server.apis.chat import read_chat
from stretto.server.app import create_app
from stretto.server.running import _prepare
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio
TURN = {"role": "user", "content": "Why?"}


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        ("/v1/chat/completions", {"messages": [TURN] * (MOST["messages"] + 1)}, "messages"),
        ("/v1/messages", {"messages": [TURN] * (MOST["messages"] + 1), "max_tokens": 9}, "messages"),
        ("/v1/chat/completions", {"messages": [TURN], "stop": ["x"] * (MOST["stop"] + 1)}, "stop"),
        (
            "/v1/chat/completions",
            {"messages": [TURN], "tools": [{"type": "function", "function": {"name": "f"}}] * (MOST["tools"] + 1)},
            "tools",
        ),
    ],
)
async def test_more_than_a_request_may_hold_is_a_400(path, fields, name):
    async with in_front_of("Hello.") as live, live.http() as http:
        response = await http.post(path, json={"model": "stretto", **fields})
    assert response.status_code == 400
    assert f"{name} holds {MOST[name] + 1:,} entries" in response.json()["error"]["message"]
    assert live.upstream.requests == []


async def test_a_long_body_is_read_in_a_thread(monkeypatch):
    read_in = []

    def seen(*arguments):
        read_in.append(threading.current_thread())
        return read_chat(*arguments)

    monkeypatch.setattr("stretto.server.app.read_chat", seen)
    async with in_front_of("Hello.") as live, live.http() as http:
        for count in (1, 1_000):
            asked = {"model": "stretto-direct", "messages": [TURN] * count}
            assert (await http.post("/v1/chat/completions", json=asked)).status_code == 200
    assert [thread is threading.current_thread() for thread in read_in] == [True, False]


@pytest.mark.thorough
@pytest.mark.leaping
async def test_a_strategy_that_works_past_its_deadline_is_a_504():
    class Slow:
        name = "slow"

        def offer(self, case):  # noqa: ARG002 - the protocol's arguments
            return None

        async def run(self, request, route, runner):  # noqa: ARG002 - as above
            await anyio.sleep_forever()

    async with (
        AsyncStretto(ScriptedBackend({"": "Yes."}), strategies=[Slow()]) as client,
        serving(client) as live,
        live.http() as http,
    ):
        asked = {"model": "stretto", "messages": [TURN], "stretto": {"strategy": "slow", "deadline_s": 0.05}}
        response = await http.post("/v1/chat/completions", json=asked)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")


class LoadsAhead(ScriptedBackend):
    loaded = False

    async def load_ahead(self):
        self.loaded = True


async def test_what_the_first_answer_needs_is_loaded_before_the_first_question():
    backend = LoadsAhead({"": "Yes."})
    async with AsyncStretto(backend) as client:
        service = create_app(client).state.service
        await service.prepare()
    assert service.prepared
    assert backend.loaded


async def test_what_was_imported_is_no_part_of_later_garbage_collections():
    async with AsyncStretto("openai:some-model", base_url="http://127.0.0.1:9/v1", api_key="any") as client:
        service = create_app(client).state.service
        before, made = gc.get_freeze_count(), [[number] for number in range(20_000)]  # as an import makes them
        await _prepare(service)
        assert gc.get_freeze_count() > before + len(made) // 2
        assert "openai.resources.chat.completions.completions" in sys.modules
