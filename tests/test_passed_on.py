"""What an answer in parts would spoil goes to the model as it is: tools, images, several answers, a begun answer."""

import json

import pytest

from stretto import (
    AsyncStretto,
    ChoiceDelta,
    InvalidRequestError,
    Message,
    Request,
    TextDelta,
    ThoughtFinished,
    ToolCall,
    ToolCallDelta,
)
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import Fault, HttpReply, RawResponse, ScriptedServer

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}
ANTHROPIC_ADD = {"name": "add", "description": "Adds.", "input_schema": PARAMETERS}
CALLS = [ToolCall(id="one", name="add", arguments='{"a": 1, "b": 22222}'), ToolCall(id="two", name="now")]
PNG = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}}
ANTHROPIC_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
USED = [
    {"role": "user", "content": "What is 1 + 2?"},
    {"role": "assistant", "content": None, "tool_calls": [CALLS[0].as_openai()]},
    {"role": "tool", "tool_call_id": "one", "content": "3"},
]
ANTHROPIC_USED = [
    {"role": "user", "content": "What is 1 + 2?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "one", "name": "add", "input": {"a": 1, "b": 22222}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "one", "content": "3"}]},
]


def client(server, provider):
    url = server.openai_url if provider == "openai" else server.url
    return AsyncStretto(f"{provider}:some-model", base_url=url, api_key="none")


async def asked(reply, prompt, provider="openai", **options):
    """The answer, its events, and the body of the first call."""
    async with ScriptedServer(reply) as server, client(server, provider) as stretto:
        async with stretto.stream(prompt, **options) as stream:
            events = [event async for event in stream]
        return stream.answer, events, server.requests[0].body


# --- tools


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_tool_calls_stream_back_as_they_come(provider):
    reply = HttpReply("Let me see.", tool_calls=CALLS)
    answer, events, body = await asked(reply, QUESTION, provider, tools=[ADD], tool_choice="required")
    assert (answer.route.strategy, answer.route.code, "tools come" in answer.route.reason) == ("direct", "whole", True)
    assert (answer.text, answer.finish_reason) == ("Let me see.", "tool_calls")
    assert answer.tool_calls == (CALLS[0], ToolCall(id="two", name="now", arguments="{}"))
    pieces = [event.delta for event in events if isinstance(event, ToolCallDelta)]
    assert next(piece.name for piece in pieces if piece.index == 0) == "add"
    assert "".join(piece.arguments for piece in pieces if piece.index == 0) == CALLS[0].arguments
    assert len([piece for piece in pieces if piece.index == 0]) > 2  # streamed, not handed over whole
    kinds = [event.type for event in events]
    assert max(at for at, kind in enumerate(kinds) if kind == "text_delta") < kinds.index("tool_call_delta")
    assert body["tools"] == ([ADD] if provider == "openai" else [ANTHROPIC_ADD])
    assert body["tool_choice"] == ("required" if provider == "openai" else {"type": "any"})
    assert answer.branches[0].tool_calls == answer.tool_calls
    assert answer.warnings == ()


@pytest.mark.parametrize("prompt", [USED, ANTHROPIC_USED])
@pytest.mark.parametrize("tool", [ADD, ANTHROPIC_ADD])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_results_of_tools_reach_each_provider_in_its_form(provider, tool, prompt):
    answer, _, body = await asked("It is 3.", prompt, provider, tools=[tool])
    assert (answer.text, answer.finish_reason, answer.tool_calls) == ("It is 3.", "stop", ())
    assert body["messages"] == (USED if provider == "openai" else ANTHROPIC_USED)
    assert body["tools"] == ([ADD] if provider == "openai" else [ANTHROPIC_ADD])


async def test_the_results_of_tools_alone_are_reason_enough_to_pass_the_request_on():
    answer, _, _ = await asked("It is 3.", [*USED, {"role": "user", "content": QUESTION}])
    assert (answer.route.strategy, answer.route.code, "results" in answer.route.reason) == ("direct", "whole", True)


@pytest.mark.parametrize("strategy", ["skeleton", "items"])
async def test_a_strategy_that_would_write_parts_gives_way_to_tools(strategy):
    answer, _, _ = await asked(HttpReply(tool_calls=CALLS), QUESTION, tools=[ADD], strategy=strategy)
    assert (answer.strategy, answer.route.code) == ("direct", "whole")
    assert len(answer.tool_calls) == 2


@pytest.mark.parametrize(
    ("given", "openai", "anthropic"),
    [
        ("none", "none", {"type": "none"}),
        ({"type": "function", "function": {"name": "add"}}, None, {"type": "tool", "name": "add"}),
        ({"type": "any"}, "required", {"type": "any"}),
        ({"type": "tool", "name": "add"}, {"type": "function", "function": {"name": "add"}}, None),
    ],
)
async def test_the_choice_among_tools_is_translated(given, openai, anthropic):
    for provider, expected in (("openai", openai), ("anthropic", anthropic)):
        _, _, body = await asked("Yes.", QUESTION, provider, tools=[ADD], tool_choice=given)
        assert body["tool_choice"] == (expected or given)


async def test_one_tool_call_at_a_time_is_asked_for_in_each_form():
    _, _, body = await asked("Yes.", QUESTION, "anthropic", tools=[ADD], extra={"parallel_tool_calls": False})
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    _, _, body = await asked("Yes.", QUESTION, tools=[ADD], tool_choice=choice)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("auto", False)


async def test_a_tool_with_free_input_is_openais_own():
    call = ToolCall(id="one", name="sql", arguments="select 1", type="custom")
    tool = {"type": "custom", "custom": {"name": "sql"}}
    answer, _, body = await asked(HttpReply(tool_calls=[call]), QUESTION, tools=[tool])
    assert answer.tool_calls == (call,)
    assert body["tools"] == [tool]


async def test_a_broken_stream_does_not_tell_its_tool_calls_twice():
    reply = HttpReply("A few words.", tool_calls=CALLS, fault=Fault("cut", after=2))
    answer, _, _ = await asked(reply, QUESTION, tools=[ADD])
    assert answer.finish_reason == "error"
    assert answer.text == "A few"


async def test_a_model_without_tools_is_named():
    async with AsyncStretto(ScriptedBackend({"": "Yes."})) as stretto:
        with pytest.raises(InvalidRequestError, match=r"tools= cannot be used: scripted:model takes no tools"):
            await stretto.ask(QUESTION, tools=[ADD])
        with pytest.raises(InvalidRequestError, match=r"'image_url', and scripted:model reads text only"):
            await stretto.ask([{"role": "user", "content": [IMAGE]}])


async def test_a_scripted_backend_calls_tools():
    backend = ScriptedBackend({"": Reply("Let me see.", tool_calls=CALLS)}, capabilities=Capabilities(tools=True))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, tools=[ADD], tool_choice="auto")
    assert [call.name for call in answer.tool_calls] == ["add", "now"]
    assert answer.finish_reason == "tool_calls"
    prompt, _ = backend.calls[0]
    assert (prompt.tools, prompt.tool_choice) == ((ADD,), "auto")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_what_was_thought_before_a_tool_call_goes_back_with_its_result(provider):
    reply = HttpReply("Let me see.", tool_calls=CALLS[:1], thought="It is a sum.")
    answer, _, _ = await asked(reply, QUESTION, provider, tools=[ADD])
    (thought,) = answer.thoughts
    result = {"role": "tool", "tool_call_id": "one", "content": "3"}
    _, _, body = await asked(
        "It is 3.", [{"role": "user", "content": QUESTION}, answer.turn, result], provider, tools=[ADD]
    )
    turn = body["messages"][1]
    if provider == "openai":
        assert thought == {"type": "reasoning_content", "reasoning_content": "It is a sum."}
        assert turn == {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "It is a sum.",
            "tool_calls": [CALLS[0].as_openai()],
        }
    else:
        assert thought == {"type": "thinking", "thinking": "It is a sum.", "signature": "signed"}
        assert turn["content"][:2] == [thought, {"type": "text", "text": "Let me see."}]
        assert turn["content"][2]["type"] == "tool_use"


