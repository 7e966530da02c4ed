"""What weak models do to an answer in points, and what becomes of it."""

from dataclasses import replace

import anyio
import pytest
from patience import patience

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.errors import IncompleteAnswerError, ServerFailedError
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

OUTLINE = "Write only the outline"
QUESTION = "How do I look after a bicycle?"
GERMAN = "Wie pflege ich ein Fahrrad?"
SECTIONS = "What are the advantages and disadvantages of electric cars?"
SMALL = Capabilities(prompt_family="small")


async def ask(script, question=QUESTION, *, capabilities=None, **request):
    backend = script if isinstance(script, ScriptedBackend) else ScriptedBackend(script)
    if capabilities is not None:
        backend.capabilities = capabilities
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **{"strategy": "skeleton", **request})


@pytest.mark.parametrize(
    "outline",
    [
        "Advantages:\n1. Clean air\n2. Cheap to run\n\nDisadvantages:\n1. Costly to buy\n2. Slow to charge",
        "## Advantages\n- Clean air\n- Cheap to run\n## Disadvantages\n- Costly to buy\n- Slow to charge",
        "**Advantages**\n\n1. Clean air\n2. Cheap to run\n\n**Disadvantages**\n\n1. Costly to buy\n2. Slow to charge",
        "Advantages:\n1. Clean air\n2. Cheap to run\n\nDisadvantages:\n3. Costly to buy\n4. Slow to charge",
    ],
)
async def test_an_outline_in_sections_keeps_all_of_them_and_names_them(outline):
    answer = await ask({OUTLINE: outline, "": "Text."}, SECTIONS)
    assert answer.text == (
        "**Advantages**\n\n1. **Clean air**: Text.\n2. **Cheap to run**: Text.\n\n"
        "**Disadvantages**\n\n3. **Costly to buy**: Text.\n4. **Slow to charge**: Text."
    )
    assert [branch.title for branch in answer.branches][3] == "Disadvantages: Costly to buy"


async def test_a_line_that_introduces_the_outline_is_no_section():
    answer = await ask({OUTLINE: "Here is the outline:\n1. Chain\n2. Tyres", "": "Text."})
    assert answer.text == "1. **Chain**: Text.\n2. **Tyres**: Text."


@pytest.mark.parametrize(
    "text",
    [
        *("Point 1: Oil it.", 'Point 1, "Chain": Oil it.', 'The text of point 1, "Chain": Oil it.'),
        *("Sure! Here is the text of point 1:\n\nOil it.", "Title: Chain\nOil it.", "Text of point 1: Oil it."),
        *("The answer to this question is that oil it.", "The answer is: Oil it.", "The answer is that oil it."),
        *(f'The answer to the question "{QUESTION}" is: oil it.', "Die Antwort auf diese Frage lautet: Oil it."),
        *("Answer: Oil it.", f"Question:\n{QUESTION}\n\nOil it.", "Oil it.\n\nPoint 2: Tyres\nPump them."),
    ],
)
async def test_labels_and_prompts_that_a_point_repeats_are_taken_off(text):
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres", "point 1,": text, "": "Pump them."})
    assert answer.text == "1. **Chain**: Oil it.\n2. **Tyres**: Pump them."


@pytest.mark.parametrize(
    "outline",
    [
        "1. **Title of the first point**: ...\n2. **Title of the second point**: ...",
        '1. Opening: "An Electric Car"\n2. Title of the first point\n3. Closing: Done',
        "1. No sentences, no sub-points, no comments\n2. Chain care",
        "1. I'm sorry, but I cannot help with that\n2. Chain",
    ],
)
async def test_an_outline_of_echoes_is_answered_straight(outline):
    answer = await ask({OUTLINE: outline, "": "A straight answer."})
    assert answer.text == "A straight answer."
    assert answer.strategy == "direct"
    assert "Answered in one piece instead of by points" in answer.warnings[0]


async def test_the_real_title_behind_a_placeholder_is_kept():
    outline = "1. Title of the first point: Oil the chain\n2. Point 2: Pump the tyres"
    answer = await ask({OUTLINE: outline, "": "Text."})
    assert answer.text == "1. **Oil the chain**: Text.\n2. **Pump the tyres**: Text."


async def test_one_double_title_is_dropped_and_told():
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres\n3. The chain\n4. Brakes\n5. Lights", "": "Text."})
    assert answer.text.count("**") == 8
    assert answer.warnings == ("One title of the outline was left out: a title says the same as an earlier one.",)


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
    assert any("it repeats itself" in warning for warning in answer.warnings)


async def test_a_point_that_repeats_the_prompt_is_asked_for_once_more_in_another_way():
    leak = "You write one part of the answer to this question. Other writers, who cannot see your text, write."
    script = {OUTLINE: "1. Chain\n2. Tyres", "point 2,": leak, "part on .Tyres": "Pump them well.", "": "Oil it."}
    answer = await ask(script)
    assert answer.text == "1. **Chain**: Oil it.\n2. **Tyres**: Pump them well."


