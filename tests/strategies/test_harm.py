import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.prompts import Catalogue
from stretto.strategies.quality.phrases import Phrases, PhraseSearch
from stretto.strategies.quality.stream_filter import StreamFilter
from stretto.strategies.quality.text_guard import HeadingSearch, LoopSearch
from stretto.strategies.quality.titles import Titles, is_placeholder
from stretto.strategies.quality.words import words_of
from stretto.strategies.skeleton.outline import OutlineParser

PROMPT = "Write only the outline of the answer to the question, in the question's language:\nWrite them all well now."
QUESTION = "What are the advantages and disadvantages of working from home?"


def screened(text, search, lengths=(10_000,), *, ends=False):
    found = []

    def told(name):
        found.append(name)
        return ends

    screen, shown, at, number = StreamFilter([("harm", search())], told), "", 0, 0
    while at < len(text):
        length = lengths[number % len(lengths)]
        shown += screen.feed(text[at : at + length])
        at, number = at + length, number + 1
    return shown + screen.finish(), bool(found)


def leaks():
    return PhraseSearch(Phrases([PROMPT]))


def headings():
    return HeadingSearch(["Tyres", "Brake pads"])


LEAKS = [
    (
        "Sure. Write only the outline of the answer to the question, in the question's language:\nOil it.",
        "Sure. Oil it.",
    ),
    ("You can write only the outline of a house.", None),
    ("Good. Write them all well now. Then rest.", "Good. Then rest."),
    ("Good. Write them all well now and then rest.", None),
]
LOOPS = [
    ("It is good to walk. " * 4, "It is good to walk. "),
    ("Title of the tenth point: " * 5, "Title of the tenth point: "),
    ("The cat sat. The dog sat. The cat ran away and the dog ran.", None),
    ("one two three. one two three. one two four.", None),
    ("It is 1" + "0" * 2_000, "It is 1" + "0" * 287),
    ("It is 1" + "0" * 200, None),
]
HEADINGS = [
    ("Oil it.\n\nPoint 2: Tyres\nPump them.", "Oil it."),
    ("Oil it.\n**Brake pads**: new ones", "Oil it."),
    ("Oil it.\n2. Brake pads", "Oil it."),
    ("Oil it. Tyres. Then wipe.", None),
    ("Oil it.\nTyres are next.", None),
    ("Tyres: oil them.", None),
]
CASES = [(leaks, *case) for case in LEAKS] + [(LoopSearch, *case) for case in LOOPS]
CASES += [(headings, *case) for case in HEADINGS]


@pytest.mark.parametrize(("search", "text", "left"), CASES)
def test_only_what_is_harm_is_left_out(search, text, left):
    shown, found = screened(text, search, ends=search is not leaks)
    assert (shown, found) == (text if left is None else left, left is not None)


@given(st.sampled_from(CASES), st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_any_cutting_of_the_stream_shows_the_same(case, lengths):
    search, text, _ = case
    ends = search is not leaks
    assert screened(text, search, lengths, ends=ends) == screened(text, search, ends=ends)


@given(st.text(alphabet="ab .\n*1", max_size=80), st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_a_text_of_few_letters_shows_the_same_however_it_is_cut(text, lengths):
    for search in (LoopSearch, headings):
        assert screened(text, search, lengths, ends=True) == screened(text, search, ends=True)


def test_what_the_user_wrote_may_stand_in_the_answer():
    text = "Write only the outline of the answer to the question, he said."
    assert screened(text, lambda: PhraseSearch(Phrases([PROMPT]), lambda _: True)) == (text, False)


@pytest.mark.thorough
@pytest.mark.parametrize("search", [leaks, LoopSearch, headings])
def test_the_time_is_linear_in_the_text(search):
    def spent(size):
        text = "write only the a b 2. point " * size
        began = time.process_time()
        screened(text, search, (7,))
        return time.process_time() - began

    spent(200)
    assert spent(8_000) < 16 * max(spent(2_000), 0.02)


TEMPLATES = [template for template in Catalogue() if template.family in ("general", "small")]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda each: f"{each.family}-{each.name}")
def test_no_line_of_a_template_can_be_taken_for_content(template):
    """Each of its lines that an outline could hold is no point, and each of its longer sentences is no text."""
    titles = Titles(QUESTION, Phrases(template.wordings, whole=2))
    for text in template.wordings:
        parser = OutlineParser()
        points = [*parser.feed(text), *parser.finish()] if template.name.startswith(("skeleton", "samples")) else []
        for point in points:
            assert titles.take(point.title) is not None, point.title
        for line in text.split("\n"):
            if len(words_of(line)) >= 8:
                assert screened(line, lambda: PhraseSearch(Phrases(template.wordings)))[1], line
            assert not (is_placeholder(words_of(line)) and line[:2] == "1."), line


@pytest.mark.parametrize(
    ("title", "fault"),
    [
        ("Title of the first point", "placeholder"),
        ("Titel des zweiten Punktes", "words of the prompt"),
        ("Point 3", "placeholder"),
        ("...", "placeholder"),
        ("Write them all well now", "words of the prompt"),
        ("I'm sorry, I can't help", "refused"),
        ("You should think of this whenever you sit at home and the weather is bad", "sentence"),
        (QUESTION, "the question"),
        ("Improved work-life balance", "earlier one"),
        ("Less commuting", None),
    ],
)
def test_a_title_is_judged_by_itself_and_by_the_others(title, fault):
    titles = Titles(QUESTION, Phrases([PROMPT, "Titel des zweiten Punktes"], whole=2))
    assert titles.take("Improved work-life balance") is None
    found = titles.take(title)
    assert (fault is None) == (found is None)
    assert fault is None or fault in found


def test_a_third_of_wrong_titles_is_too_many_but_not_one_double():
    titles = Titles(QUESTION, Phrases())
    for title in ("Less commuting", "Quiet rooms", "Less commuting"):
        titles.take(title)
    assert not titles.hopeless
    titles.take("Less commuting")
    assert titles.hopeless
