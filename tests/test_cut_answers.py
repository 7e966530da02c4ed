"""An answer that is cut says so: in its finish reason, in one plain warning a part, and in a short note in its text."""

import anyio
import pytest

from stretto import AsyncStretto, Budget, Request, Settings
from stretto.backends.base import Capabilities
from stretto.language.telling import language_of, languages
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import (
    BackendError,
    IncompleteAnswerError,
    ServerFailedError,
    SettingsError,
    StreamBrokenError,
)

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

QUESTION = "How do I look after a bicycle?"
OUTLINE = "Write only the outline"
BY_POINTS = {"strategy": "skeleton", "strategy_options": {"form": "points"}}
BROKEN = StreamBrokenError("The stream of scripted:model broke off. Ask again.")
DOWN = Reply(fault=ServerFailedError("The server is down."))
SKELETON = {
    OUTLINE: "1. Tyres\n2. Chain\n3. Brakes",
    "point 1,": "Pump them.",
    "point 2,": "Oil it.",
    "point 3,": "Test them.",
    "": "Straight.",
}


async def ask(script, question=QUESTION, **arguments):
    async with AsyncStretto(ScriptedBackend(script)) as stretto:
        return await stretto.ask(question, **({} if "strategy" in arguments else BY_POINTS), **arguments)


async def test_a_direct_answer_that_breaks_off_for_good_says_so():
    broken = Reply("one two three", fault=BROKEN, fault_after=2)
    answer = await ask({"": broken}, strategy="direct")
    assert answer.finish_reason == "error"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "direct")]


async def test_a_direct_answer_cut_by_its_deadline_says_so():
    held = Reply("one two", chunks=("one ", "two"), chunk_delay_s=600)
    answer = await ask({"": held}, strategy="direct", deadline_s=30)
    assert (answer.text, answer.finish_reason) == ("one ", "deadline")
    (warning,) = answer.warnings
    assert (warning.code, warning.part) == ("deadline", "direct")
    assert "deadline_s" in warning


async def test_a_direct_answer_cut_at_max_tokens_says_so():
    answer = await ask({"": " ".join(map(str, range(90)))}, strategy="direct", max_tokens=20)
    assert answer.finish_reason == "length"
    assert answer.warnings == ("The answer was cut at max_tokens=20. Allow more.",)


async def test_a_direct_answer_cut_by_its_model_says_so():
    answer = await ask({"": Reply("word word", finish_reason="length")}, strategy="direct")
    assert answer.finish_reason == "length"
    assert answer.warnings == ("The answer was cut by the limit of its model. Ask for a shorter answer, or in parts.",)


@pytest.mark.parametrize(("strategy", "tokens"), [("direct", 50), ("skeleton", 150), ("consensus", 250)])
async def test_an_answer_whose_tokens_all_went_into_thoughts_is_cut_and_tells_them(strategy, tokens):
    script = {"": Reply("", finish_reason="length", reasoning_tokens=50)}
    answer = await ask(script, strategy=strategy, max_tokens=50)
    assert (answer.text, answer.finish_reason, answer.usage.reasoning_tokens) == ("", "length", tokens)
    assert "at max_tokens=50, before any text was written. Allow more." in answer.warnings[-1]


@pytest.mark.parametrize("strategy", ["direct", "consensus", "skeleton"])
async def test_thoughts_that_fill_the_budget_of_tokens_end_the_answer(strategy):
    script = {"": Reply("", finish_reason="length", reasoning_tokens=40)}
    answer = await ask(script, strategy=strategy, budget=Budget(max_tokens_total=2000))
    assert (answer.text, answer.finish_reason) == ("", "budget")
    assert answer.usage.reasoning_tokens >= 40
    assert (answer.warnings[-1].code, "max_tokens_total=2000" in answer.warnings[-1]) == ("budget", True)


@pytest.mark.parametrize(("strategy", "kind"), [("consensus", "sample"), ("collaborate", "proposal")])
async def test_a_share_of_the_budget_of_tokens_ends_a_version_as_the_budget_does(strategy, kind):
    budget = Budget(max_tokens_total=900)
    answer = await ask({"": " ".join(map(str, range(900)))}, strategy=strategy, budget=budget)
    assert {branch.finish_reason for branch in answer.branches if branch.kind == kind} == {"budget"}
    assert {branch.finish_reason for branch in (await ask({"": "word"}, strategy=strategy)).branches} == {"stop"}