async def test_a_point_that_repeats_the_prompt_twice_is_noted_as_missing():
    leak = "You write one part of the answer to this question. Other writers, who cannot see your text, write."
    answer = await ask({OUTLINE: "1. Chain\n2. Tyres", "point 2,|part on .Tyres": leak, "": "Oil it."})
    assert answer.text == "1. **Chain**: Oil it.\n2. **Tyres**: [could not be written]"


SAME = "Regular care keeps a bicycle safe on the road and saves the money for expensive repairs."


async def test_a_point_that_says_what_an_earlier_one_says_is_left_out():
    slow = Reply(SAME, delay_s=0.05)
    script = {OUTLINE: "1. Chain\n2. Tyres\n3. Brakes", "point 1,": slow, "point 2,": SAME, "point 3,": "Test them."}
    answer = await ask(script, preference="careful")
    assert answer.text == f"1. **Chain**: {SAME}\n2. **Brakes**: Test them."
    assert answer.warnings == ("Point 2, 'Tyres', was left out: an earlier point says the same.",)


async def test_a_straight_answer_that_loops_is_left_as_it_is_and_told():
    answer = await ask({"": LOOP * 20}, strategy="direct")
    assert answer.text == LOOP * 20
    assert answer.warnings == ("The answer repeats itself. Ask in other words, or with on_loop='cut' to end it there.",)


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


async def test_after_two_wrong_outlines_no_more_are_offered_and_the_cause_says_so():
    backend = ScriptedBackend({OUTLINE: "1. Title of the first point\n2. Point 2", "": "A long straight answer. " * 99})
    async with AsyncStretto(backend) as stretto:
        chosen = [(await stretto.ask(QUESTION)).route for _ in range(4)]
        other = await stretto.route(GERMAN)
    assert [route.strategy for route in chosen] == ["skeleton", "skeleton", "direct", "direct"]
    wrong = "2 of the last 2 answers in points of this model in this language went wrong; `stretto check`"
    assert wrong in chosen[2].reason
    assert other.strategy == "skeleton"  # a model may hold outlines in one language only


async def test_outlines_that_a_caller_demands_for_any_question_do_not_count_against_a_model():
    backend = ScriptedBackend({OUTLINE: "1. Title of the first point\n2. Point 2", "": "A straight answer."})
    async with AsyncStretto(backend) as stretto:
        for _ in range(3):
            assert (await stretto.ask("Tell a story.", strategy="skeleton")).strategy == "direct"
        assert (await stretto.ask(QUESTION)).route.strategy == "skeleton"


async def test_a_small_model_gets_examples_and_one_thing_at_a_time():
    script = {
        r"Points:$": "1. Oil the chain\n2. Pump the tyres",
        "Point: Oil": "Put a drop of oil on every link of the chain.",
        "": "Press the tyre with a thumb before you ride away.",
    }
    backend = ScriptedBackend(script, capabilities=SMALL)
    answer = await ask(backend)
    assert answer.text == (
        "1. **Oil the chain**: Put a drop of oil on every link of the chain.\n"
        "2. **Pump the tyres**: Press the tyre with a thumb before you ride away."
    )
    prompts = [prompt.messages[-1].content for prompt, _ in backend.calls]
    assert prompts[:2] == [f"{QUESTION}\nPoints:", f"{QUESTION}\nPoint: Oil the chain"]
    assert not any("other writers" in prompt.lower() for prompt in prompts)


async def test_a_small_model_is_kept_from_saying_its_words_again_where_its_backend_can_do_that():
    script = {r"Points:$": "1. Oil\n2. Air", "": "Text."}
    for field, sent in (("repeat_penalty", {"repeat_penalty": 1.1}), ("", {})):
        backend = ScriptedBackend(script, capabilities=replace(SMALL, penalty=field))
        await ask(backend)
        assert [prompt.extra for prompt, _ in backend.calls] == [sent] * 3
        await ask(backend, strategy="direct")
        assert backend.calls[-1][0].extra == {}


async def test_points_are_drawn_with_seeds_of_their_own():
    backend = ScriptedBackend({r"Points:$": "1. Oil the chain\n2. Pump the tyres", "": "Text."}, capabilities=SMALL)
    await ask(backend, seed=7)
    assert [options.seed for _, options in backend.calls] == [7, 8, 9]
    await ask(backend)
    assert [options.seed for _, options in backend.calls[3:]] == [None] * 3


