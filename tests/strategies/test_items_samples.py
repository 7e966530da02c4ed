import json
import re

import anyio
import pytest
from streaming import streamed, text_of

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.budget import Budget
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

ANGLES = "give each an angle"
AGAIN = "exist already"
QUESTION = "Write 10 slogans for a bicycle shop"
NUMBERS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima".split()  # noqa: SIM905 - twelve words


def numbers(prompt):
    """Which samples a call is to write."""
    found = re.search(r"numbers? (\d+)(?: to (\d+))? of", text_of(prompt))
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def writing(words=NUMBERS, plan="1. speed\n2. comfort\n3. price", again="1. another\n2. further"):
    def answer(prompt):
        if ANGLES in text_of(prompt):
            return plan
        if AGAIN in text_of(prompt):
            return again
        mine = numbers(prompt)
        if len(mine) == 1:
            return f"Ride {words[mine[0] - 1]}"
        return "\n".join(f"{line}. Ride {words[number - 1]}" for line, number in enumerate(mine, 1))

    return answer


async def ask(backend, question=QUESTION, **request):
    return (await streamed(backend, question, strategy="items", **request))[0]


async def test_samples_are_written_in_parallel_from_planned_angles():
    backend = ScriptedBackend(writing())
    answer = await ask(backend)
    assert answer.text == "\n".join(f"{number}. Ride {NUMBERS[number - 1]}" for number in range(1, 11))
    assert [(branch.id, branch.kind, branch.title) for branch in answer.branches] == [
        ("plan", "plan", ""),
        ("item-1-4", "item", "speed"),
        ("item-5-7", "item", "comfort"),
        ("item-8-10", "item", "price"),
    ]
    assert answer.warnings == ()


async def test_a_call_starts_as_soon_as_its_angle_is_known():
    rest = anyio.Event()

    class Waiting(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk
                if chunk.text == "1. speed\n":
                    await rest.wait()

    plan = Reply(chunks=["1. speed\n", "2. comfort\n", "3. price"])
    backend = Waiting(lambda prompt: plan if ANGLES in text_of(prompt) else writing()(prompt))
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="items") as stream:
        async for event in stream:
            if event.type == "branch_finished" and event.branch.id == "item-1-4":
                rest.set()
    assert stream.answer.text.count("Ride") == 10


async def test_three_samples_need_no_plan():
    backend = ScriptedBackend(writing())
    answer = await ask(backend, "Write 3 limericks about rain")
    assert answer.text == "1. Ride alpha\n2. Ride bravo\n3. Ride charlie"
    assert [branch.id for branch in answer.branches] == ["item-1", "item-2", "item-3"]


async def test_the_first_long_sample_streams_while_the_others_are_written():
    hold = anyio.Event()
    backend = ScriptedBackend(
        {"number 2 of": Reply("Two", hold=hold), "number 3 of": Reply("Three", hold=hold), "": "One"}
    )
    async with (
        AsyncStretto(backend) as stretto,
        stretto.stream("Write 3 limericks about rain", strategy="items") as stream,
    ):
        async for event in stream:
            if event.type == "text_delta":
                hold.set()
    assert stream.answer.text == "1. One\n2. Two\n3. Three"


async def test_the_first_long_sample_that_breaks_off_says_so():
    broken = Reply(chunks=["One and", "never"], fault=ServerFailedError("gone"), fault_after=1)
    down = Reply(fault=ServerFailedError("gone"))
    backend = ScriptedBackend({"number 1 of": broken, "received": down, "number 2 of": "Two", "": "Three"})
    answer = await ask(backend, "Write 3 limericks about rain")
    assert answer.text == "1. One and […broken off]\n2. Two\n3. Three"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "item-1")]


async def test_numbers_that_the_writers_put_before_their_samples_are_not_repeated():
    backend = ScriptedBackend({"number 1 of": "1. One", "number 2 of": "2. Two", "": "3) Three"})
    assert (await ask(backend, "Write 3 limericks about rain")).text == "1. One\n2. Two\n3. Three"


async def test_repeated_samples_are_asked_for_once_more_and_told_what_exists():
    words = [*NUMBERS[:4], "ALPHA!", "bravo", *NUMBERS[6:]]
    backend = ScriptedBackend(writing(words))
    answer = await ask(backend)
    lines = answer.text.split("\n")
    assert len(lines) == 10
    assert lines[-2:] == ["9. another", "10. further"]
    assert len({line.split(". ")[1].casefold() for line in lines}) == 10
    again = text_of(backend.calls[-1][0])
    assert AGAIN in again
    assert "- Ride alpha" in again
    assert answer.warnings == ()


