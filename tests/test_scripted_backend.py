import anyio
import pytest

from stretto.backends.base import Backend, ModelRequest
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import InvalidRequestError, ServerFailedError
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio


def prompt(text):
    return ModelRequest((Message(role="user", content=text),))


async def chunks(backend, text, **options):
    async with backend.stream(prompt(text), GenerationOptions(**options)) as stream:
        return [chunk async for chunk in stream]


async def test_it_is_a_backend_that_answers_by_the_first_rule_that_fits():
    backend = ScriptedBackend({"tea": "Hot.", "": "Yes."})
    assert isinstance(backend, Backend)
    assert "".join(chunk.text for chunk in await chunks(backend, "tea?")) == "Hot."
    assert "".join(chunk.text for chunk in await chunks(backend, "milk?")) == "Yes."
    assert [given.messages[0].content for given, _ in backend.calls] == ["tea?", "milk?"]


async def test_a_list_of_replies_is_gone_through_call_by_call():
    backend = ScriptedBackend({"": ["one", "two"]})
    assert [(await chunks(backend, "x"))[0].text for _ in range(3)] == ["one", "two", "two"]


async def test_a_fault_comes_after_the_chunks_asked_for_and_what_was_spent_is_told_first():
    backend = ScriptedBackend({"": Reply(chunks=["a", "b", "c"], fault=ServerFailedError("down"), fault_after=2)})
    seen = []
    with pytest.raises(ServerFailedError):
        async with backend.stream(prompt("x"), GenerationOptions()) as stream:
            async for chunk in stream:
                seen.append(chunk)  # noqa: PERF401 - a comprehension would lose what came before the fault
    assert "".join(chunk.text for chunk in seen) == "ab"
    assert sum(chunk.usage.calls for chunk in seen if chunk.usage) == 1
    assert backend.running == 0


async def test_it_stops_at_the_limit_of_tokens():
    last = (await chunks(ScriptedBackend({"": "word " * 50}), "x", max_tokens=10))[-1]
    assert last.finish_reason == "length"
    assert last.usage.completion_tokens <= 10


async def test_a_held_reply_waits_for_its_event():
    hold = anyio.Event()
    backend = ScriptedBackend({"": Reply("late", hold=hold)})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chunks, backend, "x")
        while not backend.running:
            await anyio.lowlevel.checkpoint()
        hold.set()
    assert backend.running == 0


async def test_a_prompt_without_a_rule_is_an_error_that_shows_it():
    with pytest.raises(InvalidRequestError, match="milk"):
        await chunks(ScriptedBackend({"tea": "Hot."}), "milk?")
