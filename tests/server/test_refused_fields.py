"""Fields that cannot be used are refused by name, as the real APIs do; those without effect are warned of."""

import json

import anthropic
import pytest
from live_server import QUESTION, in_front_of

from stretto.testing.server import RawResponse

pytestmark = pytest.mark.anyio
CHAT = {"model": "stretto", "messages": QUESTION}
ANTHROPIC = {"model": "stretto", "max_tokens": 50, "messages": QUESTION}
OWN_TOOLS = [
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {},
]


@pytest.mark.parametrize("tool", OWN_TOOLS)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_tools_that_run_at_anthropic_are_refused_elsewhere(live, tool, path):
    async with live.http() as http:
        got = await http.post(path, json=ANTHROPIC | {"tools": [tool]})
    assert got.status_code == 400
    assert got.json()["error"]["message"].startswith("tools.0.type")
    assert live.upstream.requests == []


async def test_tools_that_run_at_anthropic_go_to_anthropic():
    async with in_front_of("Hello.", provider="anthropic") as live, live.anthropic() as client:
        await client.messages.create(**ANTHROPIC, tools=OWN_TOOLS[:1])
        assert live.upstream.requests[0].body["tools"] == OWN_TOOLS[:1]


@pytest.mark.parametrize(
    ("path", "body", "tool"),
    [
        ("/v1/chat/completions", CHAT, {"type": "function", "function": {"name": "weather", "parameters": {}}}),
        ("/v1/responses", {"model": "stretto", "input": "Why?"}, {"type": "function", "name": "weather"}),
        ("/v1/messages", ANTHROPIC, {"name": "weather", "input_schema": {"type": "object"}}),
    ],
)
async def test_two_tools_of_one_name_are_refused(live, path, body, tool):
    async with live.http() as http:
        got = await http.post(path, json=body | {"tools": [tool, tool]})
    assert got.status_code == 400
    assert got.json()["error"]["message"].startswith("tools= holds two tools called 'weather'")
    assert live.upstream.requests == []


async def test_mcp_servers_are_refused_by_name(live):
    async with live.http() as http:
        servers = [{"type": "url", "url": "https://example.com/mcp", "name": "x"}]
        got = await http.post("/v1/messages", json=ANTHROPIC | {"mcp_servers": servers})
    assert (got.status_code, got.json()["error"]["message"][:12]) == (400, "mcp_servers:")
    assert live.upstream.requests == []


FEATURES = {"top_k": 5, "thinking": {"type": "enabled", "budget_tokens": 1024}, "service_tier": "standard_only"}


@pytest.mark.parametrize("stream", [False, True])
async def test_fields_of_anthropic_without_effect_are_warned_of(live, stream):
    async with live.anthropic() as client:
        if stream:
            async with client.messages.stream(**ANTHROPIC, extra_body=FEATURES) as events:
                told = [event.stretto async for event in events if event.type == "message_delta"][-1]
        else:
            told = (await client.messages.create(**ANTHROPIC, extra_body=FEATURES)).stretto
    named = [(warning["code"], warning["message"].split(" ")[0]) for warning in told["warnings"]]
    assert named == [("option", name) for name in ("top_k", "thinking.budget_tokens", "service_tier")]