@pytest.mark.parametrize(
    ("replies", "ending", "text"),
    [
        (["", "24", "24", "", "25"], "stop", "24"),
        (["", DOWN, "", "", ""], "length", ""),
        (["", Reply("", finish_reason="refusal"), "", "", ""], "refusal", ""),
    ],
)
async def test_samples_that_wrote_nothing_have_no_vote_and_say_why(replies, ending, text):
    thoughts = Reply("", finish_reason="length", reasoning_tokens=50)
    backend = ScriptedBackend({"": [each or thoughts for each in replies]})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="consensus", max_tokens=50)
    assert (answer.text, answer.finish_reason) == (text, ending)
    assert answer.usage.reasoning_tokens == 50 * replies.count("")
    assert answer.warnings[0].code == "votes"
    assert "max_tokens=50" in " ".join(answer.warnings)


async def test_proposals_that_wrote_nothing_end_the_answer_with_their_limit():
    script = {"": Reply("", finish_reason="length", reasoning_tokens=50)}
    answer = await ask(script, strategy="collaborate", max_tokens=50)
    assert (answer.text, answer.finish_reason, answer.usage.reasoning_tokens) == ("", "length", 150)
    assert {(warning.code, "limit of tokens" in warning) for warning in answer.warnings} == {("part_missing", True)}


async def test_thoughts_that_fill_a_model_without_a_limit_of_the_callers_are_a_failure_that_the_next_model_mends():
    thoughts = ScriptedBackend({"": Reply("", finish_reason="length", reasoning_tokens=50)})
    async with AsyncStretto(thoughts, fallback=[ScriptedBackend({"": "Yes."}, name="own:next")]) as stretto:
        answer = await stretto.ask(QUESTION, strategy="direct")
    assert (answer.text, answer.finish_reason, answer.usage.reasoning_tokens) == ("Yes.", "stop", 50)


async def test_an_answer_cut_to_nothing_at_a_stop_text_is_whole_and_another_empty_one_is_a_failure():
    answer = await ask({"": ""}, strategy="direct", stop="Hello")
    assert (answer.text, answer.finish_reason, answer.warnings) == ("", "stop", ())
    with pytest.raises(BackendError, match="returned no text"):
        await ask({"": ""}, strategy="direct")


async def test_a_direct_answer_cut_by_the_budget_of_tokens_says_so():
    answer = await ask({"": " ".join(map(str, range(90)))}, strategy="direct", budget=Budget(max_tokens_total=50))
    assert answer.finish_reason == "budget"
    assert [(warning.code, "max_tokens_total=50" in warning) for warning in answer.warnings] == [("budget", True)]


async def test_a_refusal_says_so():
    answer = await ask({"": Reply("No.", finish_reason="refusal")}, strategy="direct")
    assert answer.finish_reason == "refusal"
    assert [(warning.code, "The model" in warning) for warning in answer.warnings] == [("refusal", True)]


async def test_a_point_cut_by_its_length_is_named_and_the_answer_is_not_whole():
    answer = await ask({**SKELETON, "point 2,": Reply("Oil it", finish_reason="length")})
    assert answer.finish_reason == "length"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "point-2")]


async def test_an_item_cut_by_its_length_is_named():
    script = {"child": Reply("chil", finish_reason="length"), "cat": "cats", "": "mice"}
    answer = await ask(script, "Give the plural of each: cat, child, mouse", strategy="items")
    assert answer.finish_reason == "length"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "item-2")]


async def test_the_worst_part_decides_how_the_answer_ended():
    cut = Reply("Pump", finish_reason="length")
    answer = await ask({"point 3,|part on .Brakes": DOWN, **SKELETON, "point 1,": cut})
    assert answer.finish_reason == "error"
    assert {each.part: each.code for each in answer.warnings} == {"point-1": "part_cut", "point-3": "part_missing"}


async def test_half_a_title_of_an_outline_that_was_cut_is_no_point():
    answer = await ask({**SKELETON, OUTLINE: Reply("1. Tyres\n2. Chain\n3. Bra", finish_reason="length")})
    assert "Bra" not in answer.text
    assert answer.finish_reason == "length"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "outline")]


async def test_an_outline_that_was_cut_behind_the_points_that_were_asked_for_lacks_nothing():
    cut = Reply("1. Tyres\n2. Chain\n3. Brakes\nClosing: Ri", finish_reason="length")
    answer = await ask({**SKELETON, OUTLINE: cut}, "Give me 3 tips for looking after a bicycle.")
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_an_outline_that_breaks_off_for_good_leaves_an_answer_that_is_not_whole():
    broken = Reply("1. Tyres\n2. Chain\n3. Brakes\n4. Li", fault=BROKEN, fault_after=7)
    answer = await ask({"<received>": DOWN, **SKELETON, OUTLINE: broken})
    assert answer.text.endswith("3. **Brakes**: Test them.")
    assert answer.finish_reason == "error"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "outline")]


