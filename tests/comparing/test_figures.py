import time

import pytest

from stretto.comparing import Question, text_figures
from stretto.comparing.figures import points_of, title_of
from stretto.prompts import Catalogue

FIVE = Question(question="Give me five tips for sleeping better.")
OPEN = Question(question="How do I look after a bicycle?")
LIST = (
    "1. **Chain**: Oil it every month.\n2. **Tyres**: Pump them every week.\n3. **Brakes**: Test them before you ride."
)


def test_points_are_entries_at_the_top_level():
    assert points_of(LIST) == [
        "**Chain**: Oil it every month.",
        "**Tyres**: Pump them every week.",
        "**Brakes**: Test them before you ride.",
    ]
    assert points_of("Intro:\n- one\n  - deeper\n- two\nmore of two") == ["one\n  - deeper", "two\nmore of two"]
    assert points_of("## First\n1. a\n2. b\n## Second\ntext") == ["First\n1. a\n2. b", "Second\ntext"]
    assert points_of("一、准备\n二") == []
    assert points_of("1、准备\n2、出发") == ["准备", "出发"]


@pytest.mark.parametrize("text", ["", "Plain text. 1990. A year.", "1. One entry is no list.", "x\n\n2024 was good.\n"])
def test_running_text_has_no_points(text):
    assert points_of(text) == []
    assert text_figures(text, OPEN).points == 0


@pytest.mark.parametrize(
    ("point", "title"),
    [
        ("**Chain**: Oil it.", "chain"),
        ("Chain - oil it.", "chain"),
        ("Oil the chain.", ""),
        ("Chain\nOil it.", "chain"),
    ],
)
def test_a_title_stands_before_a_colon_a_dash_or_a_line_end(point, title):
    assert title_of(point) == title


def test_the_number_of_points_is_held_only_where_one_was_asked_for():
    assert text_figures(LIST, FIVE).points_held is False
    assert text_figures(LIST, Question(question="Three tips?", points=3)).points_held is True
    assert text_figures(LIST, OPEN).points_held is None


def test_repetition_is_told_within_and_between_points():
    same = "1. Oil the chain every single week.\n2. Oil the chain every single week."
    twice = "1. Oil the chain now, oil the chain now, oil the chain now.\n2. Something else altogether is said here."
    assert text_figures(same, OPEN).repeated_between == 1.0
    assert text_figures(same, OPEN).repeated_within == 0.0
    assert text_figures(twice, OPEN).repeated_within > 0.3
    assert text_figures(twice, OPEN).repeated_between == 0.0


def test_titles_that_stand_twice_are_counted():
    assert text_figures("1. **Chain**: a b\n2. **chain**: c d\n3. **Tyres**: e f", OPEN).titles_twice == 1


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("It is a good idea. " * 3, True),
        ("It is a good idea. " * 2, False),
        ("one two three four five six seven eight " * 4, True),
        ("Yes. Yes. Yes. Yes.", False),
        (LIST, False),
    ],
)
def test_a_loop_is_a_sentence_three_times_or_eight_words_four_times(text, loops):
    assert text_figures(text, OPEN).loops is loops


def test_words_of_every_prompt_are_seen_unless_the_question_has_them():
    seen = 0
    for template in Catalogue():
        line = max(template.text.splitlines(), key=len)
        if len(line.split()) >= 12 and "$" not in line:
            seen += 1
            assert text_figures(f"Well: {line}", OPEN).leaks, line
            assert not text_figures(f"Well: {line}", Question(question=line)).leaks
    assert seen > 10
    assert not text_figures(LIST, OPEN).leaks


def test_the_language_is_that_of_the_question():
    german = "Prüfe die Reifen jede Woche, und öle die Kette, wenn sie nach einer Fahrt im Regen nass ist."
    assert not text_figures(german, OPEN).language_held
    assert text_figures(german, Question(question="Wie pflege ich mein Fahrrad?")).language_held
    assert text_figures(german, Question(question="Bicycle?", language="de")).language_held


@pytest.mark.thorough
def test_time_is_linear_in_hostile_texts():
    def seconds(size):
        begun = time.process_time()
        for text in ("# " * size, "1. " * size, "- a\n" * size, "*" * size, "a " * size, "1." * size):
            text_figures(text, OPEN)
        return time.process_time() - begun

    seconds(1_000)
    assert seconds(80_000) < 30 * max(seconds(8_000), 0.05)  # ten times as much text