@pytest.mark.parametrize("stream", [True, False])
async def test_fields_of_a_call_that_its_server_signs_go_back_with_it(stream):
    """Gemini refuses the result of a tool without the signature that came with its call."""
    signed = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
    call = CALLS[0].as_openai() | {"index": 0} | signed
    said = {"role": "assistant", "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "delta" if stream else "message": said}
    body = json.dumps({"choices": [choice]}).encode()
    reply = (
        RawResponse([b"data: " + body + b"\n\ndata: [DONE]\n\n"])
        if stream
        else RawResponse([body], headers={"content-type": "application/json"})
    )
    answer, events, _ = await asked(reply, QUESTION, tools=[ADD])
    assert answer.tool_calls == (CALLS[0].model_copy(update={"extra": signed}),)
    assert [event.delta.extra for event in events if isinstance(event, ToolCallDelta)] == [signed]
    assert answer.turn["tool_calls"] == [CALLS[0].as_openai() | signed]
    result = {"role": "tool", "tool_call_id": "one", "content": "3"}
    _, _, body = await asked("3.", [{"role": "user", "content": QUESTION}, answer.turn, result], tools=[ADD])
    assert body["messages"][1]["tool_calls"] == [CALLS[0].as_openai() | signed]


async def test_what_was_thought_before_a_text_is_told_and_not_sent_back():
    answer, events, _ = await asked(HttpReply("Yes.", thought="Hm."), QUESTION, "anthropic", tools=[ADD])
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
    assert (answer.text, answer.thoughts) == ("Yes.", (thought,))
    assert [event.thought for event in events if isinstance(event, ThoughtFinished)] == [thought]
    kinds = [event.type for event in events]
    assert kinds.index("thought_finished") < kinds.index("text_delta")
    assert answer.turn == {"role": "assistant", "content": "Yes."}


async def test_parts_of_an_answer_tell_no_thoughts():
    outline = "1. Tyres\n2. Chain\n3. Bell\n"

    def reply(request):
        return HttpReply(outline if "Write only the outline" in request.prompt else "Oil it.", thought="Hm.")

    async with (
        ScriptedServer(reply) as server,
        client(server, "openai") as stretto,
        stretto.stream(QUESTION, strategy="skeleton", strategy_options={"form": "points"}) as stream,
    ):
        events = [event async for event in stream]
    assert stream.answer.strategy == "skeleton"
    assert not [event for event in events if isinstance(event, ThoughtFinished)]
    assert stream.answer.thoughts == ()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_refusal_in_the_models_own_words_is_told_before_its_text(provider):
    """Only OpenAI tells them apart; what Anthropic stops is the answer so far."""
    answer, events, _ = await asked(HttpReply("I cannot.", finish="refusal"), QUESTION, provider, tools=[ADD])
    told = [event.type for event in events if event.type in ("refusal_started", "text_delta")]
    assert ("refusal_started" in told) == answer.branches[0].refused == (provider == "openai")
    assert provider == "anthropic" or told[0] == "refusal_started"


async def test_an_answer_in_one_body_keeps_the_order_of_its_blocks():
    """Some servers answer a request for a stream in one piece."""
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "Yes."},
    ]
    body = {"type": "message", "content": blocks, "stop_reason": "end_turn", "usage": {"output_tokens": 2}}
    whole = RawResponse([json.dumps(body).encode()], headers={"content-type": "application/json"})
    answer, events, _ = await asked(whole, QUESTION, "anthropic", tools=[ADD])
    kinds = [event.type for event in events]
    assert (answer.text, answer.thoughts) == ("Yes.", (blocks[0],))
    assert kinds.index("thought_finished") < kinds.index("text_delta")


