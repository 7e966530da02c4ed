import asyncio
import json
import subprocess
import sys

import anthropic
import httpx2
import openai
import pytest
from talking import KEY

from stretto.testing.server import HttpReply, ReplyRule, ScriptedServer

pytestmark = pytest.mark.anyio

HELLO = [{"role": "user", "content": "Hello"}]


async def test_the_openai_sdk_gets_an_answer_in_one_piece():
    async with (
        ScriptedServer("one two", key=KEY) as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key=KEY) as client,
    ):
        answer = await client.chat.completions.create(model="m", messages=HELLO)
        models = await client.models.list()
    assert answer.choices[0].message.content == "one two"
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("stop", 2)
    assert [model.id for model in models.data] == ["scripted"]


async def test_the_anthropic_sdk_gets_an_answer_in_one_piece_and_its_own_stream():
    async with (
        ScriptedServer("one two", key=KEY) as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY) as client,
    ):
        answer = await client.messages.create(model="m", messages=HELLO, max_tokens=9)
        async with client.messages.stream(model="m", messages=HELLO, max_tokens=1) as stream:
            final = await stream.get_final_message()
    assert (answer.content[0].text, answer.stop_reason) == ("one two", "end_turn")
    assert (final.content[0].text, final.stop_reason) == ("one", "max_tokens")


async def test_tokens_are_words_or_of_a_given_length():
    for characters, tokens in ((None, ["one", " two", "\nthree"]), (4, ["one ", "two\n", "thre", "e"])):
        async with (
            ScriptedServer("one two\nthree", token_characters=characters) as server,
            openai.AsyncOpenAI(base_url=server.openai_url, api_key="k") as client,
        ):
            stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
            pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
        assert [piece for piece in pieces if piece] == tokens


async def test_replies_follow_rules_callables_and_the_requests_bounds():
    rules = [ReplyRule("colou?r", HttpReply("blue then red")), ReplyRule("", "Something.")]
    async with ScriptedServer(rules) as server, openai.AsyncOpenAI(base_url=server.openai_url, api_key="k") as client:

        async def ask(text, **options):
            messages = [{"role": "user", "content": text}]
            answer = await client.chat.completions.create(model="m", messages=messages, **options)
            return answer.choices[0].message.content

        assert await ask("Which color?") == "blue then red"
        assert await ask("Which color?", stop=" then") == "blue"
        assert await ask("What else?") == "Something."
    async with (
        ScriptedServer(lambda request: request.prompt.upper()) as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key="k") as client,
    ):
        answer = await client.chat.completions.create(model="m", messages=HELLO)
    assert answer.choices[0].message.content == "HELLO"


async def test_a_mistake_in_the_script_reaches_the_client():
    async with (
        ScriptedServer(lambda request: {}["reply"]) as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError, match="KeyError"):
            await client.chat.completions.create(model="m", messages=HELLO)


async def test_health_and_unknown_paths():
    async with ScriptedServer() as server, httpx2.AsyncClient() as client:
        assert (await client.get(f"{server.url}/health")).json() == {"status": "ok"}
        missing = await client.get(f"{server.url}/nothing")
    assert missing.status_code == 404
    assert "/nothing" in missing.json()["error"]["message"]


async def test_tokens_are_paced_by_absolute_time():
    async with (
        ScriptedServer("a b c d e", time_to_first_token_s=0.05, tokens_per_second=100) as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key="k") as client,
    ):
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        assert "".join([e.choices[0].delta.content or "" async for e in stream if e.choices]) == "a b c d e"
    request = server.requests[0]
    assert request.first_token_s - request.arrived_s >= 0.05
    assert request.ended_s - request.arrived_s >= 0.09


async def test_the_key_is_not_recorded():
    async with ScriptedServer() as server, openai.AsyncOpenAI(base_url=server.openai_url, api_key=KEY) as client:
        await client.chat.completions.create(model="m", messages=HELLO)
    assert KEY not in repr(server.requests)


@pytest.mark.thorough
async def test_it_serves_in_a_process_of_its_own_and_writes_down_when(tmp_path):
    script, record = tmp_path / "replies.json", tmp_path / "times.jsonl"
    command = [sys.executable, "-m", "stretto.testing", "--time-to-first-token", "0", "--replies", str(script)]
    script.write_text('[{"pattern": "Hello", "reply": "one two"}]')
    process = subprocess.Popen(  # noqa: ASYNC220 - our own code, and it answers at once
        [*command, "--exact", "--record", str(record)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        base_url = (await asyncio.to_thread(process.stdout.readline)).strip()
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            answers = [
                [event async for event in await client.chat.completions.create(model="m", messages=HELLO, stream=True)]
                for _ in range(2)  # the second is asked for when the first has ended, and so is written down
            ]
        process.terminate()
    assert "".join(event.choices[0].delta.content or "" for event in answers[0]) == "one two"
    first = json.loads(record.read_text().splitlines()[0])
    assert first["prompt"] == "Hello"
    assert first["arrived_s"] <= first["tokens_s"][0] <= first["tokens_s"][1] <= first["ended_s"]
