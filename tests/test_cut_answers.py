"""An answer that is cut says so: in its finish reason, in one plain warning a part, and in a short note in its text."""

import anyio
import pytest

from stretto import AsyncStretto, Budget, Request, Settings
from stretto.errors import IncompleteAnswerError, ServerFailedError, SettingsError, StreamBrokenError
from stretto.language.telling import language_of, languages
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

QUESTION = "How do I look after a bicycle?"
OUTLINE = "Write only the outline"
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
        return await stretto.ask(question, **({"strategy": "skeleton"} | arguments))


async def test_a_direct_answer_that_breaks_off_for_good_says_so():
    broken = Reply("one two three", fault=BROKEN, fault_after=2)
    answer = await ask({"": broken}, strategy="direct")
    assert answer.finish_reason == "error"
    assert answer.warnings == (f"The answer is incomplete: {BROKEN}",)


async def test_a_direct_answer_cut_by_its_deadline_says_so():
    held = Reply("one two", chunks=("one ", "two"), chunk_delay_s=600)
    answer = await ask({"": held}, strategy="direct", deadline_s=30)
    assert (answer.text, answer.finish_reason) == ("one ", "deadline")
    (warning,) = answer.warnings
    assert warning.startswith("The answer is incomplete: The deadline passed after")
    assert "deadline_s" in warning


async def test_a_direct_answer_cut_at_max_tokens_says_so():
    answer = await ask({"": " ".join(map(str, range(90)))}, strategy="direct", max_tokens=20)
    assert answer.finish_reason == "length"
    assert answer.warnings == ("The answer was cut at max_tokens=20. Allow more.",)


async def test_a_direct_answer_cut_by_its_model_says_so():
    answer = await ask({"": Reply("word word", finish_reason="length")}, strategy="direct")
    assert answer.finish_reason == "length"
    assert answer.warnings == ("The answer was cut by the limit of its model. Ask for a shorter answer, or in parts.",)


async def test_a_direct_answer_cut_by_the_budget_of_tokens_says_so():
    answer = await ask({"": " ".join(map(str, range(90)))}, strategy="direct", budget=Budget(max_tokens_total=50))
    assert answer.finish_reason == "budget"
    assert answer.warnings == ("The answer was cut by the budget of max_tokens_total=50. Allow more.",)


async def test_a_refusal_says_so():
    answer = await ask({"": Reply("No.", finish_reason="refusal")}, strategy="direct")
    assert answer.finish_reason == "refusal"
    assert answer.warnings[0].startswith("The model refused to answer.")


async def test_a_point_cut_by_its_length_is_named_and_the_answer_is_not_whole():
    answer = await ask({**SKELETON, "point 2,": Reply("Oil it", finish_reason="length")})
    assert answer.finish_reason == "length"
    assert answer.warnings[0].startswith("Point 2, 'Chain', was cut at ")


async def test_an_item_cut_by_its_length_is_named():
    script = {"child": Reply("chil", finish_reason="length"), "cat": "cats", "": "mice"}
    answer = await ask(script, "Give the plural of each: cat, child, mouse", strategy="items")
    assert answer.finish_reason == "length"
    assert any(warning.startswith("'child' was cut at ") for warning in answer.warnings)


async def test_the_worst_part_decides_how_the_answer_ended():
    cut = Reply("Pump", finish_reason="length")
    answer = await ask({"point 3,|part on .Brakes": DOWN, **SKELETON, "point 1,": cut})
    assert answer.finish_reason == "error"
    assert len(answer.warnings) == 2


async def test_a_part_that_lost_a_race_does_not_count():
    async with AsyncStretto(ScriptedBackend({**SKELETON, "": Reply("Never.", delay_s=600)})) as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton", race=True)
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_half_a_title_of_an_outline_that_was_cut_is_no_point():
    answer = await ask({**SKELETON, OUTLINE: Reply("1. Tyres\n2. Chain\n3. Bra", finish_reason="length")})
    assert "Bra" not in answer.text
    assert answer.finish_reason == "length"
    assert answer.warnings[0].startswith("The outline was cut after 2 points")


@pytest.mark.parametrize(
    "cut", ['["Tyres", "Chain", "Bra', '{"points": [{"title": "Tyres"}, {"title": "Chain"}, {"title": "Brakes", "wo']
)
async def test_half_an_entry_of_a_json_outline_that_was_cut_is_no_point(cut):
    answer = await ask({**SKELETON, OUTLINE: Reply(cut, finish_reason="length")})
    assert answer.text == "1. **Tyres**: Pump them.\n2. **Chain**: Oil it."
    assert answer.finish_reason == "length"


async def test_an_outline_that_was_cut_behind_the_points_that_were_asked_for_lacks_nothing():
    cut = Reply("1. Tyres\n2. Chain\n3. Brakes\nClosing: Ri", finish_reason="length")
    answer = await ask({**SKELETON, OUTLINE: cut}, "Give me 3 tips for looking after a bicycle.")
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_an_outline_that_breaks_off_for_good_leaves_an_answer_that_is_not_whole():
    broken = Reply("1. Tyres\n2. Chain\n3. Brakes\n4. Li", fault=BROKEN, fault_after=7)
    answer = await ask({"<received>": DOWN, **SKELETON, OUTLINE: broken})
    assert answer.text.endswith("3. **Brakes**: Test them.")
    assert answer.finish_reason == "error"
    assert any(warning.startswith("The outline broke off after 3 points") for warning in answer.warnings)


async def test_the_note_in_the_text_is_short_and_the_cause_is_in_the_warnings():
    answer = await ask({"point 2,|part on .Chain": DOWN, **SKELETON})
    assert answer.text == "1. **Tyres**: Pump them.\n2. **Chain**: [could not be written]\n3. **Brakes**: Test them."
    assert answer.warnings == ("Point 2, 'Chain', is incomplete: The server is down.",)


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
    assert answer.text == "1. **Tyres**: Pump them.\n3. **Brakes**: Test them."
    assert answer.finish_reason == "error"
    assert "Chain" in answer.warnings[0]


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
        assert "Chain" not in (await stretto.ask(QUESTION, strategy="skeleton")).text
        assert "[could" in (await stretto.ask(QUESTION, strategy="skeleton", on_missing="note")).text


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
