"""Texts that are rewritten in pieces, through `ChatStretto` and `StrettoRunnable`."""

from contextlib import aclosing

import pytest
from rewriting import RENAME, TEXT, TRANSLATE, rewritten
from serving import served
from test_chat_model import chat
from test_runnables import runnable

from stretto.testing.server import HttpReply, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("connections_closed")]
ASKED = {TRANSLATE: TEXT.upper(), RENAME: TEXT.replace("letter", "mail")}
WAYS = pytest.mark.parametrize("question", ASKED, ids=["pieces", "edits"])


@pytest.mark.thorough
@WAYS
def test_a_chat_model_invokes_and_streams(question):
    with served(rewritten) as server:
        model = chat(server, strategy="rewrite")
        assert model.invoke(question).content == ASKED[question]
        pieces = [chunk.content for chunk in model.stream(question)]
    assert "".join(pieces) == ASKED[question]
    assert sum(bool(piece) for piece in pieces) > 1


def test_batches_of_a_chat_model_and_of_a_runnable_keep_their_order():
    with served(rewritten) as server:
        messages = chat(server, strategy="rewrite").batch([*ASKED])
        answers = runnable(server, strategy="rewrite").batch([*ASKED])
    assert [message.content for message in messages] == [answer.text for answer in answers] == [*ASKED.values()]
    assert {answer.strategy for answer in answers} == {"rewrite"}


@WAYS
async def test_a_runnable_invokes_and_streams(question):
    with served(rewritten) as server:
        answer = await runnable(server, strategy="rewrite").ainvoke(question)
        (streamed,) = [each async for each in runnable(server, strategy="rewrite").astream(question)]
    assert answer.text == streamed.text == ASKED[question]


async def test_a_stream_that_is_cancelled_ends_every_call():
    def reply(received):
        said = rewritten(received)
        return said if "PARAGRAPH 0" in said else HttpReply(said, time_to_first_token_s=3600)

    async with ScriptedServer(reply) as server:
        async with aclosing(chat(server, strategy="rewrite").astream(TRANSLATE)) as chunks:
            async for chunk in chunks:
                if chunk.content:
                    break
            await server.wait_until(lambda server: len(server.requests) == 2)  # the call for terms has come, too
        await server.wait_until(lambda server: server.active_streams == 0)
