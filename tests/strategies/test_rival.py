"""The straight answer beside a weak model's points: the first that is usable wins, the other is cancelled."""

from dataclasses import replace

import anyio
import pytest

from stretto import AsyncStretto, Budget, Settings
from stretto.backends.base import Capabilities, Measured
from stretto.backends.load import LoadMeter
from stretto.errors import ServerFailedError
from stretto.strategies.rival import is_short_list
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"
STRAIGHT = r"^How do I[^\n]*$"
OUTLINE = r"Points:$"
TITLES = "1. Oil the chain\n2. Pump the tyres"
SAME = "Put one drop of good oil on every single link of the chain and wipe the rest off with a clean cloth."
SHORT = "A straight answer."
WRITTEN = (
    "Wash the frame with a soft brush and a little soap. Wipe the chain dry, then put one drop of oil on each of its "
    "links. Pump the tyres until a thumb cannot press them in, and look at the pads of both brakes."
)
POINTS = {"Point: Oil": "Use a drop.", "Point: Pump": "Use a pump."}


class Machine(ScriptedBackend):
    """A model whose steps were measured."""

    def measured(self):
        return Measured(step_ms={1: 10.0, 2: 11.0, 8: 14.0})

    async def _chunks(self, prompt, options, reply):
        straight = reply.text.startswith(WRITTEN)  # it is held before its end, others before their beginning
        async for chunk in super()._chunks(prompt, options, replace(reply, hold=None) if straight else reply):
            if straight and chunk.finish_reason and reply.hold is not None:
                await reply.hold.wait()
            yield chunk


class Dear(ScriptedBackend):
    """A model on a machine where two calls take twice the time of one."""

    def measured(self):
        return Measured(step_ms={1: 10.0, 2: 20.0})


class Endless(Machine):
    """Its straight answers never end."""

    async def _chunks(self, prompt, options, reply):
        async for chunk in super()._chunks(prompt, options, reply):
            if chunk.finish_reason and reply.text == WRITTEN:
                await anyio.sleep_forever()
            yield chunk


async def ask(backend, **request):
    backend.capabilities = Capabilities(prompt_family="small")
    async with AsyncStretto(backend) as stretto:
        with anyio.fail_after(60):
            return await stretto.ask(QUESTION, **{"strategy": "skeleton", **request})


async def test_points_that_fail_cost_no_second_straight_answer():
    held = anyio.Event()
    backend = Machine({OUTLINE: TITLES, STRAIGHT: Reply(WRITTEN, hold=held), "": SAME})
    backend.capabilities = Capabilities(prompt_family="small")
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(QUESTION, strategy="skeleton", max_tokens=700) as events:
            ended = 0
            async for event in events:
                ended += event.type == "branch_finished"
                if ended == 3:  # outline and points
                    held.set()
        answer = events.answer
    assert (answer.text, answer.strategy, answer.usage.calls) == (WRITTEN, "direct", 4)
    assert "its points say the same" in answer.warnings[0]
    room = {prompt.messages[-1].content: options.max_tokens for prompt, options in backend.calls}
    assert room.pop(QUESTION) == 700  # each of the two has all of it
    assert sorted(room.values()) == [60, 60, 120]


async def test_there_is_no_outline_where_the_straight_answer_is_short():
    backend = Machine({OUTLINE: TITLES, STRAIGHT: SHORT, **POINTS})
    answer = await ask(backend)
    assert (answer.text, answer.strategy, len(backend.calls)) == (SHORT, "direct", 1)
    assert answer.warnings == ("Answered in one piece instead of by points: the direct answer is short.",)


async def test_where_two_calls_cost_too_much_a_short_straight_answer_waits_for_no_outline_either():
    backend = Dear({OUTLINE: TITLES, STRAIGHT: SHORT, **POINTS})
    answer = await ask(backend, strategy="auto")
    assert (answer.text, answer.strategy, len(backend.calls)) == (SHORT, "direct", 1)


async def test_there_a_long_one_stops_before_the_outline_and_its_tokens_count_as_discarded():
    backend = Dear({OUTLINE: TITLES, STRAIGHT: Reply(chunks=[WRITTEN, *["And so on. "] * 400]), **POINTS})
    answer = await ask(backend, strategy="auto")
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Pump the tyres**: Use a pump."
    assert 0 < answer.usage.discarded_tokens < 400
    assert backend.most_running == 2  # the points


async def test_points_that_were_asked_for_begin_at_once_there():
    backend = Dear({OUTLINE: TITLES, STRAIGHT: SHORT, **POINTS})
    answer = await ask(backend)
    assert (answer.strategy, len(backend.calls)) == ("skeleton", 3)


