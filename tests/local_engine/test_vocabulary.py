"""The tokens as llguidance gets them are those that it reads of a tokenizer by itself."""

import copy

import pytest
from llguidance.hf import from_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.text.vocabulary import vocabulary

END = 2
TEXTS = (
    "How do I oil a chain?",
    '{"name": "',
    "Grüße aus 東京 🚲",
    "  x\n\n",
    "<end> <think> plain word <｜other▁one｜>",
    "",
)
ADDED = ["plain word", "<think>", "<half", "<｜other▁one｜>"]


def sentence_pieces():
    """Words behind a sign for the space, bytes for what is not known: not the alphabet of byte-level BPE."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnop"]
    inner = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], byte_fallback=True))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never", split=False)
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def not_all_bytes():
    """Byte-level BPE with a token that is written otherwise."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<a>", "<b>", "<end>", *alphabet, "東京"]
    inner = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def cut(tokenizer):
    tokenizer.backend_tokenizer.enable_truncation(2)
    return tokenizer


def with_added(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.add_tokens(ADDED)
    return tokenizer


@pytest.mark.parametrize("kind", ["pocket", "small", "added", "pieces", "not all bytes", "cut"])
def test_bytes_special_tokens_and_tokenization_are_llguidances_own(kind, tokenizer):
    given = {
        "pocket": lambda: load_model(find_source("local:pocket"), dtype="float32", device="cpu").tokenizer,
        "small": lambda: tokenizer,
        "added": lambda: with_added(tokenizer),
        "pieces": sentence_pieces,
        "not all bytes": not_all_bytes,
        "cut": lambda: cut(copy.deepcopy(tokenizer)),
    }[kind]()
    expected, found = from_tokenizer(given, eos_token=[END]), vocabulary(given, {END})
    assert found.vocab_size == expected.vocab_size
    assert (found.eos_tokens, found.is_canonical) == ([END], expected.is_canonical)
    for token in range(found.vocab_size):
        assert found.decode_bytes([token]) == expected.decode_bytes([token])
        assert found.is_special_token(token) == expected.is_special_token(token)
    for text in TEXTS:
        assert found.tokenize_str(text) == expected.tokenize_str(text)


def test_a_tokenizer_that_is_not_a_fast_one_is_refused():
    with pytest.raises(ValueError, match="only fast tokenizers"):
        vocabulary(object(), {END})
