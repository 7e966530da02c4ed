"""What weak models do to an answer in parts, and what becomes of it."""

import anyio
import pytest
from patience import patience

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.router.track_record import FADES_S, Kind, TrackRecord
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

OUTLINE = "Write only the outline"
QUESTION = "How do I look after a bicycle?"
GERMAN = "Wie pflege ich ein Fahrrad?"
BY_POINTS = {"strategy": "skeleton", "strategy_options": {"form": "points"}}
LONG = " ".join(f"The part with the number {number} needs care." for number in range(40))


async def ask(script, question=QUESTION, **request):
    backend = script if isinstance(script, ScriptedBackend) else ScriptedBackend(script)
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **(request or BY_POINTS))


@pytest.mark.parametrize(
    "text",
    [
        *("Point 1: Oil it.", 'Point 1, "Chain": Oil it.', 'The text of point 1, "Chain": Oil it.'),
        *("Sure! Here is the text of point 1:\n\nOil it.", "Title: Chain\nOil it.", "Text of point 1: Oil it."),
        *("Answer: Oil it.", "Oil it.\n\nPoint 2: Tyres\nPump them."),
    ],
)
async def test_labels_and_prompts_that_a_point_repeats_are_taken_off(text):
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres", "point 1,": text, "": "Pump them."})
    assert answer.text == "1. **Chain**: Oil it.\n2. **Tyres**: Pump them."


@pytest.mark.parametrize(
    "outline",
    [
        "1. **Title of the first point**: ...\n2. **Title of the second point**: ...",
        "1. No sentences, no sub-points, no comments\n2. Chain care",
        "1. I'm sorry, but I cannot help with that\n2. Chain",
    ],
)
async def test_an_outline_of_echoes_is_answered_straight(outline):
    answer = await ask({OUTLINE: outline, "": "A straight answer."})
    assert answer.text == "A straight answer."
    assert answer.strategy == "direct"
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_the_real_title_behind_a_placeholder_is_kept():
    outline = "1. Title of the first point: Oil the chain\n2. Point 2: Pump the tyres"
    answer = await ask({OUTLINE: outline, "": "Text."})
    assert answer.text == "1. **Oil the chain**: Text.\n2. **Pump the tyres**: Text."


async def test_one_double_title_is_dropped_and_told():
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres\n3. **chain**\n4. Brakes\n5. Lights", "": "Text."})
    assert answer.text.count("**") == 8
    assert [warning.code for warning in answer.warnings] == ["part_missing"]


async def test_running_text_in_place_of_an_outline_goes_straight_before_its_end():
    prose = "The bicycle should be cleaned every week because dirt is bad for it and so on. "
    backend = ScriptedBackend({OUTLINE: Reply(chunks=[prose] * 100), "": "A straight answer."})
    answer = await ask(backend)
    assert answer.text == "A straight answer."
    assert len(answer.branches[0].text) < 5 * len(prose)


LOOP = "Oil it well and wipe it dry. "


async def test_a_point_that_loops_is_cut_there():
    looping = "The chain needs oil every two hundred kilometres, and after each ride in the rain. " + LOOP * 50
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres", "point 1,": looping, "": "Pump them."})
    assert answer.text.count("Oil it well") == 1
    assert len(answer.branches[1].text) < 200
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "point-1")]


@pytest.mark.parametrize("where", ["point 2,", "point 2,|part on .Tyres"])
async def test_a_point_that_repeats_the_prompt_is_asked_for_once_more_and_else_noted_as_missing(where):
    leak = "You write one part of the answer to this question. Other writers, who cannot see your text, write."
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres", where: leak, "": "Oil it."})
    second = "[could not be written]" if "part" in where else "Oil it."
    assert answer.text == f"1. **Chain**: Oil it.\n2. **Tyres**: {second}"


async def test_a_straight_answer_that_loops_is_left_as_it_is_and_told():
    answer = await ask({"": LOOP * 20}, strategy="direct")
    assert answer.text == LOOP * 20
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("repeats", "direct")]


async def test_a_straight_answer_that_loops_is_cut_where_that_is_asked_for():
    answer = await ask({"": LOOP * 20}, strategy="direct", on_loop="cut")
    assert (answer.text.strip(), answer.finish_reason) == (LOOP.strip(), "length")