async def test_the_outline_goes_on_where_the_straight_answer_fails():
    failing = Reply("", fault=ServerFailedError("The server failed (500)."))
    answer = await ask(Machine({OUTLINE: TITLES, STRAIGHT: failing, **POINTS}))
    assert (answer.strategy, answer.finish_reason) == ("skeleton", "stop")


async def test_a_straight_answer_that_is_whole_first_is_shown():
    begun, never = anyio.Event(), anyio.Event()

    def outline(_):
        begun.set()
        return Reply(TITLES, hold=never)

    backend = Machine({OUTLINE: outline, STRAIGHT: Reply(WRITTEN, hold=begun)})
    answer = await ask(backend)
    assert (answer.text, answer.strategy) == (WRITTEN, "direct")
    assert answer.warnings == ("Answered in one piece instead of by points: the direct answer was there first.",)


async def test_it_is_shown_while_the_points_are_still_being_written_too():
    begun, never = anyio.Event(), anyio.Event()

    def point(_):
        begun.set()
        return Reply("Use a drop.", hold=never)

    backend = Machine({OUTLINE: TITLES, STRAIGHT: Reply(WRITTEN, hold=begun), "Point: ": point})
    answer = await ask(backend)
    assert (answer.text, answer.strategy) == (WRITTEN, "direct")
    assert backend.running == 0
    assert "the direct answer was there first" in answer.warnings[0]


async def test_points_that_are_there_first_cancel_it_and_its_tokens_count_as_discarded():
    backend = Endless({OUTLINE: TITLES, STRAIGHT: WRITTEN, **POINTS})
    answer = await ask(backend)
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Pump the tyres**: Use a pump."
    assert answer.usage.discarded_tokens > 0
    assert backend.running == 0


async def test_a_loop_is_told_only_of_the_answer_that_is_shown():
    loop, told = "It is as it is. " * 20, "The answer repeats itself."
    never = anyio.Event()
    shown = await ask(Machine({OUTLINE: Reply(TITLES, hold=never), STRAIGHT: loop}))
    assert any(told in warning for warning in shown.warnings)
    looped = anyio.Event()

    class Looping(Machine):
        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                if chunk.finish_reason and reply.text == loop:
                    looped.set()
                    await anyio.sleep_forever()
                yield chunk

    lost = await ask(Looping({OUTLINE: Reply(TITLES, hold=looped), STRAIGHT: loop, **POINTS}))
    assert (lost.strategy, lost.warnings) == ("skeleton", ())


@pytest.mark.parametrize("backend", [Dear, ScriptedBackend])
async def test_there_is_none_where_a_second_call_is_dear_or_its_cost_not_known(backend):
    backend = backend({OUTLINE: TITLES, STRAIGHT: WRITTEN, **POINTS})
    answer = await ask(backend)
    assert (answer.strategy, len(backend.calls)) == ("skeleton", 3)


async def test_there_is_none_where_a_budget_is_set():
    backend = Machine({OUTLINE: TITLES, STRAIGHT: WRITTEN, **POINTS})
    assert (await ask(backend, budget=Budget(max_tokens_total=5_000))).strategy == "skeleton"
    assert len(backend.calls) == 3


def test_streams_tell_their_speed_by_how_many_ran():
    now = 0.0
    seen = LoadMeter(clock=lambda: now)
    alone = seen.begun()
    now = 2.0
    seen.ended(alone, 101)
    both = seen.begun(), seen.begun()
    now = 4.0
    seen.ended(both[0], 51)
    now = 4.1
    seen.ended(both[1], 53)
    assert seen.tokens_per_s == {1: 50.0, 2: pytest.approx(25, abs=0.5)}


def test_one_slow_answer_does_not_change_what_streams_are_taken_to_write():
    now = 0.0
    seen = LoadMeter(clock=lambda: now)
    for took_s in (1.0, 1.0, 1.0, 4.0, 4.0):
        begun, now = seen.begun(), now + took_s
        seen.first(1, took_s)
        seen.ended(begun, 101)
    assert (seen.tokens_per_s, seen.first_token_s) == ({1: 100.0}, {1: 1.0})


@pytest.mark.parametrize(("tokens", "after_s"), [(None, 2.0), (15, 2.0), (100, 0.2)])
def test_streams_that_are_short_or_were_cut_off_tell_nothing(tokens, after_s):
    now = 0.0
    seen = LoadMeter(clock=lambda: now)
    begun = seen.begun()
    now = after_s
    seen.ended(begun, tokens)
    assert seen.tokens_per_s == {}


async def test_once_points_went_well_twice_the_outline_waits_for_nothing_and_decides():
    long = Reply(chunks=["And so on. "] * 400)
    script = {OUTLINE: TITLES, STRAIGHT: long, **POINTS}
    async with AsyncStretto(Machine(script, capabilities=Capabilities(prompt_family="small"))) as stretto:
        for hold in (None, None, anyio.Event()):
            script[STRAIGHT] = replace(long, hold=hold)
            with anyio.fail_after(60):
                answer = await stretto.ask(QUESTION, strategy="auto")
            assert answer.strategy == "skeleton"


