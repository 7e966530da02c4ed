"""Items, each with a separate call: what it carries, in which order results stand, what becomes of one that fails."""

import anyio
import pytest
from asking_items import PLURALS, POCKET, QUESTION, ask, entry, script
from streaming import text_of

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import AuthenticationError, ServerFailedError, StrettoError

pytestmark = pytest.mark.anyio


async def test_each_item_is_a_call_and_the_results_stand_in_the_order_of_the_items():
    backend = ScriptedBackend(script({entry("cat"): Reply("cats", delay_s=0.02)}))
    answer = await ask(backend)
    assert answer.text == "cat: cats\nchild: children\nmouse: mice"
    assert [(branch.id, branch.kind, branch.title) for branch in answer.branches] == [
        ("item-1", "item", "cat"),
        ("item-2", "item", "child"),
        ("item-3", "item", "mouse"),
    ]
    assert (answer.warnings, answer.finish_reason, answer.usage.calls) == ((), "stop", 3)


async def test_all_items_run_at_the_same_time():
    backend = ScriptedBackend(script())
    await ask(backend)
    assert backend.most_running == 3


async def test_the_first_item_streams_while_the_others_wait():
    hold = anyio.Event()
    backend = ScriptedBackend(script({entry("child"): Reply("children", hold=hold)}))
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="items") as stream:
        seen = ""
        async for event in stream:
            if event.type == "text_delta":
                seen += event.text
            if "cats" in seen:
                hold.set()
    assert stream.answer.text == "cat: cats\nchild: children\nmouse: mice"


async def test_every_call_carries_system_prompt_context_and_its_own_item_only():
    backend = ScriptedBackend({"": "yes"})
    question = "Our shop sells tea.\n\nIs each mail an order?\n- 3 boxes please\n- wrong tea\n- 9 tins"
    await ask(backend, question, system="Be kind.")
    for (prompt, _), item in zip(backend.calls, ("3 boxes please", "wrong tea", "9 tins"), strict=True):
        assert "Be kind." in prompt.messages[0].content
        assert "Our shop sells tea." in text_of(prompt)
        assert [other for other in ("3 boxes please", "wrong tea", "9 tins") if other in text_of(prompt)] == [item]


async def test_the_pocket_model_gets_the_message_it_was_trained_on():
    backend = ScriptedBackend({"Item: child": "children", "": "x"}, capabilities=POCKET)
    answer = await ask(backend)
    assert [prompt.messages[0].content for prompt, _ in backend.calls] == [
        f"Give the plural of each word\nItem: {item}" for item in PLURALS
    ]
    assert all(len(prompt.messages) == 1 for prompt, _ in backend.calls)
    assert "child: children" in answer.text


async def test_a_failed_item_keeps_its_place_and_the_others_stay():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(ScriptedBackend(script({"child": down})))
    assert answer.text == "cat: cats\nchild: [could not be written]\nmouse: mice"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "item-2")]
    assert [branch.status for branch in answer.branches] == ["finished", "failed", "finished"]


async def test_a_failed_item_is_asked_for_once_more_in_a_plain_way():
    down = Reply(fault=ServerFailedError("the server is down"))
    backend = ScriptedBackend(script({entry("child"): down, r"each word:\n\nchild$": "children"}))
    answer = await ask(backend)
    assert answer.text == "cat: cats\nchild: children\nmouse: mice"
    assert answer.warnings == ()


async def test_a_broken_result_is_continued():
    broken = Reply(chunks=["childr", "never"], fault=ServerFailedError("gone"), fault_after=1)
    backend = ScriptedBackend(script({entry("child"): broken, "<received>\nchildr\n</received>": "en"}))
    assert (await ask(backend)).text == "cat: cats\nchild: children\nmouse: mice"


async def test_nothing_written_at_all_is_an_error():
    backend = ScriptedBackend({"": Reply(fault=AuthenticationError("The key is wrong."))})
    with pytest.raises(StrettoError, match="key is wrong"):
        await ask(backend)


@pytest.mark.parametrize(
    ("question", "cause"),
    [
        ("Sort these: pear, fig, apple", "together"),
        ("Give the plural of each word: cat, dog", "too few"),
        ("Write a story using these words: lamp, river, crown", "together"),
    ],
)
async def test_what_cannot_be_split_safely_goes_straight_and_says_so(question, cause):
    backend = ScriptedBackend({"": "A straight answer."})
    answer = await ask(backend, question)
    assert answer.text == "A straight answer."
    assert [branch.kind for branch in answer.branches] == ["direct"]
    assert [warning.code for warning in answer.warnings] == ["strategy"]
    assert cause in answer.warnings[0]


async def test_one_call_at_a_time_goes_straight():
    backend = ScriptedBackend({"": "A straight answer."}, capabilities=Capabilities(concurrent_calls=1))
    assert [branch.kind for branch in (await ask(backend)).branches] == ["direct"]


async def test_documents_reach_every_call():
    backend = ScriptedBackend({"": "x"})
    await ask(backend, documents=["The plural of cat is katz here."])
    assert all("katz" in text_of(prompt) for prompt, _ in backend.calls)


async def test_the_callers_limit_holds_for_each_item():
    backend = ScriptedBackend({"": "x"})
    await ask(backend, part_tokens=50)
    assert {options.max_tokens for _, options in backend.calls} == {50}
