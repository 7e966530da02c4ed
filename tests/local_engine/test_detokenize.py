import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.detokenize import StopTexts, TextStream


def of_bytes(ids):
    return bytes(ids).decode("utf-8", errors="replace")


@given(st.text())
def test_characters_come_whole_even_if_every_byte_is_a_token(text):
    stream = TextStream(of_bytes)
    pieces = [stream.push([byte]) for byte in text.encode()]
    assert "".join(pieces) + stream.flush() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


@given(st.text(), st.lists(st.integers(1, 30), min_size=40, max_size=40))
def test_several_tokens_at_once_show_what_one_after_the_other_does(text, sizes):
    stream, single, tokens = TextStream(of_bytes), TextStream(of_bytes), list(text.encode())
    for size in sizes:
        some, tokens = tokens[:size], tokens[size:]
        assert stream.push(some) == "".join(single.push([token]) for token in some)


def test_an_incomplete_last_character_is_left_out():
    stream = TextStream(of_bytes)
    assert stream.push("Rad 🚲".encode()[:-1]) + stream.flush() == "Rad "


def test_bytes_that_are_no_text_do_not_stop_the_stream():
    stream = TextStream(of_bytes)
    shown = "".join(stream.push([0xFF]) for _ in range(50)) + "".join(stream.push([byte]) for byte in b"then text")
    assert shown.endswith("then text")


def test_a_leading_space_that_the_decoder_drops_is_kept_inside_the_text():
    words = [" The", " bicycle", " rolls"]
    stream = TextStream(lambda ids: "".join(words[i] for i in ids).lstrip())
    assert [stream.push([i]) for i in range(3)] == ["The", " bicycle", " rolls"]


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
