import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stretto.language.line_ends import on_one_line
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


# Each text with what a model makes of it that reads it; both are the same sentence.
SAME = [
    (
        "The con-\ntract ends after a notice pe-\nriod of six months.",
        "The contract ends after a notice period of six months.",
    ),
    ("The well-\nknown rule", "The well-known rule"),
    ("The con-\ntract ends", "The con- tract ends"),
    ("It ran 2020-\n2021 in full", "It ran 2020-2021 in full"),
    ("> the rent is\n> due in May", "the rent is due in May"),
    ("the \ufb01rst o\ufb03ce", "the first office"),
    ("the con\u00adtract ends", "the contract ends"),
    ("the con\u00ad\ntract ends", "the contract ends"),
    ("Ku\u0308ndigung im Mai", "Kündigung im Mai"),
    ("Kündigung im Mai", "Ku\u0308ndigung im Mai"),
    ("押金为三\n千元整。", "押金为三千元整。"),
    ("家賃は\n１２５０ユーロ", "家賃は1250ユーロ"),
    ("ｶﾞｽ代は五千円", "ガス代は五千円"),
    ("임대료\n는 월 오백", "임대료는 월 오백"),
    ("in\u200bvisible blanks\ufeff here", "invisible blanks here"),
    ("wait… for it", "wait... for it"),
    ("a twenty\u2011day period", "a twenty-day period"),
    ("at \u22125 degrees", "at -5 degrees"),
    ("5′ 3″ tall", "5' 3\" tall"),
    ("the **monthly rent** is _high_", "the monthly rent is high"),
    ("月租**为**三千", "月租为三千"),
    ("see [the offer](http://a.example/b) here", "see the offer here"),
    ("ada | 1.250 | may", "ada 1.250 may"),
    ("ada 1.250 may", "ada | 1.250 | may"),
    ("CO₂ per m²", "CO2 per m2"),
    ("10\u202f000 € — paid", "10 000 € - paid"),
    ("it’s “here”", 'it\'s "here"'),
    ("Où est-il\u202f? À 900\u00a0€\u00a0: « bien »", 'Où est-il? À 900€: "bien"'),
    ("nach § 5 z.\u2009B. in A. B. Lind, 5\u00a0% von $ 5", "nach §5 z.B. in A.B. Lind, 5% von $5"),
    ("الـــسلام عليكم", "السلام عليكم"),
    ("costs \\$900 \\(net\\)\\.", "costs $900 (net)."),
]


@pytest.mark.parametrize(("text", "quote"), SAME)
def test_a_quotation_is_found_whatever_typesetting_adds_and_stands_exactly(text, quote):
    place = Passage(f"Before it. {text} Behind it.", start=100).find(quote)
    assert place is not None
    found = f"Before it. {text} Behind it."[place[0] - 100 : place[1] - 100]
    assert found.strip("*_> []") in text
    assert letters(found) == letters(quote)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("The rent is 1.250 euros.", "250 euros"),
        ("The rent is 1250 euros.", "50 euros"),
        ("Version 3.11 of it", "11 of it"),
        ("It is 4.75 percent", "It is 4"),
        ("10² metres", "102 metres"),
        ("2½ cups", "21/2 cups"),
        ("1,250 euros", "1250 euros"),
        ("compute 2*3 now", "compute 23 now"),
        ("to re-sign it", "to resign it"),
        ("to resign it", "to re-sign it"),
        ("we're here", "were here"),
        ("un-\ndo it", "undid it"),
        ("...", "…"),
        ("**", "*"),
    ],
)
def test_what_the_text_does_not_say_is_not_found(text, quote):
    assert Passage(text).find(quote) is None or letters(quote) == ""


def letters(text):
    """What is said, apart from how it is set: letters, and figures with what stands between them."""
    text = re.sub(r"\]\([^()\s]*\)", "", text)
    text = unicodedata.normalize("NFKC", text).replace("½", "1/2").replace("\u0640", "")
    return "".join(each for each in text if each.isalnum())


WORDS = st.sampled_from(
    [
        "rent",
        "flat",
        "ﬁrst",
        "Kündigung",
        "1.250",
        "3.11",
        "re-sign",
        "e.g.",
        "押金",
        "为三千",
        "で",
        "“so”",
        "don’t",
        "−5",
        "m²",
        "a_b",
        "x",
    ]
)
GAPS = st.sampled_from([" ", "  ", "\n", " \n ", "\u00a0", " — ", ", ", " | ", "\n> ", " **", "** "])
REMADE = st.sampled_from([
    lambda text: text,
    on_one_line,
    lambda text: text.replace("**", "").replace("\n> ", " ").replace(" | ", " "),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: text.translate({ord("’"): "'", ord("“"): '"', ord("”"): '"', ord("−"): "-"}),
    lambda text: text.replace("ﬁ", "fi").replace("m²", "m2"),
])  # fmt: skip


def test_a_bold_sentence_is_found_without_its_marks_behind_the_full_stop():
    passage = Passage("Note: **The rent is due on the 3rd.** It is 900 euros, **e.g.** in May.")
    for said in ("The rent is due on the 3rd. It is 900 euros", "900 euros, e.g. in May."):
        place = passage.find(said)
        assert place is not None
        assert letters(passage.text[slice(*place)]) == letters(said)


@given(st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=14), st.data())
def test_what_was_copied_from_a_text_is_found_in_it(pairs, data):
    pieces = [part for pair in pairs for part in pair]
    first = data.draw(st.integers(0, len(pairs) - 1)) * 2
    last = data.draw(st.integers(first // 2, len(pairs) - 1)) * 2 + 1
    text, copied = "".join(pieces), data.draw(REMADE)("".join(pieces[first:last]))
    assume(len(unicodedata.normalize("NFC", copied)) > 1)
    place = Passage(text).find(copied)
    assert place is not None
    assert letters(text[slice(*place)]) == letters(copied)


@given(st.text(max_size=80), st.text(min_size=1, max_size=12))
def test_what_is_found_says_what_the_quotation_says(text, quote):
    place = Passage(text).find(quote)
    if place is not None:
        assert 0 <= place[0] < place[1] <= len(text)
        assert letters(text[slice(*place)]) == letters(quote) or quote.strip() in text
