"""What is never a result of an item: none of the labels, an echo of its entry, words of our prompt."""

import re

import pytest
from asking_items import ask, entry
from streaming import text_of

from stretto import AsyncStretto, Budget
from stretto.abilities import Abilities, Ability, keep
from stretto.abilities.kept import prompts_version
from stretto.backends.base import Capabilities
from stretto.strategies.items.labels import label_in, labels_of, one_of
from stretto.testing import ScriptedBackend
from stretto.values.errors import StrettoError

pytestmark = pytest.mark.anyio

REVIEWS = "Classify each review as positive or negative:\n- Great tent.\n- The zip broke.\n- Would buy again."
GOOD = {entry("The zip broke."): "negative", entry(r"Would buy again\."): "positive"}
REMARK = "Write only the result for this entry: no number, no heading, no repetition of the entry, no remark."


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("Classify each review as positive or negative", "positive negative"),
        ("Classify each review as positive, negative or neutral.", "positive negative neutral"),
        ("Label each mail as spam/ham", "spam ham"),
        ("Is each mail spam or ham?", "spam ham"),
        ("Is each mail an order? Answer yes or no.", "yes no"),
        ("Classify each ticket into one of these categories: billing, technical, sales", "billing technical sales"),
        ("Classify the sentiment (positive, negative, neutral) of each review", "positive negative neutral"),
        ("Classify each word as a noun, a verb, or an adjective", "noun verb adjective"),
        ("Classify each review as positive or negative as a JSON array", "positive negative"),
        ("Classify each review as positive or negative. Answer with the label only.", "positive negative"),
        ("Klassifiziere jede Bewertung als positiv oder negativ", "positiv negativ"),
        ("Classe chaque avis comme positif ou négatif", "positif négatif"),
        ("Clasifica cada reseña como positiva o negativa", "positiva negativa"),
        ("Классифицируй каждый отзыв как положительный или отрицательный", "положительный отрицательный"),
        ("将每条评论分类为正面或负面", "正面 负面"),
        ("将每条评论分类：正面、负面", "正面 负面"),
        ("Classificeer elke recensie als positief of negatief", "positief negatief"),
        ("Classificeer elke recensie als positief, negatief of neutraal.", "positief negatief neutraal"),
        ("次の各レビューを肯定的または否定的に分類してください。", "肯定的 否定的"),
        ("次の各レビューを肯定、否定、中立のいずれかに分類してください。", "肯定 否定 中立"),
        ("次の各レビューを分類してください（肯定／否定）", "肯定 否定"),
        ("다음 각 리뷰를 긍정 또는 부정으로 분류하세요.", "긍정 부정"),
        ("각 리뷰를 긍정, 부정, 중립 중 하나로 분류해 주세요.", "긍정 부정 중립"),
    ],
)
def test_labels_are_read_where_the_task_names_them(task, labels):
    assert labels_of(task) == tuple(labels.split())


@pytest.mark.parametrize(
    "task",
    [
        "Give the plural of each word",
        "Classify each review as positive or negative, and give a reason",
        "Classify each review as positive or negative with a reason for each",
        "Classify each review as positive or negative. Explain why.",
        "Classify each review as positive or negative. If you are not sure, write unknown.",
        "Tag each text with one or more of: sport, politics, art",
        "Translate each sentence into French or German",
        "Classify each animal into kingdom and phylum",
        "Classify each as a type of fruit",
        "Classify each as fruit, vegetable, etc.",
        "Label each as urgent or not",
        "Answer each question in English or French",
        "Answer each in one word or phrase",
        "Categorize each expense",
        "Label each as part of speech",
        "Classificeer elke recensie als positief of negatief en leg uit waarom",
        "Vertaal elk woord naar het Engels of Frans",
        "次の各レビューを分類し、理由を書いてください",
        "次の各レビューを肯定、否定、その他のいずれかに分類してください",
        "각 리뷰를 긍정 또는 부정으로 분류하고 이유를 쓰세요",
        "각 문장을 영어 또는 일본어로 번역하세요",
    ],
)
def test_labels_are_not_read_where_more_is_allowed(task):
    assert labels_of(task) == ()


@pytest.mark.parametrize(
    "text", ["positive", " **Positive**.", '"POSITIVE"', "Sentiment: positive", "A: positive", "positiva"]
)
def test_a_label_is_found_in_its_spellings(text):
    assert label_in(text, ("positive", "negative"), "A") == "positive"


@pytest.mark.parametrize("text", ["", "positive or negative", "not positive", "I think it is positive", "A"])
def test_anything_else_is_no_label(text):
    assert label_in(text, ("positive", "negative"), "A") is None


