from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.detokenize import TextStream


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
