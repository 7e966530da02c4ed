"""Streams as OpenAI's and Anthropic's APIs write them, event by event, and what a backend makes of them."""

import json
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from talking import KEY, Heard, asking, hear

from stretto.backends.providers.anthropic import AnthropicBackend
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.errors import BackendError
from stretto.values.request import GenerationOptions

ONCE = Resilience(attempts=1, breaker_faults=1000)


def events(*data):
    return b"".join(
        b"data: " + (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n\n" for each in data
    )


def named(*data):
    return b"".join(b"event: %b\n" % each["type"].encode() + events(each) for each in data)


class OpenAI:
    connect, model = OpenAIBackend, "openai:llama-3.1"  # whose text is passed on at once

    @staticmethod
    def url(server):
        return server.openai_url

    @staticmethod
    def delta(text, index=0):
        return events({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]})

    @staticmethod
    def start():
        return b""

    @staticmethod
    def finish(usage=None):
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return events(end) + (events({"choices": [], "usage": usage}) if usage is not None else b"")

    @staticmethod
    def error(said):
        return events({"error": {"message": said}})

    @staticmethod
    def whole(text):
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        }

    done = events(b"[DONE]")
    usage: ClassVar = {"prompt_tokens": 3, "completion_tokens": 2}


class Anthropic:
    connect, model = AnthropicBackend, "anthropic:claude-haiku-4-5"

    @staticmethod
    def url(server):
        return server.url

    @staticmethod
    def delta(text, index=0):
        return named(
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}},
        )

    @staticmethod
    def start(usage=None):
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
        return named({"type": "message_start", "message": message | ({} if usage is None else {"usage": usage})})

    @staticmethod
    def finish(usage=None):
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        return named(end | ({} if usage is None else {"usage": usage}))

    @staticmethod
    def error(said):
        return named({"type": "error", "error": {"message": said}})

    @staticmethod
    def whole(text):
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }

    done = named({"type": "message_stop"})
    usage: ClassVar = {"input_tokens": 3, "output_tokens": 2}


def raw(*pieces, **how):
    return RawResponse([piece for piece in pieces if piece], **how)


def body(data, kind="application/json", **how):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return RawResponse([data], headers={"content-type": kind}, **how)


@asynccontextmanager
async def talk(api, reply, policy=ONCE, key=KEY):
    async with ScriptedServer(reply) as server:
        backend = open_backend(api.model, base_url=api.url(server), api_key=key, resilience=policy)
        yield backend, server
        await backend.aclose()


async def listen(api, reply, **how):
    """Text, finish and warnings of one answer."""
    async with talk(api, reply) as (backend, _):
        text, finish, warnings = "", None, []
        async with backend.stream(asking(), GenerationOptions(**how)) as chunks:
            async for chunk in chunks:
                text += chunk.text
                finish = chunk.finish_reason or finish
                warnings += chunk.warnings
        return text, finish, warnings


async def fail(api, reply, kind=BackendError, key=KEY, **how):
    """The error of one answer and the text before it."""
    heard = Heard()
    async with talk(api, reply, key=key) as (backend, _):
        with pytest.raises(kind) as caught:
            await hear(backend, options=GenerationOptions(**how), heard=heard)
    return caught.value, heard.text
