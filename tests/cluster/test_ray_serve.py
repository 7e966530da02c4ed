"""The server and the local engine on a real Ray cluster of this machine."""

import json
import os
import re
import signal

import anyio
import httpx
import openai
import pytest
from patience import patience
from ray import serve
from ray_cluster import Cluster

from stretto.backends.base import ModelRequest
from stretto.integrations.ray_serve import RayOptions, build
from stretto.testing import check_backend
from stretto.testing.server import ScriptedServer
from stretto.values.errors import InvalidRequestError
from stretto.values.request import GenerationOptions, Message

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

QUESTION = "How do I look after a bicycle?"
REVIEWS = 40


def items(count):
    """A question whose answer takes a call for each of so many reviews."""
    rooms = ("clean" if number % 2 else "loud" for number in range(count))
    reviews = [f"{number}. Review {number}: the room was {room}." for number, room in enumerate(rooms, 1)]
    return "\n".join(["Say for each of these reviews whether it is positive or negative:", *reviews])


async def heard(backend, *turns, **options):
    """The text and the usage of one generation."""
    roles = ("user", "assistant") * len(turns)
    prompt = ModelRequest(tuple(Message(role=role, content=text) for role, text in zip(roles, turns, strict=False)))
    text, usage = "", None
    async with backend.stream(prompt, GenerationOptions(**options)) as chunks:
        async for chunk in chunks:
            text += chunk.text
            usage = chunk.usage or usage
    return text, usage


async def test_an_answer_in_points_streams_through_the_cluster(cluster):
    async with cluster.openai() as client:
        assert "ray:pocket" in [each.id async for each in client.models.list()]
        asked = [{"role": "user", "content": QUESTION}]
        async with client.chat.completions.stream(model="stretto-skeleton", messages=asked) as stream:
            pieces = [event.delta async for event in stream if event.type == "content.delta"]
    text = "".join(pieces)
    assert len(pieces) > 10
    assert text.startswith("1. **")
    assert "\n3. **" in text


async def test_the_replicas_keep_the_contract_of_a_backend(cluster):
    await check_backend(await cluster.backend())


async def test_the_replicas_are_one_backend_with_the_slots_of_both(cluster):
    backend = await cluster.backend()
    assert backend.capabilities.concurrent_calls == 2 * 4
    assert backend.capabilities.prompt_family == "pocket"
    await cluster.until(lambda found: len(found) == 2)


async def test_what_a_replica_refuses_is_refused_by_name(cluster):
    backend = await cluster.backend()
    with pytest.raises(InvalidRequestError, match="decoding='magic' cannot be used"):
        await heard(backend, QUESTION, decoding="magic")
    async with cluster.openai() as client:
        with pytest.raises(openai.NotFoundError, match="gpt-9"):
            await client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": QUESTION}])


async def test_the_turns_of_a_conversation_go_to_the_replica_that_has_read_them(cluster):
    backend = await cluster.backend()
    before = {each["replica"]: each["begun"] for each in await cluster.replicas()}
    used = set()
    for number in range(40):  # which replica has one goes by names that Ray draws
        question = f"How do I look after {number} bicycles, if I have little time and no tools at all for it?"
        answer, first = await heard(backend, question, max_tokens=20)
        _, second = await heard(backend, question, answer, "And in winter?", max_tokens=5)
        assert second.cached_tokens >= first.prompt_tokens / 2
        after = {each["replica"]: each["begun"] for each in await cluster.replicas()}
        assert sum(after.values()) - sum(before.values()) == 2 * (number + 1)
        used |= {replica for replica in after if after[replica] > before[replica]}
        if number >= 5 and len(used) == 2:
            break
    assert len(used) == 2  # the conversations are spread over both


async def test_a_client_that_goes_away_ends_its_generations_on_the_replicas(cluster):
    asked = {"model": "stretto-items", "messages": [{"role": "user", "content": items(200)}], "stream": True}
    before = sum(each["begun"] for each in await cluster.replicas())
    async with (
        httpx.AsyncClient(base_url=cluster.url, timeout=patience(60)) as client,
        client.stream("POST", "/v1/chat/completions", json=asked) as response,
    ):
        async for line in response.aiter_lines():
            if '"content":"' in line.replace('": "', '":"').replace('"content":""', ""):
                break
    seen = []

    def at_rest(found):
        seen.append((sum(each["running"] for each in found), sum(each["begun"] for each in found)))
        return len(seen) > 5 and len(set(seen[-5:])) == 1 and seen[-1][0] == 0  # between two items none runs, too

    await cluster.until(at_rest)
    assert seen[-1][1] - before < 200


