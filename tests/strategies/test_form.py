import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.answer import Branch
from stretto.request import Request
from stretto.strategies.form import Form, PointText, form_of, words_for
from stretto.strategies.outline import Point

OIL = Point(2, "Oil the chain")


def through(text, lengths=(1_000,), point=OIL, indent="   "):
    shaped, out, at, number = PointText(point, indent), "", 0, 0
    while at < len(text):
        length = lengths[number % len(lengths)]
        out += shaped.feed(text[at : at + length])
        at, number = at + length, number + 1
    return out + shaped.finish()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Wipe it first.", "Wipe it first."),
        ("2. **Oil the chain**: Wipe it first.", "Wipe it first."),
        ("## Oil the chain\n\nWipe it first.", "Wipe it first."),
        ("**Oil the Chain.** Wipe it first.", "Wipe it first."),
        ("Oil the chain - wipe it first.", "wipe it first."),
        ("Oil the chain every month.", "Oil the chain every month."),
        ("2 bar is enough.", "2 bar is enough."),
        ("  Wipe it.  \n\n", "Wipe it."),
        ("Oil the chain", "Oil the chain"),
        ("Oil the chain.js is no label.", "Oil the chain.js is no label."),
    ],
)
def test_a_repeated_label_is_taken_off_and_nothing_else(written, shown):
    assert through(written) == shown


def test_lines_of_a_point_stay_inside_its_list_item():
    assert through("One.\n\nTwo.\n- three") == "One.\n\n   Two.\n   - three"


def test_text_streams_as_soon_as_it_cannot_be_a_label():
    assert PointText(OIL, "").feed("Wipe") == "Wipe"


TEXTS = st.one_of(
    st.text(max_size=60),
    st.builds("{}{}{}{}".format, st.sampled_from(["", "2. ", "**", "# ", "2) **", " \n"]), st.just("Oil the chain"),
              st.sampled_from(["", ":", "** :", " - ", "\n\n", ".", " every"]), st.text(max_size=30)),
)  # fmt: skip


@given(TEXTS, st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_any_cutting_of_the_same_text_gives_the_same_point(text, lengths):
    assert through(text, lengths) == through(text)


@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("How do I look after a bicycle?", "numbered"),
        ("Give me bullet points on bicycle care.", "bulleted"),
        ("Write a guide to bicycle care.", "sections"),
        ("Explain bicycle care in a few paragraphs.", "paragraphs"),
        ("Explain bicycle care, no bullets please.", "paragraphs"),
    ],
)
def test_the_form_follows_what_was_asked_for(question, form):
    assert form_of(Request.of(question)).name == form


def test_paragraphs_have_no_labels():
    assert Form("paragraphs").label(OIL) == "\n\n"


def test_a_failed_point_keeps_its_title_in_every_form():
    failed = Branch(id="point-2", kind="point", title="Oil the chain", status="failed", error="it broke")
    for name in ("numbered", "bulleted", "sections", "paragraphs"):
        form = Form(name)
        assert "Oil the chain" in form.label(OIL) + form.ending(failed)
        assert "it broke" in form.ending(failed)


def test_the_length_of_a_point_follows_question_preference_and_limit():
    assert words_for(Request.of("Why?", preference="fastest"), 5) < words_for(
        Request.of("Why?", preference="careful"), 5
    )
    assert words_for(Request.of("Why? In 600 words."), 6) == 100
    assert words_for(Request.of("Why? In detail."), 6) == 2 * words_for(Request.of("Why?"), 6)
    assert words_for(Request.of("Why?", max_tokens=240), 6) == 20