EMPTY = "scripted:model returned no text when asked for the rest."


def broken(text, after):
    return Reply(text, fault=StreamBrokenError("The stream of scripted:model broke off. Ask again."), fault_after=after)


@pytest.mark.parametrize("rest", ["", "\n", " \u200b\u2003", "three", Reply("", finish_reason="length")])
@pytest.mark.parametrize("continues", [False, True], ids=["asked in words", "given its turn"])
async def test_an_answer_that_breaks_off_and_whose_rest_is_empty_is_not_whole(rest, continues):
    script = {"": [broken("one two three four five", 3), rest]}
    backend = ScriptedBackend(script, capabilities=Capabilities(continues=continues))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="direct")
    assert answer.text.rstrip(" \u200b\u2003") == "one two three"
    assert answer.finish_reason == ("length" if isinstance(rest, Reply) else "error")
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "direct")]
    assert answer.branches[0].error == f"{BROKEN} {EMPTY}"


@pytest.mark.parametrize(
    ("ending", "whole"),
    [("five.", True), ("1.", False), ("five", False), ("Dr.", False), ("five.\n\n```python\n# Done.", False)],
)
async def test_a_model_that_ends_its_own_turn_at_once_behind_a_whole_sentence_had_written_all(ending, whole):
    said = f"One two three four {ending}"
    backend = ScriptedBackend({"": [broken(said, len(said.split())), ""]}, capabilities=Capabilities(continues=True))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="direct")
    assert answer.text == said
    assert (answer.finish_reason, answer.warnings == ()) == (("stop", True) if whole else ("error", False))


async def test_an_empty_rest_that_was_asked_for_in_words_proves_nothing():
    answer = await ask({"": [broken("One two three four five.", 5), ""]}, strategy="direct")
    assert answer.finish_reason == "error"
    assert answer.warnings[0].endswith(EMPTY)


OIL = broken("Oil it now and then.", 2)
PARTS = {
    "a point": ("skeleton", QUESTION, {"point 2,": OIL}, "2. **Chain**: Oil it […broken off]"),
    "an outline": (
        "skeleton",
        QUESTION,
        {OUTLINE: broken("1. Tyres\n2. Chain\n3. Brakes", 5)},
        "2. **Chain**: Oil it.",
    ),
    "an item": (
        "items",
        "Say how each is done: oiling, testing, pumping",
        {"<entry>\noiling": OIL},
        "Oil it […broken off]",
    ),
    "a piece of a fork": ("forking", QUESTION, {"": [OIL, ""]}, "Oil it"),
}


@pytest.mark.parametrize(("strategy", "question", "script", "shown"), PARTS.values(), ids=PARTS)
async def test_a_part_that_breaks_off_and_whose_rest_is_empty_is_not_whole(strategy, question, script, shown):
    able = Capabilities(continues=strategy == "forking")
    backend = ScriptedBackend({"<received>": "\n", **script, **SKELETON, **script}, capabilities=able)
    async with AsyncStretto(backend) as stretto:
        options = BY_POINTS if strategy == "skeleton" else {"strategy": strategy}
        answer = await stretto.ask(question, **options)
    assert shown in answer.text
    assert answer.finish_reason == "error"
    assert any(EMPTY in warning for warning in answer.warnings)


async def test_the_note_in_the_text_is_short_and_the_cause_is_in_the_warnings():
    answer = await ask({"point 2,|part on .Chain": DOWN, **SKELETON})
    assert answer.text == "1. **Tyres**: Pump them.\n2. **Chain**: [could not be written]\n3. **Brakes**: Test them."
    assert [(warning.part, str(DOWN.fault) in warning) for warning in answer.warnings] == [("point-2", True)]


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("How do I look after a bicycle?", "en"),
        ("Wie pflege ich mein Fahrrad?", "de"),
        ("Comment entretenir mon vélo ?", "fr"),
        ("¿Cómo cuido mi bicicleta?", "es"),
        ("Come mi prendo cura della mia bicicletta?", "it"),
        ("Hoe onderhoud ik mijn fiets?", "nl"),
        ("Como devo cuidar da minha bicicleta?", "pt"),
        ("如何保养自行车？", "zh"),
        ("自転車の手入れはどうすればよいですか？", "ja"),
        ("كيف أعتني بدراجتي؟", "ar"),
        ("मैं अपनी साइकिल की देखभाल कैसे करूँ?", "hi"),
        ("Как ухаживать за велосипедом?", "ru"),
        ("Bisikletime nasıl bakarım?", "tr"),
        ("자전거는 어떻게 관리하나요?", "ko"),
        ("What does 你好 mean in Chinese?", "en"),
        ("xyzzy", "en"),
    ],
)
def test_the_note_is_in_the_language_of_the_question(question, language):
    assert language_of(question) == language
    assert language in languages().notes