async def test_a_replica_that_is_killed_in_mid_answer_costs_no_part_of_the_answer(cluster):
    for _ in range(8):  # the calls that it was counted with may have ended by the time it is killed
        killed, text, last = await answered_while_one_is_killed(cluster)
        assert last["finish_reason"] == "stop"
        assert [number for number in range(1, REVIEWS + 1) if f"\n{number}. " not in f"\n{text}"] == []
        assert last["warnings"] == []
        found = await cluster.until(lambda found: len(found) == 2)  # Ray starts another one
        assert killed not in [each["process"] for each in found]
        if killed is not None and last["usage"]["calls"] > REVIEWS:  # some were asked for again
            return
    pytest.fail("No replica was killed while it wrote.")


async def answered_while_one_is_killed(cluster):
    asked = {
        "model": "stretto-items",
        "messages": [{"role": "user", "content": items(REVIEWS)}],
        "stream": True,
        "stretto": {"events": True},
    }
    killed, text, last = None, "", {}
    async with (
        httpx.AsyncClient(base_url=cluster.url, timeout=patience(120)) as client,
        client.stream("POST", "/v1/chat/completions", json=asked) as response,
    ):
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("event: stretto.branch_delta") and killed is None:
                busy = max(await cluster.replicas(), key=lambda each: each["running"])
                if busy["running"] > 1:
                    killed = busy["process"]
                    os.kill(killed, signal.SIGKILL)
            if line.startswith('data: {"id"'):
                chunk = json.loads(line[6:])
                text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
                last = chunk.get("stretto") or last
    return killed, text, last


async def test_the_counters_of_all_servers_are_on_one_page(port):
    async with ScriptedServer("Hello.") as upstream:
        settings = {"base_url": upstream.openai_url}
        options = RayOptions(model="openai:scripted", servers=2, server_cpus=0.2, drain_s=2, settings=settings)
        cluster = Cluster(port, "counted", options)
        await anyio.to_thread.run_sync(lambda: serve.run(build(options), name="counted", route_prefix="/counted"))
        asked = {"model": "stretto-direct", "messages": [{"role": "user", "content": QUESTION}]}
        answers, counted = 0, {}
        with anyio.fail_after(patience(100)):
            while len(counted) < 2:  # until each of the two has answered
                async with cluster.openai() as client, httpx.AsyncClient(timeout=patience(60)) as http:
                    await client.chat.completions.create(**asked)
                    page = (await http.get(f"{cluster.url}/metrics")).text
                answers += 1
                counted = dict(re.findall(r'stretto_answers_total\{.*replica="(\w+)".*\} ([0-9.]+)', page))
                assert sum(map(float, counted.values())) == answers
        await anyio.to_thread.run_sync(lambda: serve.delete("counted"))


async def test_under_load_a_second_replica_is_added_and_used(port):
    options = RayOptions(
        engines=1,
        most_engines=2,
        concurrent_calls=2,
        cpus=0.2,
        server_cpus=0.2,
        engine={"threads": 1},
        upscale_s=1,
        drain_s=2,
    )
    cluster = Cluster(port, "scaled", options)
    await anyio.to_thread.run_sync(lambda: serve.run(build(options), name="scaled", route_prefix="/scaled"))
    backend = await cluster.backend()
    assert backend.capabilities.concurrent_calls == 2
    asking = True

    async def ask(number):
        while asking:
            await heard(backend, f"{number}. {QUESTION}", max_tokens=200)

    async with anyio.create_task_group() as clients:
        for number in range(8):
            clients.start_soon(ask, number)
        await cluster.until(lambda found: len(found) == 2 and all(each["begun"] for each in found))
        asking = False
    assert await backend.count_replicas() in (1, 2)
    with anyio.fail_after(patience(30)):
        while backend.capabilities.concurrent_calls != 4:
            await backend.count_replicas()
            await anyio.sleep(0.2)
    await anyio.to_thread.run_sync(lambda: serve.delete("scaled"))
