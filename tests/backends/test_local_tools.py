"""What local models are passed on: tools where their chat template takes them, a begun answer, fields of a body."""

import json

import pytest
from saved_models import collect, opened, save, text_of

from stretto import AsyncStretto, InvalidRequestError, Message, RequestRejectedError
from stretto.extending import ModelRequest
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
NOT = {"type": "function", "function": {"name": "not", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now"}}
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}|{% endfor %}{# calls come as <tool_call> #}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for call in m.tool_calls or [] %}{{ call.function.name }}={{ call.function.arguments.a }}{% endfor %}"
    "{% if not loop.last or add_generation_prompt %}|{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture(scope="session")
def with_tools(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"), template=TEMPLATE, window=2048)


@pytest.mark.thorough
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "not"}}])
async def test_a_call_that_has_to_come_is_drawn_under_its_schema(with_tools, choice):
    async with opened(with_tools) as backend, AsyncStretto(backend) as stretto:
        answer = await stretto.ask("True?", tools=[NOT, NOW], tool_choice=choice, max_tokens=300, seed=1)
    assert (answer.finish_reason, answer.text) == ("tool_calls", "")
    (call,) = answer.tool_calls
    assert call.name in ({"not", "now"} if choice == "required" else {"not"})
    assert json.loads(call.arguments) in ({"a": True}, {"a": False}, {})


async def test_a_function_is_called_for_a_local_model(with_tools):
    seen = []

    def turn(a: bool) -> bool:
        """The opposite."""
        seen.append(a)
        return not a

    async with opened(with_tools) as backend, AsyncStretto(backend) as stretto:
        answer = await stretto.ask("True?", tools=[turn], tool_choice="required", max_tokens=120, seed=1)
    first, called, second = answer.branches
    assert json.loads(first.tool_calls[0].arguments) == {"a": seen[0]}
    assert (called.kind, called.text) == ("tool", json.dumps(not seen[0]))
    assert answer.text == second.text != ""


async def test_tools_and_their_results_are_shown_by_the_template(with_tools):
    messages = (
        Message(role="user", content="True?"),
        Message(role="assistant", tool_calls=({"id": "1", "function": {"name": "not", "arguments": '{"a": true}'}},)),
        Message(role="tool", content="false", tool_call_id="1"),
    )
    async with opened(with_tools) as backend:
        plain = await backend.count_tokens(ModelRequest(messages))
        shown = await backend.count_tokens(ModelRequest(messages, tools=(NOT,)))
        hidden = await backend.count_tokens(ModelRequest(messages, tools=(NOT,), tool_choice="none"))
    assert plain == len("[user]True?|[assistant]not=True|[tool]false|[assistant]") == hidden
    assert shown == plain + len(json.dumps(NOT)) + 1


async def test_a_template_that_joins_arguments_is_given_them_as_text(tmp_path):
    """As those of DeepSeek do."""
    joined = TEMPLATE.replace(
        "{{ call.function.arguments.a }}", "{{ '<｜tool▁calls▁begin｜>' + call['function']['arguments'] + ';' }}"
    )
    messages = (
        Message(role="user", content="True?"),
        Message(role="assistant", tool_calls=({"id": "1", "function": {"name": "not", "arguments": '{"a": true}'}},)),
        Message(role="tool", content="false", tool_call_id="1"),
    )
    async with opened(save(tmp_path, template=joined, window=2048)) as backend:
        shown = await backend.count_tokens(ModelRequest(messages))
    said = '[user]True?|[assistant]not=<｜tool▁calls▁begin｜>{"a": true};|[tool]false|[assistant]'
    assert shown == len(said.encode())


async def test_a_template_without_tools_is_one_clear_error(folder):
    async with opened(folder) as backend:
        assert not backend.capabilities.tools
        prompt = ModelRequest((Message(role="user", content="True?"),), tools=(NOT,))
        with pytest.raises(RequestRejectedError, match="takes no tools: its chat template has no place for them"):
            async with backend.stream(prompt, GenerationOptions()):
                pass
        async with AsyncStretto(backend) as stretto:
            with pytest.raises(InvalidRequestError, match=r"tools= cannot be used: local:.* takes no tools"):
                await stretto.ask("True?", tools=[NOT])


async def test_a_choice_that_is_none_of_the_tools_is_named(with_tools):
    async with opened(with_tools) as backend, AsyncStretto(backend) as stretto:
        with pytest.raises(RequestRejectedError, match="names none of the tools"):
            await stretto.ask("?", tools=[NOT], tool_choice={"type": "function", "function": {"name": "other"}})


@pytest.mark.parametrize("template", [TEMPLATE, None])
async def test_a_begun_answer_is_gone_on_with(tmp_path, template):
    async with opened(save(tmp_path, template=template)) as backend, AsyncStretto(backend) as stretto:
        begun = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because"}]
        answer = await stretto.ask(begun, max_tokens=8, temperature=0)
        sent = ModelRequest(tuple(Message(**turn) for turn in begun))
        text = "[user]Why?|[assistant]Because" if template else "Why?\n\nBecause"
        assert await backend.count_tokens(sent) == len(text)
    assert answer.route.strategy == "direct"
    assert answer.text


async def test_several_answers_are_several_samples(with_tools):
    async with opened(with_tools) as backend, AsyncStretto(backend) as stretto:
        answers = [await stretto.ask("Why?", n=3, max_tokens=6, temperature=1.5, seed=3) for _ in range(2)]
    assert len({choice.text for choice in answers[0].choices}) == 3
    assert [choice.text for choice in answers[0].choices] == [choice.text for choice in answers[1].choices]


async def test_fields_of_a_body_act_where_the_engine_has_them_and_are_named_where_not(with_tools):
    async with opened(with_tools) as backend, AsyncStretto(backend) as stretto:
        options = {"max_tokens": 4, "temperature": 0}
        answer = await stretto.ask("Why?", extra={"logit_bias": {"66": 1000}, "best_of": 2, "user": "me"}, **options)
        with pytest.raises(InvalidRequestError, match=r"logit_bias=.* cannot be used"):
            await stretto.ask("Why?", extra={"logit_bias": {"a": 1}}, **options)
    assert len(set(answer.text)) == 1
    assert (answer.warnings[0].code, answer.warnings[0].split()[0]) == ("option", "best_of")


async def test_without_tools_nothing_is_looked_for(with_tools):
    async with opened(with_tools) as backend:
        assert text_of(await collect(backend, max_tokens=5))