@pytest.mark.parametrize(
    "wrong",
    [
        "Great tent.",
        "Great tent.\n\nThe task is to classify each review based on the entries.",
        "You are to classify the review. The task asks for no repetition of the entry, no remark.",
        f"<entry> Great tent. </entry> {REMARK}",
        "positive or negative",
    ],
)
async def test_what_is_no_label_is_asked_for_once_more_alone(wrong):
    backend = ScriptedBackend({entry(r"Great tent\."): wrong, **GOOD, r"negative:\n\nGreat tent\.$": "**Positive.**"})
    answer = await ask(backend, REVIEWS)
    assert answer.text == "Great tent.: positive\nThe zip broke.: negative\nWould buy again.: positive"
    assert (answer.warnings, len(backend.calls)) == ((), 4)


async def test_a_backend_with_grammars_can_write_nothing_but_a_label():
    backend = ScriptedBackend(GOOD | {"": "positive"}, capabilities=Capabilities(regex=True, json_schema=True))
    await ask(backend, REVIEWS)
    patterns = {prompt.response_regex for prompt, _ in backend.calls}
    assert patterns == {"positive|negative"}
    assert all(prompt.response_schema is None for prompt, _ in backend.calls)


@pytest.mark.parametrize("label", ["c++ (new)", "a.b", "very good", "não", "$5 [net]"])
def test_the_pattern_of_labels_matches_them_and_nothing_else(label):
    pattern = re.compile(one_of([label, "other"]))
    assert pattern.fullmatch(label)
    assert not pattern.fullmatch(f"{label}x")
    assert not pattern.fullmatch("c+++ new")


async def test_a_backend_with_schemas_is_held_to_the_labels_at_its_second_try():
    script = {entry(r"Great tent\."): "It is nice.", **GOOD, r"negative:\n\nGreat tent\.$": '{"label": "positive"}'}
    backend = ScriptedBackend(script, capabilities=Capabilities(json_schema=True))
    answer = await ask(backend, REVIEWS)
    assert answer.text.startswith("Great tent.: positive\n")
    assert answer.warnings == ()
    schemas = [prompt.response_schema for prompt, _ in backend.calls]
    assert [schema["properties"]["label"]["enum"] for schema in schemas if schema] == [["positive", "negative"]]


async def test_a_model_that_holds_no_labels_is_held_to_them(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))
    backend = ScriptedBackend({"": "positive"}, capabilities=Capabilities(regex=True, concurrent_calls=8))
    low = {"label": Ability(right=1, total=10, needed=8)}
    keep(Abilities(model=backend.name, checked="2026-11-24", prompts=prompts_version(), held=low))
    async with AsyncStretto(backend) as stretto:
        assert (await stretto.route(REVIEWS)).strategy == "items"


@pytest.mark.thorough  # it loads the model
async def test_the_pocket_model_loses_no_label():
    async with AsyncStretto("local:pocket") as stretto:
        asked = "Label each text as left, right or straight on:\n- Boil the water.\n- 42\n- Who are you?"
        answer = await stretto.ask(asked, strategy="items")
    assert [branch.text in ("left", "right", "straight on") for branch in answer.branches] == [True] * 3
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_what_is_no_label_twice_is_reported_with_its_entry():
    answer = await ask(ScriptedBackend({**GOOD, "": "You are to classify the review."}), REVIEWS)
    assert answer.text.startswith("Great tent.: [could not be written]\n")
    (warning,) = answer.warnings
    assert (warning.code, warning.part, "Ask a stronger model" in warning) == ("part_missing", "item-1", True)
    left_out = await ask(ScriptedBackend({**GOOD, "": "Great tent."}), REVIEWS, on_missing="omit")
    assert left_out.text == "The zip broke.: negative\nWould buy again.: positive"


async def test_where_every_item_is_spoiled_the_whole_is_answered_straight_with_a_warning():
    straight = {r"^Classify each review as positive or negative:\n- Great tent": "All of them: mixed."}
    backend = ScriptedBackend({**straight, "": "I cannot tell."})
    answer = await ask(backend, REVIEWS)
    assert (answer.text, answer.strategy, answer.finish_reason) == ("All of them: mixed.", "direct", "stop")
    assert [warning.code for warning in answer.warnings] == ["strategy"]


@pytest.mark.parametrize("form", ["", " as a JSON array", " as a table", " as a numbered list"])
async def test_nothing_of_the_spoiled_items_stands_before_the_straight_answer(form):
    question = f"Define each word{form}:\n- dog\n- cow\n- pig"
    backend = ScriptedBackend(
        lambda prompt: "Animals." if prompt.messages[-1].content == question else "I cannot do it."
    )
    answer = await ask(backend, question)
    assert (answer.text, len(backend.calls)) == ("Animals.", 7)


async def test_a_straight_answer_is_not_asked_for_beyond_the_budget():
    backend = ScriptedBackend({"": "I cannot tell."})
    with pytest.raises(StrettoError, match="none of the labels positive, negative"):
        await ask(backend, REVIEWS, budget=Budget(max_calls=6))
    assert len(backend.calls) == 6


