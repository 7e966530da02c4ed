"""A server whose model fails answers by its fallback, unless a client has named the model."""

import openai
import pytest
from live_server import QUESTION, serving

from stretto import AsyncStretto
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import AuthenticationError, ServerFailedError, StreamBrokenError

pytestmark = pytest.mark.anyio


def client_of(*replies):
    backends = [ScriptedBackend({"": reply}, name=f"own:{name}") for name, reply in zip("ab", replies, strict=True)]
    return AsyncStretto(backends[0], fallback=backends[1:])


BROKEN = Reply(chunks=["Oil", " it", " now"], fault=StreamBrokenError("It broke off."), fault_after=2)


async def test_a_stream_that_breaks_off_goes_on_and_the_field_stretto_says_so():
    async with serving(client_of(BROKEN, "it and then.")) as live, live.openai() as client:
        stream = await client.chat.completions.create(model="stretto-direct", messages=QUESTION, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Oil it and then."
    said = "The answer was continued by own:b, where own:a broke off: It broke off."
    assert chunks[-1].model_extra["stretto"]["warnings"] == [{"code": "fallback", "message": said, "part": "direct"}]


async def test_a_model_that_is_named_answers_alone():
    fails = Reply(fault=ServerFailedError("own:a is down."))
    async with serving(client_of(fails, "Yes.")) as live, live.openai() as client:
        for name in ("own:a", "stretto:own:a"):
            with pytest.raises(openai.APIStatusError, match="own:a is down"):
                await client.chat.completions.create(model=name, messages=QUESTION)


async def test_where_all_models_fail_the_status_is_that_of_the_first():
    down, locked = Reply(fault=ServerFailedError("a is down.")), Reply(fault=AuthenticationError("b is locked."))
    async with serving(client_of(down, locked)) as live, live.openai() as client:
        with pytest.raises(openai.APIStatusError, match=r"own:a: a is down\. own:b: b is locked") as caught:
            await client.chat.completions.create(model="stretto-direct", messages=QUESTION)
    assert (caught.value.status_code, caught.value.code) == (502, "backend_failed")