async def test_what_still_repeats_is_left_out_with_a_warning():
    backend = ScriptedBackend(writing([*NUMBERS[:9], "alpha"], again="Ride, Alpha"))
    answer = await ask(backend)
    assert answer.text.count("\n") == 8
    assert [warning.code for warning in answer.warnings] == ["part_missing"]


async def test_samples_of_a_failed_call_are_asked_for_again():
    down = Reply(fault=ServerFailedError("down"))
    backend = ScriptedBackend(
        lambda prompt: (
            down if "Your angle: price" in text_of(prompt) else writing(again="1. Kit\n2. Kat\n3. Kot")(prompt)
        )
    )
    answer = await ask(backend)
    assert answer.text.split("\n")[-3:] == ["8. Kit", "9. Kat", "10. Kot"]
    assert "'price'" in answer.warnings[0]


async def test_a_call_that_writes_too_much_is_cut_and_one_that_writes_too_little_is_made_up_for():
    def answer(prompt):
        if ANGLES in text_of(prompt):
            return "1. speed\n2. comfort\n3. price"
        if AGAIN in text_of(prompt):
            return "1. Kit\n2. Kat"
        return {1: "1. aa\n2. bb\n3. cc\n4. dd\n5. ee", 5: "1. ff", 8: "1. gg\n2. hh\n3. ii"}[numbers(prompt)[0]]

    text = (await ask(ScriptedBackend(answer))).text
    assert [line.split(". ")[1] for line in text.split("\n")] == "aa bb cc dd ff gg hh ii Kit Kat".split()  # noqa: SIM905


async def test_a_plan_with_too_few_angles_is_worked_with():
    answer = await ask(ScriptedBackend(writing(plan="1. speed\n2. comfort")))
    assert answer.text.count("Ride") == 10
    assert [warning.code for warning in answer.warnings] == ["part_missing"]


@pytest.mark.parametrize("plan", [Reply(fault=ServerFailedError("down")), Reply(finish_reason="refusal"), Reply("???")])
async def test_without_a_plan_the_answer_is_written_straight_on(plan):
    backend = ScriptedBackend(lambda prompt: plan if ANGLES in text_of(prompt) else "A straight answer.")
    answer = await ask(backend)
    assert answer.text == "A straight answer."
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_samples_begun_before_the_plan_was_refused_are_cancelled_and_counted():
    written, never = anyio.Event(), anyio.Event()

    class Refusing(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk
                if "angle: comfort" in text_of(prompt) and chunk.text:
                    written.set()
                    await never.wait()
                if chunk.text == "2. comfort\n":
                    await written.wait()

    plan = Reply(chunks=["1. speed\n", "2. comfort\n", "I had rather not."], finish_reason="refusal")
    texts = {ANGLES: plan, "angle: speed": "1. One\n2. Two\n3. Three\n4. Four", "angle: comfort": "1. Five\n2. Six"}
    backend = Refusing({**texts, "": "A straight answer."})
    answer = await ask(backend)
    assert answer.text == "A straight answer."
    assert backend.running == 0
    ended, cut = (next(b for b in answer.branches if b.title == title) for title in ("speed", "comfort"))
    assert cut.status == "failed"
    for branch in (ended, cut):
        assert branch.usage.discarded_tokens == branch.usage.completion_tokens > 0


async def test_samples_as_json_are_valid_json():
    answer = await ask(ScriptedBackend(writing()), QUESTION + " as a JSON array")
    assert json.loads(answer.text) == [f"Ride {word}" for word in NUMBERS[:10]]


async def test_the_pocket_model_writes_samples_straight_on():
    backend = ScriptedBackend({"": "A straight answer."}, capabilities=Capabilities(prompt_family="pocket"))
    answer = await ask(backend)
    assert [branch.kind for branch in answer.branches] == ["direct"]
    assert len(backend.calls) == 1


async def test_a_budget_too_small_for_a_plan_goes_straight():
    backend = ScriptedBackend({"": "A straight answer."})
    await ask(backend, budget=Budget(max_calls=2))
    assert len(backend.calls) == 1


@pytest.mark.parametrize("calls", [4, 5, 6])
async def test_samples_stay_within_the_budget_of_calls(calls):
    backend = ScriptedBackend(writing(plan="\n".join(f"{n}. angle {w}" for n, w in enumerate(NUMBERS[:9], 1))))
    answer = await ask(backend, "Write 9 limericks about rain", budget=Budget(max_calls=calls))
    assert len(backend.calls) <= calls
    assert answer.text.count("Ride") == 9
    assert answer.warnings == ()
