"""What an answer votes for, and which text is most like the others."""

from fractions import Fraction

import pytest

from stretto.strategies.consensus.ballots import VoteReader, decimal_of, numbers_in, of_value
from stretto.strategies.quality.words import medoid

LEGS = "How many legs do 3 spiders have?"
CAPITAL = "What is the capital of France?"
LARGEST = "Which is the largest?\nA) Mars\nB) Jupiter\nC) Venus"
LONG = "It lies in the middle of the country and is very large, as everyone knows who has ever been to it."


@pytest.mark.parametrize(
    ("text", "language", "value"),
    [
        ("1,500", "en", "1500"),
        ("1.500", "en", "1.5"),
        ("1.500", "de", "1500"),
        ("3,50 €", "de", "3.5"),
        ("1 234 567,5", "fr", "1234567.5"),
        ("-3", "en", "-3"),
        ("17-3", "en", "3"),
        ("1/2", "en", "0.5"),
        ("1/3", "en", "1/3"),
        ("2.50e3", "en", "2500"),
        ("$1,234.50.", "en", "1234.5"),
        ("0.05", "en", "0.05"),
    ],
)
def test_numbers_are_read_the_same_however_they_are_written(text, language, value):
    assert decimal_of(numbers_in(text, language)[-1]) == value


def test_a_number_of_a_million_digits_and_one_divided_by_nothing_are_read():
    assert numbers_in("9" * 1_000_000 + " and 1/0")[-1] == Fraction(1)


@pytest.mark.parametrize(
    ("question", "alike"),
    [
        (LEGS, ["24", "24.", "**24 legs**", "There are 24 legs.", "3 * 8 = 24", "8 each, so:\n\\boxed{24}"]),
        (
            LEGS,
            ["24", "A spider has 8 legs. So 3 spiders have 24.", "3 x 8 is 24\n\nThe answer is: 24 legs", "#### 24"],
        ),
        ("How many legs has a spider?", ["8", "A spider has eight legs.", "Eight.", "eight (8)"]),
        (CAPITAL, ["Paris", "paris.", "The capital of France is **Paris**.", "It is Paris", '"Paris"']),
        ("Is 91 a prime number?", ["No.", "no, 91 = 7 * 13", "**No**, as it can be divided by 7.\n" + LONG]),
        (LARGEST, ["B", "(B)", "B) Jupiter", "Jupiter", "The correct answer is B.", "**B**"]),
    ],
)
def test_answers_that_say_the_same_vote_for_the_same(question, alike):
    ballots = {VoteReader(question).ballot(text) for text in alike}
    assert len(ballots) == 1
    assert ballots.pop().comparable


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        (LEGS, "24", "21"),
        (CAPITAL, "Paris", "Not Paris"),
        (CAPITAL, "Paris", "Lyon"),
        ("Who landed first?", "Apollo 11", "Gemini 11"),
        ("Is it true?", "No.", "No one knows"),
        (LARGEST, "B", "A"),
        ("Which is bigger, the sun or the moon?", "The sun", "The moon"),
    ],
)
def test_answers_that_say_something_else_do_not(question, one, other):
    assert VoteReader(question).ballot(one) != VoteReader(question).ballot(other)


def test_a_long_text_is_compared_with_no_other():
    assert not VoteReader(CAPITAL).ballot(LONG).comparable
    assert VoteReader(CAPITAL, compare="text").ballot("Paris").comparable is False


@pytest.mark.parametrize(
    ("text", "vote"),
    [
        ("dark red", "dark red"),
        ("I would say red.", "red"),
        ("Red, not dark red.", "red"),
        ("It could be red or dark red. I cannot say.", None),
        ("It could be red or dark red, but I say\ndark red", "dark red"),
        ("blue", None),
    ],
)
def test_only_the_choices_that_were_given_have_votes(text, vote):
    ballot = VoteReader("Which colour?", choices=("red", "dark red")).ballot(text)
    assert (ballot and ballot.key) == vote


def test_a_vote_on_numbers_has_none_for_an_answer_without_one():
    assert VoteReader("x", compare="number").ballot("I cannot say.") is None


def test_json_is_the_same_whatever_its_order_case_and_blanks():
    assert of_value({"a": 1, "b": "Two  words"}) == of_value({"b": "two words", "a": 1.0})
    assert of_value({"a": True}) != of_value({"a": 1})
    assert of_value([1, 2]) != of_value([2, 1])


def test_the_medoid_shares_most_with_the_others():
    texts = ["Bees die out.", "A bee finds its way by the sun.", "By the sun a bee finds its way home.", "A sun."]
    assert medoid(texts) == 1
    assert medoid(["one", "two", ""]) == 0