async def test_a_small_model_is_asked_in_the_language_of_the_question():
    backend = ScriptedBackend({r"Punkte:$": "1. Kette ölen\n2. Reifen aufpumpen", "": "Ein Satz."}, capabilities=SMALL)
    await ask(backend, GERMAN)
    assert any("Ein Punkt der Antwort lautet: Kette ölen" in prompt.messages[-1].content for prompt, _ in backend.calls)


async def test_the_points_of_a_small_model_that_say_the_same_are_answered_straight():
    script = {r"Points:$": "1. Oil the chain\n2. Pump the tyres", "Point: ": SAME, "": "A straight answer."}
    answer = await ask(script, capabilities=SMALL)
    assert (answer.text, answer.strategy) == ("A straight answer.", "direct")
    assert "its points say the same" in answer.warnings[0]


async def test_an_outline_of_a_small_model_ends_where_it_only_repeats_itself():
    outline = "1. Oil the chain\n2. Pump the tyres\n" + "".join(f"{n}. Oil the chain\n" for n in range(3, 30))
    backend = ScriptedBackend(
        {r"Points:$": outline, "Point: Oil": "Use a drop.", "": "Use a pump."}, capabilities=SMALL
    )
    answer = await ask(backend, temperature=0.9)
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Pump the tyres**: Use a pump."
    assert answer.warnings == ("One title of the outline was left out: a title says the same as an earlier one.",)
    assert [call.temperature for _, call in backend.calls] == [0.0, 0.9, 0.9]


@pytest.mark.parametrize(
    ("question", "outline", "stops"),
    [
        (QUESTION, "Points:$", [("\n\n",), *[("\n\n", " 2. ")] * 2]),
        (GERMAN, "Punkte:$", [("\nFrage:",), *[(" 2. ",)] * 2]),
    ],
)
async def test_a_text_of_a_small_model_ends_where_another_example_or_item_begins(question, outline, stops):
    backend = ScriptedBackend({outline: "1. Oil\n2. Air", "": "Text."}, capabilities=SMALL)
    await ask(backend, question, stop=["user's own"])
    assert [options.stop for _, options in backend.calls] == stops


async def test_a_small_model_that_repeats_the_examples_is_answered_straight():
    script = {r"Points:$": "1. You know what is in it\n2. Meals are healthier", "": "A straight answer."}
    assert (await ask(script, capabilities=SMALL)).text == "A straight answer."


async def test_an_outline_of_a_small_model_may_say_one_short_word_again_and_again():
    """ "No" is a function word in Spanish and Italian, too."""
    outline = "1. No life support\n2. No medical care\n3. No education"
    script = {r"Points:$": outline, "life": "Nobody helps.", "medical": "The hospital is far.", "": "Schools are far."}
    answer = await ask(script, "What are the disadvantages of living on an island?", capabilities=SMALL)
    assert (answer.strategy, answer.warnings) == ("skeleton", ())


async def test_a_point_of_a_small_model_that_only_repeats_its_title_or_the_question_is_left_out():
    outline = "1. Oil the chain\n2. Pump the tyres\n3. Cleaning it\n4. Check the brakes"
    script = {
        r"Points:$": outline,
        "Point: Oil": f'The answer to this question is: "{QUESTION}"',
        "Point: Pump": "Press the tyre with a thumb.",
        "Point: Clean": "To look after a bicycle, consider cleaning it after you look after it.",
        "advice: (Oil|Clean)": f'The answer to this question is: "{QUESTION}"',
        "": "Pull both of them.",
    }
    answer = await ask(script, capabilities=SMALL)
    assert (
        answer.text
        == "1. **Pump the tyres**: Press the tyre with a thumb.\n2. **Check the brakes**: Pull both of them."
    )
    assert all("it only repeats its title or the question" in warning for warning in answer.warnings)
    assert len(answer.warnings) == 2


async def test_a_point_of_a_small_model_that_says_nothing_is_asked_for_once_more():
    script = {
        r"Points:$": "1. Oil the chain\n2. Pump the tyres",
        "Point: Oil": "To look after a bicycle, how do I look after it? Oil the chain of the bicycle.",
        "advice: Oil": "Use a drop for each link.",
        "": "Press them with a thumb.",
    }
    answer = await ask(script, capabilities=SMALL)
    assert (
        answer.text
        == "1. **Oil the chain**: Use a drop for each link.\n2. **Pump the tyres**: Press them with a thumb."
    )
    assert answer.warnings == ()


async def test_a_point_of_a_small_model_that_ends_in_a_colon_is_asked_for_once_more():
    """A list would have followed, behind the blank line that ends a point."""
    script = {
        r"Points:$": "1. Oil the chain\n2. Pump the tyres",
        "Point: Oil": "There are several ways to put oil on every single link of a chain:",
        "advice: Oil": "Use a drop for each link.",
        "": "Press them with a thumb.",
    }
    answer = await ask(script, capabilities=SMALL)
    assert answer.text.startswith("1. **Oil the chain**: Use a drop for each link.")