async def test_once_they_go_wrong_it_waits_again():
    script = {OUTLINE: TITLES, STRAIGHT: Reply(chunks=["And so on. "] * 400), **POINTS}
    async with AsyncStretto(Machine(script, capabilities=Capabilities(prompt_family="small"))) as stretto:
        for points in (POINTS, POINTS, dict.fromkeys(POINTS, SAME)):
            script.update(points)
            await stretto.ask(QUESTION, strategy="auto")
        script[STRAIGHT] = SHORT
        answer = await stretto.ask(QUESTION, strategy="auto")
    assert answer.warnings == ("Answered in one piece instead of by points: the direct answer is short.",)


GOES_ON = Capabilities(prompt_family="small", continues=True)


async def test_one_that_was_stopped_goes_on_where_the_outline_fails():
    script = {
        OUTLINE: "I do not know.",
        STRAIGHT: Reply(chunks=[WRITTEN, *["And so on. "] * 400]),
        r"\nWash the frame": "Then rest.",
    }
    backend = Dear(script, capabilities=GOES_ON)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="auto", max_tokens=700)
    begun = answer.text.removesuffix("Then rest.")
    assert begun.startswith(WRITTEN)
    assert len(begun) < 1_000
    (prompt, options) = backend.calls[-1]
    assert [(each.role, each.content) for each in prompt.messages[-2:]] == [("user", QUESTION), ("assistant", begun)]
    assert options.max_tokens < 700
    assert (answer.strategy, answer.finish_reason) == ("direct", "stop")


async def test_one_that_had_failed_is_written_anew():
    fault = ServerFailedError("The server failed (500).")
    broken = Reply(chunks=[WRITTEN[:40], "and"], fault=fault, fault_after=1)
    script = {OUTLINE: "I do not know.", r"\nWash the frame": broken, STRAIGHT: [broken, SHORT]}
    backend = Dear(script, capabilities=GOES_ON)
    async with AsyncStretto(backend, settings=Settings(attempts=1)) as stretto:
        answer = await stretto.ask(QUESTION, strategy="auto")
    assert (answer.text, answer.finish_reason) == (SHORT, "stop")


async def test_an_outline_that_begins_with_a_sentence_ends_there_and_another_is_asked_for():
    sentence = "1. Oil the chain with a drop for each link of it and wipe off what is too much with a cloth, then"
    never = anyio.Event()
    outlines = iter([Reply(chunks=[sentence, " go on."]), Reply(TITLES)])
    script = {OUTLINE: lambda _: next(outlines), STRAIGHT: WRITTEN, **POINTS}

    class Stuck(Endless):
        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk
                if chunk.text == sentence:
                    await never.wait()

    answer = await ask(Stuck(script))
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Pump the tyres**: Use a pump."


FOUR = "Name four ways to use less water."
LINES = [f"{number}. {text}" for number, text in enumerate(["Fix what leaks and drips"] * 4 + ["x" * 300], start=1)]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("\n".join(LINES[:4]), True),
        ("\n".join([*LINES[:2], "3. "]), True),
        ("\n".join(LINES[:2]), False),  # of two lines one is whole
        ("\n".join([*LINES[:2], LINES[4]]), False),
        ("\n".join([LINES[4], *LINES[:2]]), False),
        ("Here are four ways:\n" + "\n".join(LINES[:4]), False),
        ("", False),
    ],
)
def test_a_list_of_as_many_short_lines_as_are_asked_for_is_short(text, short):
    assert is_short_list(text, 4) is short
    assert not is_short_list(text, None)


async def test_a_short_list_waits_for_no_outline():
    listed = "\n".join(f"{number}. Use less water for the {what}." for number, what in enumerate("abcd", 1)) + " " * 60
    backend = Dear({OUTLINE: TITLES, STRAIGHT.replace("How do I", "Name"): listed, **POINTS})
    backend.capabilities = Capabilities(prompt_family="small")
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(FOUR, strategy="auto")
    assert (answer.strategy, len(backend.calls)) == ("direct", 1)


async def test_a_point_of_a_weak_model_that_stands_in_an_earlier_one_is_left_out():
    points = {"Point: Oil": "Wipe it with a cloth. Then rest.", "Point: Pump": "Use a pump."}
    script = {OUTLINE: f"{TITLES}\n3. Clean the frame", "Point: Clean": "Wipe it with a cloth.", **points}
    answer = await ask(Dear({**script, STRAIGHT: WRITTEN}))
    assert "Clean the frame" not in answer.text
    assert answer.warnings == ("Point 3, 'Clean the frame', was left out: an earlier point says the same.",)
