"""The name stretto-cascade: a small model answers, or the main one."""

import openai
import pytest
from live_server import QUESTION, serving

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


def client_of(check):
    main = ScriptedBackend({"": "The main answer."}, name="own:main")
    script = {"Is this answer correct": check, "": "A small answer."}
    small = ScriptedBackend(script, name="own:small", capabilities=Capabilities(json_schema=True))
    return AsyncStretto(main, roles={"small": small})


@pytest.mark.parametrize(
    ("check", "text"), [('{"stands": true}', "A small answer."), ('{"stands": false}', "The main answer.")]
)
async def test_its_name_asks_the_small_model_first_and_the_route_says_why(check, text):
    async with serving(client_of(check)) as live, live.openai() as client:
        names = [model.id async for model in await client.models.list()]
        completion = await client.chat.completions.create(model="stretto-cascade", messages=QUESTION)
    assert "stretto-cascade" in names
    assert completion.choices[0].message.content == text
    assert "own:small" in completion.model_extra["stretto"]["route"]["reason"]


async def test_without_a_small_model_it_is_refused_with_the_remedy():
    async with serving(AsyncStretto(ScriptedBackend({"": "Hello."}))) as live, live.openai() as client:
        with pytest.raises(openai.BadRequestError, match="needs a smaller model"):
            await client.chat.completions.create(model="stretto-cascade", messages=QUESTION)
