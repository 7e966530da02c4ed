import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.strategies.items.splitting import NotSplit, Split, split

WORD = st.text("abcdefghijklmnopqrstuvwxyzäöüéñ", min_size=2, max_size=9).filter(
    lambda word: (
        word not in {"and", "or", "und", "oder", "et", "ou", "of", "en", "och", "the", "its", "it", "he", "she", "her"}
    )
)
WORDS = st.lists(WORD, min_size=3, max_size=12, unique=True)
TEXTS = st.lists(
    st.lists(
        st.sampled_from(["river", "stone", "green", "walks", "under", "seven", "quickly", "bread"]),
        min_size=2,
        max_size=9,
    ).map(" ".join),
    min_size=3,
    max_size=9,
    unique=True,
)
FORMS = {
    "commas": lambda items: " " + ", ".join(items),
    "a sentence": lambda items: " " + ", ".join(items) + ".",
    "and": lambda items: f" {', '.join(items[:-1])} and {items[-1]}",
    "semicolons": lambda items: " " + "; ".join(items),
    "slashes": lambda items: " " + " / ".join(items),
    "quotes": lambda items: " " + ", ".join(f'"{item}"' for item in items),
    "JSON": lambda items: " " + json.dumps(items, ensure_ascii=False),
    "lines": lambda items: "\n" + "\n".join(items),
    "bullets": lambda items: "\n" + "\n".join(f"- {item}" for item in items),
    "numbers": lambda items: "\n" + "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1)),
    "brackets": lambda items: "\n" + "\n".join(f"({number}) {item}" for number, item in enumerate(items, 1)),
    "labels": lambda items: "\n" + "\n".join(f"Text {number}: {item}" for number, item in enumerate(items, 1)),
    "loose bullets": lambda items: "\n\n" + "\n\n".join(f"- {item}" for item in items),
    "Windows lines": lambda items: "\r\n" + "\r\n".join(f"* {item}" for item in items),
}
FORMS_OF_TEXTS = [form for form in FORMS if form not in ("commas", "a sentence", "and")]


@pytest.mark.parametrize("form", FORMS)
@given(items=WORDS)
def test_items_come_back_in_every_form_of_a_list(form, items):
    taken = split("Give the plural of each word:" + FORMS[form](items))
    assert isinstance(taken, Split), taken
    assert list(taken.items) == items
    assert taken.instruction == "Give the plural of each word"


@pytest.mark.parametrize("form", FORMS_OF_TEXTS)
@given(items=TEXTS)
def test_longer_items_come_back_too(form, items):
    taken = split("Label each text as good or bad:" + FORMS[form](items))
    assert isinstance(taken, Split), taken
    assert list(taken.items) == items


@given(items=TEXTS)
def test_a_list_may_stand_before_its_task(items):
    taken = split("\n".join(f"- {item}" for item in items) + "\n\nLabel each of them as good or bad.")
    assert isinstance(taken, Split), taken
    assert (list(taken.items), taken.instruction) == (items, "Label each of them as good or bad.")


@given(prompt=st.text(max_size=400))
def test_any_text_is_accepted(prompt):
    assert isinstance(split(prompt), Split | NotSplit)


PIECES = st.sampled_from(
    [
        *(
            "Translate each",
            "these",
            ": ",
            ", ",
            "; ",
            "\n",
            "\n\n",
            "1. ",
            "2. ",
            "3. ",
            "- ",
            '"',
            "'",
            "[",
            "]",
            "(a) ",
        ),
        *(
            "(b) ",
            "cat",
            "two dogs",
            " and ",
            "Write 10 slogans",
            "Review 1: ",
            "Review 2: ",
            "?",
            ".",
            "{",
            " / ",
            "猫",
        ),
        *("、", "\r\n", "\t", "each"),
    ]
)


@given(prompt=st.lists(PIECES, max_size=40).map("".join))
def test_items_stand_in_the_prompt_letter_by_letter(prompt):
    taken = split(prompt)
    if isinstance(taken, Split):
        text = prompt.replace("\r\n", "\n")
        assert all(item and item in text for item in taken.items)
        assert bool(taken.items) != bool(taken.count)
        assert taken.instruction


def test_white_space_around_a_prompt_changes_nothing():
    prompt = "Give the plural of each word: cat, child, mouse"
    assert split(f"\n  {prompt} \n\n") == split(prompt)


def test_context_is_kept_apart_from_the_instruction():
    mails = "- 3 boxes please\n- wrong tea\n- 9 tins"
    taken = split(f"Our shop sells tea to restaurants.\n\nClassify each mail as order or complaint:\n{mails}")
    assert isinstance(taken, Split)
    assert taken.context == "Our shop sells tea to restaurants."
    assert taken.instruction == "Classify each mail as order or complaint"


def test_labels_are_kept():
    taken = split("Is each review kind?\nReview 1: lovely\nReview 2: awful\nReview 3: so so")
    assert isinstance(taken, Split)
    assert taken.labels == ("Review 1", "Review 2", "Review 3")


def test_an_unknown_form_is_left_to_a_plan_and_a_known_danger_is_not():
    unknown, danger = split("roman numerals for 9, 44 and 399"), split("Sort these: c, b, a")
    assert isinstance(unknown, NotSplit)
    assert not unknown.final
    assert isinstance(danger, NotSplit)
    assert danger.final


def test_two_long_items_are_worth_two_calls():
    texts = ["The first tale goes on. " * 40, "The second tale is other. " * 40]
    taken = split(
        "Correct the spelling in each text:\n"
        + "\n".join(f"Text {number}: {text}" for number, text in enumerate(texts, 1))
    )
    assert isinstance(taken, Split)
    assert len(taken.items) == 2


@pytest.mark.parametrize(
    "prompt", ["1) " * 5000, "[1," * 5000, ": , " * 5000, '"' * 9000, "- x\n" * 3000, "a, " * 9000, "(" * 9000]
)
def test_long_and_senseless_prompts_are_read_too(prompt):
    assert isinstance(split("Define each: " + prompt), Split | NotSplit)


def test_what_is_far_too_long_for_a_list_of_items_is_not_looked_through():
    for text in ("Translate each:\n" + "1. x\n" * 20_000, "Translate each: " + "(1) x " * 100_000):
        refusal = split(text)
        assert isinstance(refusal, NotSplit)
        assert "longer than" in refusal.reason
