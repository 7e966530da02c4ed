import pytest

from stretto.strategies.document.quoting import Passage

TEXT = "The cat sat. Concatenate the cat. “A  cat”,\nsaid Tom - the end."


def at(quote, **options):
    place = Passage(TEXT, **options).find(quote)
    return place and TEXT[place[0] : place[1]]


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("The cat sat.", "The cat sat."),
        ("  the cat. ", "the cat."),
        ('"A cat", said Tom', "“A  cat”,\nsaid Tom"),
        ("said Tom – the end", "said Tom - the end"),
        ("the dog", None),
        ("", None),
        ("x", None),
    ],
)
def test_a_quotation_is_found_whatever_its_white_space_and_quotation_marks(quote, found):
    assert at(quote) == found


def test_whole_words_go_before_parts_of_words():
    assert Passage("concatenate the cat").find("cat") == (16, 19)
    assert Passage("grade: A. B").find("A") == (7, 8)


def test_a_single_character_within_a_word_is_no_quotation():
    assert Passage("banana").find("a") is None


def test_a_place_in_the_passage_goes_before_one_in_its_neighbour():
    assert Passage("cat and cat", own=(8, 11)).find("cat") == (8, 11)
    assert Passage("cat and dog", own=(8, 11)).find("cat") == (0, 3)


def test_places_count_from_the_beginning_of_the_document():
    assert Passage("the cat", start=100).find("cat") == (104, 107)


def test_a_quotation_that_is_given_twice_stands_in_two_places():
    passage = Passage("cat and cat")
    assert passage.find("cat", {(0, 3)}) == (8, 11)
    assert passage.find("cat", {(0, 3), (8, 11)}) == (0, 3)


def test_a_quotation_is_not_looked_for_within_another_one():
    passage = Passage("raise Error from exc, or raise Error")
    assert passage.find("raise Error", {(0, 20)}) == (25, 36)
    assert passage.find("raise Error", {(0, 20), (25, 36)}) == (0, 11)