async def test_a_point_of_a_small_model_that_becomes_a_list_is_cut_or_asked_for_again():
    begun = "1. Put one drop of oil on every link and wipe the rest off with a cloth.\n2. Pump the tyres."
    script = {
        r"Points:$": "1. Oil the chain\n2. Pump the tyres",
        "Point: Oil": begun,
        "Point: Pump": "To pump the tyres of a bicycle, there are several ways to do it:\n\n1. By hand.\n2. By foot.",
        "this advice: Pump": "Press the tyre with a thumb.",
    }
    answer = await ask(script, capabilities=SMALL)
    assert answer.text == (
        "1. **Oil the chain**: Put one drop of oil on every link and wipe the rest off with a cloth.\n"
        "2. **Pump the tyres**: Press the tyre with a thumb."
    )


async def test_a_point_of_a_small_model_that_is_nonsense_twice_is_left_out_and_told():
    outline = "1. Oil the chain\n2. Pump the tyres\n3. Check the brakes"
    script = {r"Points:$": outline, "Oil": "Use a drop.", "Pump": LOOP * 20, "": "Pull both of them."}
    answer = await ask(script, capabilities=SMALL)
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Check the brakes**: Pull both of them."
    assert answer.warnings == ("Point 2, 'Pump the tyres', was left out: it repeats itself.",)
    assert answer.finish_reason == "stop"


async def test_a_point_of_a_small_model_that_its_server_failed_to_write_is_noted():
    outline = "1. Oil the chain\n2. Pump the tyres\n3. Check the brakes"
    failing = Reply("", fault=ServerFailedError("The server failed (500)."))
    script = {r"Points:$": outline, "Oil": "Use a drop.", "Pump": failing, "": "Pull both of them."}
    answer = await ask(script, capabilities=SMALL)
    assert "2. **Pump the tyres**: [could not be written]" in answer.text


async def test_a_point_of_a_small_model_that_is_nonsense_is_missing_where_no_part_may_be():
    outline = "1. Oil the chain\n2. Pump the tyres\n3. Check the brakes"
    script = {r"Points:$": outline, "Oil": "Use a drop.", "Pump": LOOP * 20, "": "Pull both of them."}
    with pytest.raises(IncompleteAnswerError, match="lacks 1 of 3 parts"):
        await ask(script, capabilities=SMALL, on_missing="raise")


async def test_a_small_model_that_begins_with_a_title_of_an_example_may_go_on_with_its_own():
    outline = "1. You know what is in it\n2. Oil the chain\n3. Pump the tyres"
    answer = await ask({r"Points:$": outline, "Oil": "Oil it.", "Pump": "Pump them."}, capabilities=SMALL)
    assert answer.text == "1. **Oil the chain**: Oil it.\n2. **Pump the tyres**: Pump them."


async def test_a_small_model_that_writes_one_title_again_and_again_is_answered_straight():
    script = {r"Points:$": "1. Oil the chain\n2. Oil the chain\n3. Oil the chain", "": "A straight answer."}
    answer = await ask(script, capabilities=SMALL)
    assert (answer.text, answer.usage.calls) == ("A straight answer.", 3)  # two outlines


async def test_a_second_outline_of_a_small_model_is_drawn_where_the_first_has_too_few_titles():
    """The good title of the first one stays; what was wrong there does not count against the second."""
    prose = "The most important thing of all is that one oils the chain of the bicycle well and often."
    script = {
        r"Points:$": [
            f"1. Oil the chain\n2. {prose}\n3. {prose} So it is.",
            "1. Oil the chain\n2. Pump the tyres",
        ],
        "Point: Oil": "Use a drop.",
        "": "Use a pump.",
    }
    backend = ScriptedBackend(script, capabilities=SMALL)
    answer = await ask(backend, temperature=0.0)
    assert answer.text == "1. **Oil the chain**: Use a drop.\n2. **Pump the tyres**: Use a pump."
    assert [options.temperature for _, options in backend.calls] == [0.0, 0.7, 0.0, 0.0]


async def test_an_announcement_that_ends_a_point_is_taken_off_too():
    outline = "1. Chain\n2. Tyres"
    answer = await ask({OUTLINE: outline, "point 1,": f"The answer to this question is: {QUESTION}", "": "Pump them."})
    assert answer.text == f"1. **Chain**: {QUESTION}\n2. **Tyres**: Pump them."


async def test_a_family_of_prompts_can_be_named_for_any_model():
    backend = ScriptedBackend({r"Points:$": "1. Oil\n2. Air", "": "Text."})
    async with AsyncStretto(backend, prompt_family="small") as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton")
    assert "Points:" in backend.calls[0][0].messages[-1].content
    assert answer.strategy == "skeleton"


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