# --- images, files, sound


@pytest.mark.parametrize("image", [IMAGE, ANTHROPIC_IMAGE])
async def test_images_are_passed_on(image):
    prompt = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    answer, _, body = await asked("A cat.", prompt)
    assert (answer.route.code, "an image" in answer.route.reason) == ("whole", True)
    parts = body["messages"][0]["content"]
    assert parts[0] == {"type": "text", "text": "What is this?"}
    assert parts[1] == IMAGE if image is IMAGE else parts[1]["image_url"] == {"url": IMAGE["image_url"]["url"]}
    _, _, body = await asked("A cat.", prompt, "anthropic")
    assert body["messages"][0]["content"] == [{"type": "text", "text": "What is this?"}, ANTHROPIC_IMAGE]


@pytest.mark.parametrize("kind", ["input_audio", "file", "video_url", "something_new"])
async def test_other_kinds_of_parts_are_passed_on_as_they_are(kind):
    part = {"type": kind, kind: {"data": "AAAA"}}
    _, _, body = await asked("A cat.", [{"role": "user", "content": [part]}])
    assert body["messages"] == [{"role": "user", "content": [part]}]


async def test_documents_among_the_parts_keep_their_kind():
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}, "title": "a"}
    prompt = [{"role": "user", "content": [pdf, text, {"type": "text", "text": "What?"}]}]
    _, _, body = await asked("That.", prompt, "anthropic")
    assert body["messages"][0]["content"] == [pdf | {"title": "document"}, text, {"type": "text", "text": "What?"}]
    _, _, body = await asked("That.", prompt)
    assert body["messages"][0]["content"][0]["file"]["file_data"] == "data:application/pdf;base64,AA=="


