"""What is never a result of an item: none of the labels, an echo of its entry, words of our prompt."""

import re

import pytest
from asking_items import ask, entry
from streaming import text_of

from stretto.errors import StrettoError
from stretto.strategies.items.labels import label_in, labels_of
from stretto.testing import ScriptedBackend

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


async def test_what_is_no_label_twice_is_reported_with_its_entry():
    answer = await ask(ScriptedBackend({**GOOD, "": "You are to classify the review."}), REVIEWS)
    assert answer.text.startswith("Great tent.: [could not be written]\n")
    assert answer.warnings == (
        "'Great tent.' is incomplete: The model wrote none of the labels positive, negative. Ask a stronger model.",
    )
    left_out = await ask(ScriptedBackend({**GOOD, "": "Great tent."}), REVIEWS, on_missing="omit")
    assert left_out.text == "The zip broke.: negative\nWould buy again.: positive"


async def test_a_model_that_never_writes_a_label_is_an_error():
    with pytest.raises(StrettoError, match="none of the labels positive, negative"):
        await ask(ScriptedBackend({"": "I cannot tell."}), REVIEWS)


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
    with pytest.raises(StrettoError, match="repeats the entry"):
        await ask(ScriptedBackend(echo), question)


@pytest.mark.parametrize(
    "task", ["Correct the spelling of each word", "Translate each name into French", "Give the plural of each word"]
)
async def test_an_entry_may_come_back_unchanged_from_a_change(task):
    answer = await ask(ScriptedBackend(echo), f"{task}: sheep, Anna, Paris")
    assert answer.text == "sheep: sheep\nAnna: Anna\nParis: Paris"
    assert answer.warnings == ()
