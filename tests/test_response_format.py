"""Answers held to a format: what the caller says, and what reaches the backend."""

import json
from contextlib import aclosing, asynccontextmanager
from typing import Literal

import pytest
from pydantic import BaseModel, field_validator

from stretto import Answer, AsyncStretto, Budget, Request, TextDelta
from stretto.backends.base import Capabilities, Chunk
from stretto.strategies.structured.fitting import fit
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import InvalidRequestError, RequestRejectedError, ServerFailedError
from stretto.values.request import GenerationOptions
from stretto.values.tool_calls import ToolCall

pytestmark = pytest.mark.anyio


class Part(BaseModel):
    name: str = "chain"


class Verdict(BaseModel):
    kind: Literal["good", "bad"]
    stars: int
    parts: list[Part] = []


async def ask(backend, question="Is this bicycle any good?", **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **options)


async def test_a_pydantic_model_reaches_the_backend_as_a_schema_that_allows_nothing_else():
    backend = ScriptedBackend({"": '{"kind": "good", "stars": 5}'}, capabilities=Capabilities(json_schema=True))
    answer = await ask(backend, response_format=Verdict)
    assert Verdict.model_validate_json(answer.text).stars == 5
    schema = backend.calls[0][0].response_schema
    assert schema["properties"] == Verdict.model_json_schema()["properties"]
    assert schema["required"] == ["kind", "stars", "parts"]
    assert schema["$defs"]["Part"]["required"] == ["name"]
    assert schema["additionalProperties"] is schema["$defs"]["Part"]["additionalProperties"] is False


async def test_a_list_that_would_be_written_in_parts_comes_in_one_piece():
    backend = ScriptedBackend({"": "[]"}, capabilities=Capabilities(json_schema=True))
    answer = await ask(backend, "Give me ten tips for looking after a bicycle.", response_format={"type": "array"})
    assert answer.route.strategy == "direct"
    assert len(backend.calls) == 1
    assert backend.calls[0][0].response_schema == {"type": "array"}


async def test_a_backend_that_takes_no_expressions_is_not_asked():
    backend = ScriptedBackend({"": "5"})
    with pytest.raises(InvalidRequestError, match=r"is a regular expression, and .* cannot"):
        await ask(backend, response_format="[0-9]+")
    assert backend.calls == []


def test_a_strategy_that_writes_in_parts_is_refused():
    with pytest.raises(InvalidRequestError, match="strategy='skeleton' writes it in parts"):
        Request.of("Why?", response_format=Verdict, strategy="skeleton")


def test_a_request_with_a_format_is_a_value_like_any_other():
    request = Request.of("Why?", response_format=Verdict)
    assert Request.model_validate_json(request.model_dump_json()) == request
    with pytest.raises(InvalidRequestError, match="response_format"):
        Request.of("Why?", response_format=17)


SCHEMA = {"type": "object", "properties": {"stars": {"type": "integer", "maximum": 5}}, "required": ["stars"]}
FORMATS = Capabilities(json_schema=True)
AGAIN = "That cannot be used"


def answering(first, second):
    return ScriptedBackend({AGAIN: second, "": first}, capabilities=FORMATS)


async def test_an_answer_that_is_no_json_is_asked_for_once_more_with_what_was_wrong():
    backend = answering("not json", '{"stars": 4}')
    answer = await ask(backend, response_format=SCHEMA)
    assert (answer.text, answer.parsed, answer.finish_reason) == ('{"stars": 4}', {"stars": 4}, "stop")
    assert answer.warnings == ()
    again = backend.calls[1][0]
    assert "not json" in again.messages[-1].content
    assert "it is not valid JSON" in again.messages[-1].content
    assert again.response_schema == SCHEMA
    assert answer.usage.discarded_tokens > 0


async def test_an_answer_that_does_not_fit_the_schema_is_asked_for_once_more():
    backend = answering('{"stars": 7}', '{"stars": 5}')
    answer = await ask(backend, response_format=SCHEMA)
    assert answer.parsed == {"stars": 5}
    assert "stars: 7 is greater than the maximum of 5" in backend.calls[1][0].messages[-1].content


async def test_an_answer_that_never_fits_is_handed_out_with_a_warning_and_without_a_value():
    answer = await ask(answering("no", "[still no"), response_format=SCHEMA)
    assert answer.text == "[still no"
    assert answer.parsed is None
    assert answer.warnings[0].code == "format"


