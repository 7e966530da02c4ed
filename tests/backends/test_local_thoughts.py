"""What local models think, and the arguments of their chat templates."""

import asyncio
from types import SimpleNamespace

import pytest
from saved_models import save, text_of

from stretto import AsyncStretto, InvalidRequestError, Message, RequestRejectedError, ThoughtFinished
from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.chunks import Chunks
from stretto.extending import ModelRequest
from stretto.local_engine.generation import Figures, Finished, Piece
from stretto.local_engine.serving.record import Record
from stretto.markup.forms import form_of
from stretto.markup.reading import reader_of
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

THINKS = (
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]"
    "{% if enable_thinking %}<think>\n{% else %}<think></think>{% endif %}{% endif %}{{ language }}"
)
ASKED = (Message(role="user", content="Why?"),)


@pytest.fixture(scope="session")
def thinking(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("thinking"), template=THINKS)
    backend = LocalBackend(f"local:{folder}", dtype="float32", device="cpu")
    yield backend
    asyncio.run(backend.aclose())


async def heard(backend, extra, **fields):
    request = ModelRequest(ASKED, extra={"chat_template_kwargs": extra}, **fields)
    async with backend.stream(request, GenerationOptions(max_tokens=12, temperature=0, seed=1)) as chunks:
        return [chunk async for chunk in chunks]


@pytest.mark.thorough
async def test_a_thought_is_no_text_and_its_tokens_are_counted(thinking):
    thought = await heard(thinking, {"enable_thinking": True})
    plain = await heard(thinking, {"enable_thinking": False})
    assert text_of(thought) == ""
    usage = thought[-1].usage
    assert usage.completion_tokens - usage.reasoning_tokens in (0, 1)  # the token that ends the answer is none of it
    assert usage.reasoning_tokens
    assert [part["type"] for chunk in thought for part in chunk.thoughts] == ["reasoning_content"]
    assert any(chunk.thinking for chunk in thought)
    assert text_of(plain)
    assert plain[-1].usage.reasoning_tokens == 0


async def test_an_answer_that_is_held_to_a_format_begins_behind_its_thought(thinking):
    found = await heard(thinking, {"enable_thinking": True}, response_regex="yes|no")
    sizes = [
        await thinking.count_tokens(
            ModelRequest(ASKED, extra={"chat_template_kwargs": {"enable_thinking": True}}, response_regex=regex)
        )
        for regex in ("yes|no", None)
    ]
    assert text_of(found) in ("yes", "no")
    assert sizes[0] - sizes[1] == len("\n</think>\n\n")


async def test_thoughts_of_earlier_turns_and_arguments_are_shown_by_the_template(thinking):
    turn = Message(role="assistant", content="So.", extra={"reasoning_content": "Hm."})
    count = await thinking.count_tokens(
        ModelRequest((*ASKED, turn, *ASKED), extra={"chat_template_kwargs": {"language": "de"}})
    )
    assert count == len("[user]Why?[assistant]<think>Hm.</think>So.[user]Why?[assistant]<think></think>de")


@pytest.mark.parametrize("name", ["chat_template", "messages", "add_generation_prompt", "tokenize", "eos_token"])
async def test_arguments_that_the_library_sets_are_refused(thinking, name):
    with pytest.raises(RequestRejectedError, match=f"'{name}' of the chat template of local:.* cannot be set"):
        await heard(thinking, {name: "x"})


async def test_control_tokens_in_an_argument_stay_text(thinking):
    request = ModelRequest(ASKED, extra={"chat_template_kwargs": {"language": "<end>"}})
    assert await thinking.count_tokens(request) == len("[user]Why?[assistant]<think></think><end>")


async def test_arguments_reach_the_template_from_a_client_and_from_settings(thinking, monkeypatch):
    monkeypatch.setenv("STRETTO_CHAT_TEMPLATE_KWARGS", '{"enable_thinking": true, "nothing": 1}')
    async with AsyncStretto(thinking) as stretto:
        options = {"max_tokens": 4, "temperature": 0}
        own = await stretto.ask("Why?", chat_template_kwargs={"enable_thinking": False}, **options)
        async with stretto.stream("Why?", on_missing="omit", **options) as events:
            thoughts = [event async for event in events if isinstance(event, ThoughtFinished)]
        with pytest.raises(InvalidRequestError, match="chat_template_kwargs='x' cannot be used: it is a mapping"):
            await stretto.ask("Why?", chat_template_kwargs="x")
    assert own.text
    assert own.usage.reasoning_tokens == 0
    assert thoughts


async def test_an_argument_that_the_template_does_not_read_is_named(thinking):
    found = await heard(thinking, {"nothing": 1})
    assert [(warning.code, warning.split()[0]) for warning in found[-1].warnings] == [("option", "nothing")]


async def test_a_call_behind_a_thought_ends_the_answer_with_a_reason_of_its_own():
    """The pieces are those of Qwen3; the fourth holds tokens of the thought's end."""
    form = form_of("{% if tools %}<tool_call></tool_call>{% endif %}<think></think>{% if enable_thinking %}")
    model = SimpleNamespace(form=form, word=str)
    chunks = Chunks("local:scripted", asyncio.get_running_loop(), Record(), model)
    chunks.reader = reader_of(form, [{"function": {"name": "now"}}])
    for number, text in enumerate(["<think>", "\nWhat", " time?", "\n</think>", "\n\n", "I look.", "<tool_call>"]):
        chunks.put(Piece(text, (number,)))
    chunks.put(Piece('{"name": "now"}</tool_call>', (8, 9)))
    chunks.put(Finished("stop", 3, completion_tokens=9, figures=Figures()))
    (found,) = [chunk async for chunk in chunks]
    assert (found.text, found.finish_reason) == ("I look.", "tool_calls")
    assert found.thoughts == ({"type": "reasoning_content", "reasoning_content": "What time?"},)
    assert [(call.index, call.name, call.arguments) for call in found.tool_calls] == [(0, "now", "{}")]
    assert (found.usage.completion_tokens, found.usage.reasoning_tokens) == (9, 4)
