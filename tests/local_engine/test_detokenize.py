import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from stretto.local_engine.text.detokenize import TextStream
from stretto.local_engine.text.vocabulary import token_bytes


def of_bytes(ids):
    return bytes(ids).decode("utf-8", errors="replace")


def single(byte):
    return bytes([byte])


SIGNS = st.text(st.sampled_from("\ufffdaé東🚲"), max_size=6)


@given(st.text() | SIGNS)
def test_characters_come_whole_even_if_every_byte_is_a_token(text):
    stream = TextStream(of_bytes, single)
    pieces = [stream.push([byte]) for byte in text.encode()]
    assert "".join(pieces) + stream.flush() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


@given(st.text(), st.lists(st.integers(1, 30), min_size=40, max_size=40))
def test_several_tokens_at_once_show_what_one_after_the_other_does(text, sizes):
    stream, slow, tokens = TextStream(of_bytes), TextStream(of_bytes), list(text.encode())
    for size in sizes:
        some, tokens = tokens[:size], tokens[size:]
        assert stream.push(some) == "".join(slow.push([token]) for token in some)


def test_an_incomplete_last_character_is_left_out():
    stream = TextStream(of_bytes)
    assert stream.push("Rad 🚲".encode()[:-1]) + stream.flush() == "Rad "


@given(SIGNS, st.sampled_from("é東🚲\ufffd"), st.integers(1, 3))
def test_a_replacement_sign_that_the_model_wrote_is_kept_and_an_incomplete_character_is_not(text, last, missing):
    assume(not text.endswith("\ufffd" * 5))  # 16 tokens without certain text are shown as they are
    stream, cut = TextStream(of_bytes, single), last.encode()[:-missing]
    shown = "".join(stream.push([byte]) for byte in (text.encode() + cut))
    assert shown + stream.flush() == text


@pytest.mark.parametrize("kind", ["byte level", "byte fallback"])
def test_a_tokenizer_tells_a_replacement_sign_at_the_end_from_half_a_character(kind):
    if kind == "byte level":
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    else:
        known = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"a": 256}
        inner = Tokenizer(models.BPE(known, [], byte_fallback=True))
        inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens(["<end>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    for text in ("a\ufffd", "\ufffd\ufffd", "aé"):
        stream, ids = TextStream(inner.decode, token_bytes(tokenizer)), inner.encode(text).ids
        assert stream.push(ids) + stream.flush() == text
        stream = TextStream(inner.decode, token_bytes(tokenizer))
        assert stream.push(ids[:-1]) + stream.push([inner.token_to_id("<end>")]) + stream.flush() == text[:-1]


def test_bytes_that_are_no_text_do_not_stop_the_stream():
    stream = TextStream(of_bytes)
    shown = "".join(stream.push([0xFF]) for _ in range(50)) + "".join(stream.push([byte]) for byte in b"then text")
    assert shown.endswith("then text")


def test_a_leading_space_that_the_decoder_drops_is_kept_inside_the_text():
    words = [" The", " bicycle", " rolls"]
    stream = TextStream(lambda ids: "".join(words[i] for i in ids).lstrip())
    assert [stream.push([i]) for i in range(3)] == ["The", " bicycle", " rolls"]