async def test_where_the_second_try_fails_the_first_answer_stays():
    backend = ScriptedBackend({AGAIN: Reply(fault=ServerFailedError("down")), "": "no"}, capabilities=FORMATS)
    answer = await ask(backend, response_format=SCHEMA)
    assert (answer.text, answer.finish_reason, answer.parsed) == ("no", "stop", None)
    assert [warning.code for warning in answer.warnings] == ["format"]


async def test_without_a_call_left_in_the_budget_it_is_not_asked_for_again():
    backend = answering("no", '{"stars": 5}')
    answer = await ask(backend, response_format=SCHEMA, budget=Budget(max_calls=1))
    assert (answer.text, len(backend.calls), answer.finish_reason) == ("no", 1, "stop")
    assert [warning.code for warning in answer.warnings] == ["format"]


async def test_an_answer_cut_by_its_length_is_not_asked_for_again():
    backend = answering(Reply('{"stars": ', finish_reason="length"), '{"stars": 5}')
    answer = await ask(backend, response_format=SCHEMA, max_tokens=9)
    assert (len(backend.calls), answer.finish_reason, answer.parsed) == (1, "length", None)
    assert [warning.code for warning in answer.warnings] == ["format", "part_cut"]


async def test_a_pydantic_model_comes_back_as_an_instance_of_itself():
    answer = await ask(answering("no", '{"kind": "good", "stars": 5, "parts": []}'), response_format=Verdict)
    assert answer.parsed == Verdict(kind="good", stars=5)


async def test_a_pydantic_models_own_checks_count():
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def _even(cls, value):
            if value % 2:
                raise ValueError("it is odd")
            return value

    backend = answering('{"number": 3}', '{"number": 4}')
    assert (await ask(backend, response_format=Even)).parsed.number == 4
    assert "it is odd" in backend.calls[1][0].messages[-1].content


async def test_an_answer_with_a_value_is_still_json():
    answer = await ask(answering('{"kind": "good", "stars": 5}', ""), response_format=Verdict)
    read = Answer.model_validate_json(answer.model_dump_json())
    assert (read.text, read.parsed) == (answer.text, None)


async def test_what_streams_is_only_the_answer_that_fits():
    backend = answering("no", '{"stars": 4}')
    async with AsyncStretto(backend) as stretto, stretto.stream("Any good?", response_format=SCHEMA) as events:
        pieces = [event.text async for event in events if isinstance(event, TextDelta)]
    assert "".join(pieces) == events.answer.text == '{"stars": 4}'


async def test_a_backend_that_draws_only_what_fits_streams_at_once_and_is_asked_once():
    able = Capabilities(json_schema=True, regex=True)
    backend = ScriptedBackend({"": Reply("12", chunks=("1", "2"))}, capabilities=able)
    async with AsyncStretto(backend) as stretto, stretto.stream("How many?", response_format="[0-9]+") as events:
        pieces = [event.text async for event in events if isinstance(event, TextDelta)]
    assert pieces == ["1", "2"]
    assert events.answer.parsed == "12"
    backend = ScriptedBackend({"": "a lot"}, capabilities=able)
    answer = await ask(backend, response_format="[0-9]+")
    assert (len(backend.calls), answer.parsed) == (1, None)
    assert answer.warnings == ("The answer does not fit response_format: it does not match '[0-9]+'.",)


class Grammar(ScriptedBackend):
    """Holds answers to a schema, but for one keyword."""

    @asynccontextmanager
    async def stream(self, prompt, options):
        async with super().stream(prompt, options) as chunks:

            async def named():
                yield Chunk(unheld=("uniqueItems", "not"))
                async for chunk in chunks:
                    yield chunk

            async with aclosing(named()) as named_chunks:
                yield named_chunks


UNIQUE = {"type": "array", "uniqueItems": True}
UNHELD = (
    "scripted:model cannot be constrained to uniqueItems and not of response_format while it writes: the answer "
    "comes in one piece, after a check."
)


async def test_what_a_grammar_does_not_hold_is_checked_and_asked_for_once_more_before_anything_is_shown():
    able = Capabilities(json_schema=True, regex=True)
    backend = Grammar({AGAIN: Reply("[1, 2]", chunks=("[1", ", 2]")), "": "[1, 1]"}, capabilities=able)
    async with AsyncStretto(backend) as stretto, stretto.stream("Which?", response_format=UNIQUE) as events:
        pieces = [event.text async for event in events if isinstance(event, TextDelta)]
    assert pieces == ["[1, 2]"]
    assert (events.answer.parsed, events.answer.warnings, len(backend.calls)) == ([1, 2], (UNHELD,), 2)
    assert "has non-unique elements" in backend.calls[1][0].messages[-1].content


