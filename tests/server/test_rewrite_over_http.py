"""Texts that are rewritten in pieces, for programs that know only OpenAI's API."""

import json

import pytest
from live_server import in_front_of, until
from rewriting import RENAME, TEXT, TRANSLATE, rewritten

from stretto.testing.server import HttpReply

pytestmark = pytest.mark.anyio
RENAMED = TEXT.replace("letter", "mail")


def asked(question):
    return [{"role": "user", "content": question}]


@pytest.mark.parametrize(("question", "text"), [(TRANSLATE, TEXT.upper()), (RENAME, RENAMED)], ids=["pieces", "edits"])
@pytest.mark.parametrize("model", ["stretto", "stretto-rewrite"])
async def test_openais_sdk_gets_the_whole_text(model, question, text):
    async with in_front_of(rewritten) as live, live.openai() as client:
        answer = await client.chat.completions.create(model=model, messages=asked(question))
    assert answer.choices[0].message.content == text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model_extra["stretto"]["strategy"] == "rewrite"
    assert answer.usage.completion_tokens > 0


@pytest.mark.parametrize(("question", "text"), [(TRANSLATE, TEXT.upper()), (RENAME, RENAMED)], ids=["pieces", "edits"])
async def test_openais_sdk_streams_the_text_in_order(question, text):
    async with in_front_of(rewritten) as live, live.openai() as client:
        stream = await client.chat.completions.create(model="stretto-rewrite", messages=asked(question), stream=True)
        chunks = [chunk async for chunk in stream]
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == text
    assert sum(bool(piece) for piece in pieces) > 1
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


async def test_a_stream_with_all_events_tells_each_change_behind_its_text():
    body = {"model": "stretto-rewrite", "messages": asked(RENAME), "stream": True, "stretto": {"events": True}}
    async with in_front_of(rewritten) as live, live.http() as http:
        answer = await http.post("/v1/chat/completions", json=body)
    text, edits, name = "", [], ""
    for line in answer.text.splitlines():
        name = line.removeprefix("event: ") if line.startswith("event: ") else name if line else ""
        if not line.startswith("data: {"):
            continue
        data = json.loads(line.removeprefix("data: "))
        if name == "stretto.text_edited":
            assert text[data["start"] :].startswith(data["new"])
            edits.append((data["old"], data["new"]))
        elif not name and data["choices"]:
            text += data["choices"][0]["delta"].get("content") or ""
    assert set(edits) == {("letter", "mail")}
    assert len(edits) == TEXT.count("letter")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_ends_the_answer_as_one_in_one_piece_does(stream):
    sorry = "I'm sorry, but I can't help with that."
    async with in_front_of(sorry) as live, live.openai() as client:
        found = await client.chat.completions.create(model="stretto-rewrite", messages=asked(TRANSLATE), stream=stream)
        if stream:
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in found if chunk.choices])
        else:
            text = found.choices[0].message.content
    assert text == sorry


async def test_a_client_that_goes_away_ends_every_call():
    def reply(received):
        said = rewritten(received)
        return said if "PARAGRAPH 0" in said else HttpReply(said, time_to_first_token_s=3600)

    async with in_front_of(reply) as live, live.openai() as client:
        stream = await client.chat.completions.create(model="stretto-rewrite", messages=asked(TRANSLATE), stream=True)
        text = ""
        async for chunk in stream:
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            if text:
                break
        await stream.close()
        await live.upstream.wait_until(lambda upstream: upstream.active_streams == 0)
        await until(lambda: not live.service.admission.running)
    assert TEXT.upper().startswith(text)
