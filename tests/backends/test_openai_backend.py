from __future__ import annotations

import pytest
from talking import KEY, hear

from stretto.backends.openai import OpenAIBackend
from stretto.testing.server import HttpReply, ScriptedServer

pytestmark = pytest.mark.anyio


async def test_it_streams_text_usage_and_finish_reason():
    reply = HttpReply("Hello there, world.", prompt_tokens=9, cached_tokens=4, reasoning_tokens=5)
    async with ScriptedServer(reply, headers={"x-ratelimit-remaining-requests": "7"}) as server:
        backend = OpenAIBackend("gpt-5-mini", base_url=server.openai_url, api_key=KEY)
        heard = await hear(backend)
        await backend.aclose()
    assert heard.text == "Hello there, world."
    assert heard.finish == "stop"
    assert heard.usage.model_dump(exclude_defaults=True) == {
        "prompt_tokens": 9, "completion_tokens": 8, "cached_tokens": 4, "reasoning_tokens": 5, "calls": 1,
    }  # fmt: skip
    assert heard.headers == {"x-ratelimit-remaining-requests": "7", "x-request-id": "req-1", "request-id": "req-1"}