async def test_what_a_grammar_does_not_hold_and_no_try_fits_is_told():
    able = Capabilities(json_schema=True, regex=True)
    for budget, calls in ((Budget(), 2), (Budget(max_calls=1), 1)):
        backend = Grammar({"": "[1, 1]"}, capabilities=able)
        answer = await ask(backend, response_format=UNIQUE, budget=budget)
        assert (answer.text, answer.parsed, len(backend.calls)) == ("[1, 1]", None, calls)
        assert [warning.code for warning in answer.warnings] == ["format", "format"]
        assert "non-unique" in answer.warnings[1]


@pytest.mark.thorough
async def test_a_local_model_names_what_its_grammar_does_not_hold():
    schema = {"type": "array", "items": {"enum": ["red", "blue"]}, "uniqueItems": True, "minItems": 2}
    async with AsyncStretto("local:pocket") as stretto:
        answer = await stretto.ask("Which colours?", response_format=schema)
        plain = await stretto.ask("Which colours?", response_format={"format": "a-form-of-our-own", "enum": ["red"]})
    assert len(json.loads(answer.text)) == 2  # there are no more different ones
    assert (answer.warnings[0].code, "uniqueItems" in answer.warnings[0]) == ("format", True)
    assert (answer.parsed is None) == (answer.text in {'["red", "red"]', '["blue", "blue"]'})
    assert (plain.parsed, plain.warnings) == ("red", ())


async def test_tool_calls_beside_a_format_come_where_no_text_does():
    call = ToolCall(id="1", name="look", arguments="{}")
    able = Capabilities(json_schema=True, regex=True, tools=True)
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    for kind in (ScriptedBackend, Grammar):
        backend = kind({"": Reply(tool_calls=[call], finish_reason="tool_calls")}, capabilities=able)
        answer = await ask(backend, response_format=UNIQUE, tools=[tool])
        assert [each.name for each in answer.tool_calls] == ["look"]


@pytest.mark.thorough
async def test_a_local_model_hands_out_its_value_too():
    async with AsyncStretto("local:pocket") as stretto:
        matched = await stretto.ask("How many?", response_format="[0-9]{3}")
        verdict = await stretto.ask("Any good?", response_format=Verdict, max_tokens=200)
    assert (matched.parsed, matched.usage.calls) == (matched.text, 1)
    assert verdict.finish_reason != "stop" or isinstance(verdict.parsed, Verdict)
    assert verdict.usage.calls == 1


async def test_a_schema_whose_pattern_is_of_another_dialect_goes_out_and_the_answer_is_not_checked():
    answer = await ask(answering("{}", ""), response_format={"pattern": r"\Z"})
    assert answer.parsed == {}
    (warning,) = answer.warnings
    assert warning.code == "format"
    assert 'is not a "regex"' in warning