async def test_a_german_question_gets_a_german_note():
    script = {"point 2,|part on .Chain": DOWN, **SKELETON}
    answer = await ask(script, "Wie pflege ich mein Fahrrad?")
    assert "2. **Chain**: [konnte nicht geschrieben werden]" in answer.text


async def test_a_missing_part_can_be_left_out_with_its_label():
    answer = await ask({"point 2,|part on .Chain": DOWN, **SKELETON}, on_missing="omit")
    assert answer.text == "1. **Tyres**: Pump them.\n2. **Brakes**: Test them."
    assert answer.finish_reason == "error"
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "point-2")]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("", "cat: cats\nmouse: mice"),
        (" Answer as a JSON array.", '[\n  "cats",\n  "mice"\n]'),
        (" Answer as a numbered list.", "1. cat: cats\n2. mouse: mice"),
        (" Separate them by commas, that is comma-separated.", "cats, mice"),
    ],
)
async def test_a_missing_item_can_be_left_out_in_every_form(form, expected):
    question = f"Give the plural of each word.{form}\n- child\n- cat\n- mouse"

    def only(prompt):
        asked = prompt.messages[-1].content
        return DOWN if "child" in asked else "mice" if "mouse" in asked else "cats"

    async with AsyncStretto(ScriptedBackend(only)) as stretto:
        answer = await stretto.ask(question, strategy="items", on_missing="omit")
    assert answer.text == expected


async def test_a_missing_part_can_be_an_error_that_carries_the_rest():
    with pytest.raises(IncompleteAnswerError, match=r"lacks 1 of 3 parts.*'Chain'.*The server is down") as it:
        await ask({"point 2,|part on .Chain": DOWN, **SKELETON}, on_missing="raise")
    assert "3. **Brakes**: Test them." in it.value.answer.text


async def test_nothing_is_raised_where_nothing_is_missing():
    assert (await ask(SKELETON, on_missing="raise")).finish_reason == "stop"


async def test_the_setting_decides_where_the_request_does_not():
    backend = ScriptedBackend({"point 2,|part on .Chain": DOWN, **SKELETON})
    async with AsyncStretto(backend, settings=Settings(on_missing="omit")) as stretto:
        assert "Chain" not in (await stretto.ask(QUESTION, **BY_POINTS)).text
        assert "[could" in (await stretto.ask(QUESTION, **BY_POINTS, on_missing="note")).text


def test_another_word_for_it_is_refused():
    with pytest.raises(ValueError, match="on_missing='hide'"):
        Request.of("Why?", on_missing="hide")


def test_the_setting_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("STRETTO_ON_MISSING", "hide")
    with pytest.raises(SettingsError, match="STRETTO_ON_MISSING"):
        Settings.load()


async def test_an_answer_tells_how_it_was_written_in_the_end():
    assert (await ask(SKELETON)).strategy == "skeleton"
    fell_back = await ask({OUTLINE: "I would rather not.", "": "Straight."})
    assert (fell_back.route.strategy, fell_back.strategy) == ("skeleton", "direct")
    with anyio.fail_after(60):
        not_split = await ask({"": "Straight."}, "Write a poem about the sea.", strategy="items")
    assert not_split.strategy == "direct"


async def test_an_error_names_the_first_warnings_and_its_answer_holds_all():
    titles = "\n".join(f"{number}. Thing {number}" for number in range(1, 10))
    script = {OUTLINE: titles, "point 1,": "Fine.", r"Thing \d": DOWN}
    with pytest.raises(IncompleteAnswerError) as caught:
        await ask(script, on_missing="raise")
    assert str(caught.value).startswith("The answer lacks 8 of 9 parts. Point 2")
    assert "Point 7" not in str(caught.value)
    assert str(caught.value).endswith("The others of 8 warnings are in the answer of this error.")
    assert len(caught.value.answer.warnings) == 8
