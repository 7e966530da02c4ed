import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.foundation.stop_texts import StopTexts


def test_a_stop_text_is_found_across_pieces_and_never_shown():
    stops = StopTexts(["\n\nQ:"])
    assert stops.push("oil it.\n") == ("oil it.", False)
    assert stops.push("\n") == ("", False)
    assert stops.push("Q: what") == ("", True)


def test_the_beginning_of_a_stop_text_is_withheld_and_given_back():
    stops = StopTexts(["STOP"])
    assert stops.push("go ST") == ("go ", False)
    assert stops.push("AY S") == ("STAY ", False)
    assert stops.flush() == "S"


def test_the_first_of_several_stop_texts_wins():
    assert StopTexts(["late", "ear"]).push("early and late") == ("", True)


@given(st.lists(st.text("ab", max_size=3), max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_stop_texts_cut_a_stream_where_they_cut_the_whole_text(pieces, texts):
    whole = "".join(pieces)
    cuts = [whole.find(text) for text in texts if text in whole]
    stops, shown = StopTexts(texts), ""
    for piece in pieces:
        certain, found = stops.push(piece)
        shown += certain
        if found:
            break
    else:
        shown += stops.flush()
    if cuts:
        # A stream ends at the stop text that is complete first, which may begin after another that is longer.
        first = min(whole.find(text) + len(text) for text in texts if text in whole)
        assert shown in {whole[: whole.find(text)] for text in texts if text in whole}
        assert len(shown) < first
    else:
        assert shown == whole


@pytest.mark.parametrize("texts", [[], [""]])
def test_without_stop_texts_nothing_is_withheld(texts):
    assert StopTexts(texts).push("all") == ("all", False)