async def test_the_documents_of_a_request_stand_before_the_parts_of_the_question():
    prompt = [{"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE]}]
    _, _, body = await asked("That.", prompt, documents="A text.")
    kinds = [(part["type"], "A text." in part.get("text", "")) for part in body["messages"][0]["content"]]
    assert kinds == [("text", True), ("text", False), ("image_url", False)]


async def test_thinking_that_anthropic_signed_goes_back_to_it():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
    prompt = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "2"}]},
    ]
    _, _, body = await asked("3.", [*prompt, {"role": "user", "content": "And?"}], "anthropic")
    assert body["messages"][1]["content"] == [thought, {"type": "text", "text": "2"}]
    _, _, body = await asked("3.", [*prompt, {"role": "user", "content": "And?"}])
    assert body["messages"][1]["content"] == [{"type": "text", "text": "2"}]


async def test_a_mark_for_the_cache_does_not_keep_an_answer_from_being_written_in_parts():
    part = {"type": "text", "text": QUESTION, "cache_control": {"type": "ephemeral"}}
    async with AsyncStretto("openai:gpt-5.4-mini", api_key="none") as stretto:
        assert (await stretto.route([{"role": "user", "content": [part]}], preference="fastest")).strategy == "skeleton"


# --- several answers


async def test_several_answers_come_in_one_call_where_the_server_writes_them():
    answer, events, body = await asked(
        HttpReply("One.", choices=["Two of them."]),
        QUESTION,
        n=2,
        strategy="skeleton",
        strategy_options={"form": "points"},
    )
    assert body["n"] == 2
    assert answer.usage.calls == 1
    assert (answer.text, [choice.text for choice in answer.choices]) == ("One.", ["One.", "Two of them."])
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "One."
    assert "".join(event.text for event in events if isinstance(event, ChoiceDelta)) == "Two of them."
    assert answer.warnings == ()


async def test_several_answers_are_several_calls_elsewhere():
    texts = iter(["One.", "Two.", "Three."])
    answer, events, body = await asked(lambda _: next(texts), QUESTION, "anthropic", n=3)
    assert "n" not in body
    assert answer.usage.calls == 3
    assert sorted(choice.text for choice in answer.choices) == ["One.", "Three.", "Two."]
    assert answer.choices[0].text == answer.text
    assert {event.choice for event in events if isinstance(event, ChoiceDelta)} == {1, 2}


async def test_each_answer_has_tool_calls_of_its_own():
    other = HttpReply(tool_calls=[ToolCall(id="three", name="now", arguments="{}")])
    answer, events, _ = await asked(HttpReply(tool_calls=CALLS[:1], choices=[other]), QUESTION, n=2, tools=[ADD])
    assert [[call.id for call in choice.tool_calls] for choice in answer.choices] == [["one"], ["three"]]
    assert {event.choice for event in events if isinstance(event, ToolCallDelta)} == {0, 1}
    assert {choice.finish_reason for choice in answer.choices} == {"tool_calls"}


async def test_a_server_that_gives_fewer_answers_is_told_of():
    def one(received):
        received.body.pop("n")
        return "One."

    answer, _, _ = await asked(one, QUESTION, n=2)
    assert (answer.text, len(answer.choices)) == ("One.", 1)
    assert answer.warnings == ("n=2 was asked for, and openai:some-model gave one answer.",)


# --- a begun answer


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_turn_of_the_assistant_at_the_end_is_passed_on(provider):
    prompt = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "First,"}]
    answer, _, body = await asked(" oil the chain.", prompt, provider)
    assert body["messages"] == prompt
    assert answer.text == " oil the chain."
    assert (answer.route.code, "the assistant's" in answer.route.reason) == ("whole", True)


async def test_what_is_passed_on_may_be_answered_with_nothing():
    prompt = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Oil the chain."}]
    answer, _, _ = await asked("", prompt)
    assert (answer.text, answer.finish_reason) == ("", "stop")


async def test_a_conversation_without_a_question_is_passed_on():
    answer, _, body = await asked("Hello.", [{"role": "system", "content": "Greet."}])
    assert (answer.text, body["messages"]) == ("Hello.", [{"role": "system", "content": "Greet."}])


async def test_a_turn_that_says_nothing_is_passed_on():
    turns = [{"role": "user", "content": ""}]
    answer, _, body = await asked("Hello.", turns)
    assert (answer.text, body["messages"]) == ("Hello.", turns)
    assert (answer.route.code, "is empty" in answer.route.reason) == ("whole", True)


# --- other fields


async def test_other_fields_of_the_body_are_passed_on():
    extra = {"logit_bias": {"50256": -100}, "presence_penalty": 0.5, "user": "me", "something_new": [1]}
    answer, _, body = await asked("Yes.", QUESTION, extra=extra)
    assert {name: body[name] for name in extra} == extra
    assert (answer.route.code, "'logit_bias'" in answer.route.reason) == ("whole", True)