async def test_words_of_a_prompt_stand_in_no_answer_but_those_of_the_user_do():
    line = "Write only the result for this entry: no number, no heading, no repetition of the entry, no remark."
    items = "Write the plural of each word:\n- cat\n- dog\n- cow\n- hen"
    answer = await ask({"": f"Cats. {line}"}, items, strategy="items")
    assert "no repetition" not in answer.text
    quoted = f'Say what "{line}" means.\n- for a cat\n- for a dog\n- for a cow'
    assert "no repetition" in (await ask({"": f"It means: {line}"}, quoted, strategy="items")).text


async def test_after_two_answers_without_a_plan_no_more_are_offered_and_the_cause_says_so():
    backend = ScriptedBackend({"You plan the answer": LONG, "": "Clean it and oil it."})
    async with AsyncStretto(backend) as stretto:
        chosen = [(await stretto.ask(QUESTION, preference="fastest")).route.strategy for _ in range(2)]
        after = await stretto.route(QUESTION, preference="fastest")
        other = await stretto.route(GERMAN, preference="fastest")
    assert (chosen, after.strategy, after.code) == (["skeleton", "skeleton"], "direct", "ability")
    assert "2 of the last 2 answers" in after.reason
    assert other.strategy == "skeleton"  # a model may hold plans in one language only


async def test_what_was_wrong_with_one_client_s_templates_says_nothing_of_others(tmp_path):
    backend = ScriptedBackend({"You plan the answer": LONG, "": "Clean it and oil it."})
    (tmp_path / "general/v1").mkdir(parents=True)
    (tmp_path / "general/v1/own.md").write_text("Own.\n\n--- user ---\n$question")
    async with AsyncStretto(backend) as stretto:
        for _ in range(2):
            await stretto.ask(QUESTION, preference="fastest")
        assert (await stretto.route(QUESTION, preference="fastest")).strategy == "direct"
    async with AsyncStretto(backend, templates=tmp_path) as stretto:
        assert (await stretto.route(QUESTION, preference="fastest")).strategy == "skeleton"


@pytest.mark.parametrize("question", [QUESTION, GERMAN, "What are the advantages and disadvantages of electric cars?"])
async def test_a_small_model_answers_straight_at_once(question):
    backend = ScriptedBackend({"": LONG}, capabilities=Capabilities(prompt_family="small", concurrent_calls=8))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(question)
    assert (answer.strategy, answer.text, len(backend.calls), answer.warnings) == ("direct", LONG, 1, ())
    assert answer.route.code == "ability"


def test_answers_that_went_wrong_count_for_a_while_and_then_another_one_is_tried():
    now = [0.0]
    standing = TrackRecord(Kind.PLANS, clock=lambda: now[0])
    standing.note(managed=False)
    now[0] += 60
    standing.note(managed=False)
    assert "in 14 minutes another one is tried" in (standing.against or "")
    now[0] = FADES_S - 1
    assert standing.against is not None
    now[0] = FADES_S
    assert standing.against is None  # the first one has faded: another one is tried
    standing.note(managed=False)
    assert standing.against is not None  # and was wrong as well
    now[0] = 3 * FADES_S
    assert standing.against is None


async def test_plans_that_a_caller_demands_for_any_question_do_not_count_against_a_model():
    backend = ScriptedBackend({"You plan the answer": LONG, "": "A straight answer."})
    async with AsyncStretto(backend) as stretto:
        for _ in range(3):
            assert (await stretto.ask("Tell a story.", strategy="skeleton")).strategy == "direct"
        assert (await stretto.ask(QUESTION, preference="fastest")).route.strategy == "skeleton"


async def test_points_are_drawn_with_seeds_of_their_own():
    backend = ScriptedBackend({OUTLINE: "1. Oil the chain\n2. Pump the tyres", "": "Text."})
    await ask(backend, seed=7, **BY_POINTS)
    assert [options.seed for _, options in backend.calls] == [7, 8, 9]
    await ask(backend)
    assert [options.seed for _, options in backend.calls[3:]] == [None] * 3


async def test_the_straight_answer_does_not_wait_for_the_outline_that_spoiled_it():
    """The outline would never end; its first title is enough to know."""
    never = anyio.Event()

    class Stuck(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk
                if chunk.text == "1. Title of the first point\n":
                    await never.wait()

    outline = Reply(chunks=["1. Title of the first point\n", "2. Chain"])
    with anyio.fail_after(patience(60)):
        answer = await ask(Stuck({OUTLINE: outline, "": "A straight answer."}))
    assert answer.text == "A straight answer."