async def test_a_stop_sequence_that_the_backend_does_not_tell_of_is_warned_of():
    async with in_front_of("One, two, STOP three.") as live, live.anthropic() as client:
        stopped = await client.messages.create(**ANTHROPIC, stop_sequences=["STOP"])
        free = await client.messages.create(**ANTHROPIC)
    assert (stopped.content[0].text.strip(), stopped.stop_reason) == ("One, two,", "end_turn")
    (warning,) = stopped.stretto["warnings"]
    assert (warning["code"], "stop_reason" in warning["message"]) == ("option", True)
    assert free.stretto["warnings"] == []


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])  # vLLM's name for it, and SGLang's
async def test_a_stop_sequence_that_the_backend_tells_of_is_passed_on(field):
    body = {
        "choices": [{"index": 0, "delta": {"content": "One, two, "}} | {"finish_reason": "stop", field: "STOP"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    stream = b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n"
    async with in_front_of(RawResponse([stream])) as live, live.anthropic() as client:
        answer = await client.messages.create(**ANTHROPIC, stop_sequences=["STOP"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "STOP")
    assert answer.stretto["warnings"] == []


async def test_fields_of_anthropic_go_to_anthropic_without_a_warning():
    async with in_front_of("Hello.", provider="anthropic") as live, live.anthropic() as client:
        answer = await client.messages.create(**ANTHROPIC, extra_body={"top_k": 5})
        assert live.upstream.requests[0].body["top_k"] == 5
    assert answer.stretto["warnings"] == []


@pytest.mark.parametrize(
    ("path", "beside", "named"),
    [
        ("/v1/chat/completions", {"max_tokens": True}, "max_tokens"),
        ("/v1/chat/completions", {"max_completion_tokens": True}, "max_completion_tokens"),
        ("/v1/chat/completions", {"temperature": True}, "temperature"),
        ("/v1/chat/completions", {"top_p": True}, "top_p"),
        ("/v1/chat/completions", {"seed": True}, "seed"),
        ("/v1/chat/completions", {"seed": 2**63}, "seed"),
        ("/v1/chat/completions", {"n": True}, "n"),
        ("/v1/chat/completions", {"top_logprobs": True}, "top_logprobs"),
        ("/v1/chat/completions", {"modalities": True}, "modalities"),
        ("/v1/chat/completions", {"modalities": 5}, "modalities"),
        ("/v1/chat/completions", {"tool_choice": "required"}, "tool_choice"),
        ("/v1/chat/completions", {"tools": [{}]}, "tools.0.type"),
        ("/v1/chat/completions", {"tools": [{"type": "function"}]}, "tools.0.function.name"),
        ("/v1/chat/completions", {"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name"),
        ("/v1/chat/completions", {"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": []}]}, "messages.0.content"),
        ("/v1/chat/completions", {"messages": QUESTION * 5000}, "messages"),
        ("/v1/chat/completions", {"tools": [{"type": "function", "function": {"name": "x"}}] * 5000}, "tools"),
        ("/v1/chat/completions", {"stop": ["x"] * 5000}, "stop"),
        ("/v1/chat/completions", {"stretto": {"part_tokens": True}}, "stretto.part_tokens"),
        ("/v1/completions", {"prompt": "Why?", "n": True}, "n"),
        ("/v1/completions", {"prompt": "Why?", "stop": ["x"] * 5000}, "stop"),
        ("/v1/responses", {"input": "Why?", "max_output_tokens": True}, "max_output_tokens"),
        ("/v1/responses", {"input": "Why?", "temperature": True}, "temperature"),
        ("/v1/responses", {"input": "Why?", "tool_choice": "required"}, "tool_choice"),
        ("/v1/responses", {"input": [{"role": "user", "content": []}]}, "input.0.content"),
        ("/v1/responses", {"input": [{"role": "user", "content": "x"}] * 5000}, "input"),
        ("/v1/responses", {"input": "Why?", "tools": [{"type": "function"}]}, "tools.0.function.name"),
    ],
)
async def test_a_field_that_cannot_be_used_is_named(live, path, beside, named):
    async with live.http() as http:
        got = await http.post(path, json=CHAT | beside if "chat" in path else {"model": "stretto"} | beside)
    assert got.status_code == 400, got.text
    assert got.json()["error"]["param"] == named
    assert live.upstream.requests == []


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": True}, "temperature"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": []}]}, "messages.0.content"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"stop_sequences": ["x"] * 5000}, "stop_sequences"),
    ],
)
async def test_a_field_of_anthropic_that_cannot_be_used_is_named(live, beside, named):
    async with live.http() as http:
        got = await http.post("/v1/messages", json=ANTHROPIC | beside)
    assert got.status_code == 400, got.text
    assert got.json()["error"]["message"].startswith(named)
    assert live.upstream.requests == []


@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_a_choice_among_no_tools_that_clients_send_always_is_let_through(live, choice):
    async with live.http() as http:
        assert (await http.post("/v1/chat/completions", json=CHAT | {"tool_choice": choice})).status_code == 200


async def test_the_models_hold_what_the_sdk_of_anthropic_wants_when_it_is_strict(live):
    async with live.anthropic(_strict_response_validation=True) as client:
        listed = [model async for model in client.models.list()]
        one = await client.models.retrieve("stretto")
    assert isinstance(listed[0], anthropic.types.ModelInfo)
    assert (one.id, one.lifecycle) == ("stretto", "active")