async def test_fields_that_mean_the_same_for_a_part_go_with_every_call():
    outline = "1. Clean it\n2. Oil it\n3. Check it"
    extra = {"user": "me", "metadata": {"team": "a"}}
    async with ScriptedServer(lambda got: outline if "outline" in got.prompt else "Do so.") as server:
        async with client(server, "openai") as stretto:
            answer = await stretto.ask(QUESTION, extra=extra, strategy="skeleton", strategy_options={"form": "points"})
        assert len(server.requests) > 1
        assert all((got.body["user"], got.body["metadata"]) == ("me", {"team": "a"}) for got in server.requests)
    assert answer.strategy == "skeleton"


async def test_what_anthropic_has_another_name_for_is_translated_and_the_rest_is_named():
    extra = {"user": "me", "logit_bias": {"1": 1}, "thinking": {"type": "adaptive"}, "top_k": 5}
    answer, _, body = await asked("Yes.", QUESTION, "anthropic", extra=extra)
    assert (body["metadata"], body["thinking"], body["top_k"]) == ({"user_id": "me"}, {"type": "adaptive"}, 5)
    assert [(warning.code, warning.split()[0]) for warning in answer.warnings] == [("option", "logit_bias")]


async def test_unknown_fields_of_a_message_are_passed_on():
    prompt = [
        {"role": "user", "content": "Hm?"},
        {"role": "assistant", "content": "Hm.", "reasoning_content": "Well."},
        {"role": "user", "content": QUESTION},
    ]
    _, _, body = await asked("Yes.", prompt, strategy="direct")
    assert body["messages"] == prompt


async def test_the_words_of_a_spoken_answer_are_its_text():
    from stretto.testing.server import RawResponse  # noqa: PLC0415 - for this test alone

    message = {"role": "assistant", "content": None, "audio": {"id": "a", "data": "AAAA", "transcript": "Hello."}}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    reply = RawResponse([json.dumps(body).encode()], headers={"content-type": "application/json"})
    answer, _, _ = await asked(reply, QUESTION, extra={"modalities": ["text", "audio"]})
    assert answer.text == "Hello."
    assert "transcript" in answer.warnings[0]


async def test_a_filter_is_told_from_a_refusal():
    answer, _, _ = await asked(HttpReply("I", finish="filtered"), QUESTION, strategy="direct")
    assert answer.finish_reason == "content_filter"
    assert [(warning.code, "The filter" in warning) for warning in answer.warnings] == [("refusal", True)]


# --- how requests are read


def test_a_message_survives_json():
    for message in Request.of(USED + ANTHROPIC_USED).messages:
        assert Message.model_validate_json(message.model_dump_json()) == message
    request = Request.of(USED, tools=[ADD], n=2, extra={"user": "me"}, tool_choice="auto")
    assert Request.model_validate_json(request.model_dump_json()) == request


def test_a_request_to_change_keeps_its_tools():
    request = Request.of(Request.of(QUESTION, tools=[ADD], n=3, extra={"user": "me"}), extra={"store": True})
    assert (request.tools, request.n, request.extra) == ((ADD,), 3, {"user": "me", "store": True})


def test_texts_deep_in_a_request_have_no_halves_of_characters():
    request = Request.of([{"role": "user", "content": [{"type": "file", "file": {"filename": "a\ud83d"}}]}])
    assert request.messages[0].parts[0]["file"]["filename"] == "a\ufffd"


@pytest.mark.parametrize(
    ("prompt", "options", "says"),
    [
        ([{"role": "user", "contnt": "x"}], {}, r"A message of the user has no content \(it has contnt\)"),
        ([{"role": "user", "content": [{"type": "text"}]}], {}, "A message has a part .* which cannot be read"),
        ([{"role": "user", "content": [7]}], {}, "A message has a part 7, which cannot be read"),
        ([], {}, "The request has no messages"),
        ("  ", {"extra": {"user": "me"}}, "The prompt is empty"),
        ("Why?", {"tools": ["add"]}, "tools= holds 'add', which is not a tool"),
        ("Why?", {"tools": "add"}, "tools='add' cannot be used"),
        ("Why?", {"n": 0}, "n=0 cannot be used"),
        ("Why?", {"extra": {"temperature": 1}}, "extra= holds 'temperature', which is a separate argument"),
        ("Why?", {"extra": {"model": "x"}}, "extra= holds 'model', which is the client's"),
        ("Why?", {"extra": ["x"]}, "extra=.* cannot be used"),
    ],
)
def test_what_cannot_be_read_is_named(prompt, options, says):
    with pytest.raises(InvalidRequestError, match=says):
        Request.of(prompt, **options)