async def test_after_two_lists_without_labels_no_more_are_split_but_other_lists_are():
    backend = ScriptedBackend({entry("dog"): "dogs", entry("cow"): "cows", entry("pig"): "pigs", "": "I cannot tell."})
    plurals = "Write the plural of each word:\n- dog\n- cow\n- pig"
    async with AsyncStretto(backend) as stretto:
        chosen = [(await stretto.ask(REVIEWS)).route for _ in range(3)]
        other = await stretto.ask(plurals)
    assert [route.strategy for route in chosen] == ["items", "items", "direct"]
    assert chosen[2].code == "ability"
    assert (other.route.strategy, other.text) == ("items", "dog: dogs\ncow: cows\npig: pigs")


async def test_an_item_without_a_result_before_the_first_one_is_named():
    answer = await ask(ScriptedBackend({entry(r"Would buy again\."): "positive", "": "I cannot tell."}), REVIEWS)
    assert answer.text == (
        "Great tent.: [could not be written]\nThe zip broke.: [could not be written]\nWould buy again.: positive"
    )


@pytest.mark.parametrize(
    ("wrong", "task"),
    [
        ("Die Aufgabe verlangt nur ein Wort.", "Give the plural of each word"),
        ("La tarea pide el plural.", "Give the plural of each word"),
        ("タスクは複数形を書くことです。", "Give the plural of each word"),
        ("Je ne peux pas répondre à cette question.", "Define each word"),
        ("Het spijt me, dat weet ik niet.", "Define each word"),
        ("죄송합니다. 답할 수 없습니다.", "Define each word"),
        ("I cannot define this.", "Define each word"),
    ],
)
async def test_remarks_and_refusals_are_no_results_in_other_languages_either(wrong, task):
    backend = ScriptedBackend({entry("dog"): wrong, entry("cow"): "cows", entry("pig"): "pigs", r"\n\ndog$": "dogs"})
    assert (await ask(backend, f"{task}: dog, cow, pig")).text == "dog: dogs\ncow: cows\npig: pigs"


@pytest.mark.parametrize(
    "announced",
    [
        "Here is the plural: dogs",
        "Hier ist der Plural:\n\ndogs",
        "Voici le pluriel : dogs",
        "结果是：dogs",
        "다음은 복수형입니다: dogs",
    ],
)
async def test_what_only_announces_a_result_is_left_out(announced):
    backend = ScriptedBackend({entry("dog"): announced, entry("cow"): "cows", entry("pig"): "pigs"})
    answer = await ask(backend, "Give the plural of each word: dog, cow, pig")
    assert (answer.text, len(backend.calls)) == ("dog: dogs\ncow: cows\npig: pigs", 3)


async def test_a_translation_may_read_like_a_refusal_or_an_announcement():
    replies = {entry("No puedo nadar"): "I cannot swim", entry("Aquí está"): "Here is the one", entry("Adiós"): "Bye"}
    backend = ScriptedBackend(replies)
    answer = await ask(backend, "Translate each into English:\n- No puedo nadar\n- Aquí está\n- Adiós")
    assert [line.partition(": ")[2] for line in answer.text.split("\n")] == ["I cannot swim", "Here is the one", "Bye"]
    assert len(backend.calls) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        "<entry> dog </entry> Write only the result for this entry",
        REMARK,
        "The task asks for the plural of each word.",
        "dog\n\nThe task is to give the plural.",
        "dog\n<entry>dog</entry>",
    ],
)
async def test_words_of_the_prompt_are_no_result_of_any_task(wrong):
    question = "Give the plural of each word: dog, cow, pig"
    backend = ScriptedBackend({entry("dog"): wrong, entry("cow"): "cows", entry("pig"): "pigs", r"\n\ndog$": "dogs"})
    assert (await ask(backend, question)).text == "dog: dogs\ncow: cows\npig: pigs"


def echo(prompt):
    """What a model writes that repeats its entry, however it is asked."""
    found = re.search(r"<entry>\n(.*)\n</entry>", text_of(prompt))
    return found[1] if found else text_of(prompt).rsplit("\n", 1)[-1]


@pytest.mark.parametrize(
    "question",
    ["Explain each word: dog, cow, pig", "Answer each question:\n- What is a dog?\n- What is a cow?\n- What is a pig?"],
)
async def test_an_echo_is_no_explanation_and_no_answer(question):
    answer = await ask(ScriptedBackend(echo), question)
    assert (answer.strategy, answer.text) == ("direct", question.rsplit("\n", 1)[-1])
    assert [warning.code for warning in answer.warnings] == ["strategy"]


@pytest.mark.parametrize(
    "task", ["Correct the spelling of each word", "Translate each name into French", "Give the plural of each word"]
)
async def test_an_entry_may_come_back_unchanged_from_a_change(task):
    answer = await ask(ScriptedBackend(echo), f"{task}: sheep, Anna, Paris")
    assert answer.text == "sheep: sheep\nAnna: Anna\nParis: Paris"
    assert answer.warnings == ()