async def test_an_answer_nested_without_end_is_asked_for_once_more():
    """jsonschema-rs cannot say what is wrong with 255 levels, and more than its stack holds would end the process."""
    for written in ("[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300):
        backend = answering(written, '{"stars": 4}')
        answer = await ask(backend, response_format=SCHEMA)
        assert answer.parsed == {"stars": 4}
        assert "it is nested deeper than 150 levels" in backend.calls[1][0].messages[-1].content


def test_a_request_that_is_changed_keeps_its_model():
    request = Request.of(Request.of("Why?", response_format=Verdict), seed=3)
    assert request.options.response_model is Verdict
    assert Request.of(request, response_format={"type": "array"}).options.response_model is None


def system_of(prompt):
    return [message.content for message in prompt.messages if message.role == "system"]


async def test_a_model_that_is_not_known_to_keep_to_a_schema_is_told_it_in_words_and_checked():
    backend = ScriptedBackend({AGAIN: '{"stars": 4}', "": '{"stars": 7}'})
    question = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Any good?"}]
    answer = await ask(backend, question, response_format=SCHEMA)
    assert (answer.text, answer.parsed, answer.warnings) == ('{"stars": 4}', {"stars": 4}, ())
    for prompt, _ in backend.calls:
        (system,) = system_of(prompt)
        assert system.startswith("Be kind.\n\n")
        assert json.dumps(SCHEMA) in system
    knowing = ScriptedBackend({"": '{"stars": 4}'}, capabilities=FORMATS)
    await ask(knowing, question, response_format=SCHEMA)
    assert system_of(knowing.calls[0][0]) == ["Be kind."]


@pytest.mark.parametrize("refused", ["", "response_format", "json_schema", "response format", "unnamed"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_server_of_an_unknown_model_is_sent_the_schema_until_it_refuses_it(provider, refused):
    sentences = {
        "response_format": "Unknown parameter: response_format",
        "json_schema": "This model does not support json_schema",
        "response format": "Invalid value: this response format is unavailable now",
        "unnamed": "output_config: Extra inputs are not permitted",
    }

    def reply(received):
        sent = received.body.get("response_format") or received.body.get("output_config")
        if sent and refused:
            return HttpReply("", fault=Fault("status", status=400, message=sentences[refused]))
        return 'Here you are:\n```json\n{"stars": 4}\n```'

    async with ScriptedServer(reply) as server:
        url = server.openai_url if provider == "openai" else server.url
        async with AsyncStretto(f"{provider}:llama-99", base_url=url, api_key="k") as stretto:
            for _ in range(2):
                answer = await stretto.ask("Any good?", response_format=SCHEMA)
                assert (answer.text, answer.parsed, answer.warnings[1:]) == ('{"stars": 4}', {"stars": 4}, ())
        held = [bool(each.body.get("response_format") or each.body.get("output_config")) for each in server.requests]
        assert held == ([True, False, False] if refused else [True, True])
        assert all('"maximum": 5' in each.prompt for each in server.requests)


async def test_a_refusal_that_is_not_about_the_schema_stays_an_error():
    broken = HttpReply("", fault=Fault("status", status=400, message="messages: text is not allowed here"))
    async with ScriptedServer(lambda _: broken) as server:
        async with AsyncStretto("openai:llama-99", base_url=server.openai_url, api_key="k") as stretto:
            with pytest.raises(RequestRejectedError, match="not allowed here"):
                await stretto.ask("Any good?", response_format=SCHEMA)
        assert all("response_format" in each.body for each in server.requests)


@pytest.mark.parametrize(
    "written",
    [
        '```json\n{"stars": 4}\n```',
        '```\n{"stars": 4}',
        '\n {"stars": 4} \n',
        'Sure! Here is the JSON [as asked]: {"stars": 4}. Anything else?',
        '{"note": 1} is wrong, so: {"stars": 4}',
        'First:\n```json\n{"stars": 9}\n```\nBetter:\n```json\n{"stars": 4}\n```',
        'I thought about {this} and wrote {"stars": 4} and again {"stars": 4}',
    ],
)
async def test_json_with_something_around_it_is_handed_out_bare(written):
    backend = answering(written, "never asked for")
    answer = await ask(backend, response_format=SCHEMA)
    assert (answer.text, answer.parsed, len(backend.calls)) == ('{"stars": 4}', {"stars": 4}, 1)
    assert answer.warnings == ()


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ('Either {"stars": 4} or {"stars": 5}.', "it holds 2 JSON values that fit"),
        ('Here: {"answer": {"stars": 4}, }', "it is not valid JSON"),
        ('Here: {"answer": {"stars": 4}', "it is not valid JSON"),
        ('```json\n{"stars": 9}\n```', "9 is greater than the maximum of 5"),
        ("[" * 20_000, "it is not valid JSON"),
        ("{" * 20_000 + "}" * 20_000, "it is not valid JSON"),
    ],
)
async def test_json_that_is_not_certain_is_asked_for_once_more(written, wrong):
    backend = answering(written, '{"stars": 4}')
    answer = await ask(backend, response_format=SCHEMA)
    assert answer.parsed == {"stars": 4}
    assert wrong in backend.calls[1][0].messages[-1].content


async def test_a_pydantic_model_is_read_from_a_fence_too():
    answer = await ask(answering('```json\n{"kind": "good", "stars": 5}\n```', "no"), response_format=Verdict)
    assert answer.parsed == Verdict(kind="good", stars=5)
    assert answer.text == '{"kind": "good", "stars": 5}'


@pytest.mark.parametrize(("leaf", "cause"), [({"y": "1"}, ""), ({"y": 1}, "it does not fit the schema")])
def test_an_answer_to_a_schema_that_refers_back_twice_is_checked_at_once(leaf, cause):
    """The causes of a wrong answer of so many levels would take jsonschema-rs days."""
    again = {"properties": {"x": {"$ref": "#"}, "y": {"type": "string"}}}
    options = GenerationOptions(response_format={"allOf": [again, again]})
    answer = leaf
    for _ in range(60):
        answer = {"x": answer}
    assert fit(json.dumps(answer), options).wrong == cause
