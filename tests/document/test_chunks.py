import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.documents import cut
from stretto.documents.plain import read_markdown
from stretto.values.document import Document

PIECES = [
    "\n",
    "\n\n",
    " ",
    "word",
    "# Heading\n",
    "```\n",
    "~~~~\n",
    "| a | b |\n",
    "é",
    "。",
    ".",
    ", ",
    "\t",
    "  \n",
    "漢字",
]
COUNTERS: list[Callable[[str], int]] = [len, lambda text: (len(text) + 3) // 4, lambda text: len(text.split())]


@given(st.lists(st.sampled_from(PIECES), max_size=80), st.integers(1, 40), st.sampled_from(COUNTERS))
def test_chunks_cover_any_text_in_order_with_exact_offsets_and_hold_the_limit(pieces, size, count):
    document = read_markdown("".join(pieces).encode(), "title")
    text, position = document.text, 0
    for number, chunk in enumerate(cut(document, size, count)):
        assert chunk.index == number
        assert text[position : chunk.start].strip() == ""
        assert chunk.text(document) == text[chunk.start : chunk.end] != ""
        assert chunk.tokens == count(chunk.text(document))
        assert chunk.tokens <= size or chunk.end - chunk.start == 1
        position = chunk.end
    assert text[position:].strip() == ""


@given(st.text(max_size=400), st.integers(1, 30))
def test_no_text_whatever_is_lost(text, size):
    document = Document(text=text)
    kept = "".join(chunk.text(document) for chunk in cut(document, size, len))
    assert "".join(kept.split()) == "".join(text.split())


def test_a_code_block_is_not_cut_while_it_fits():
    code = "```python\nfirst = 1\n\n\nsecond = 2\n```"
    document = read_markdown(f"{'word ' * 30}\n\n{code}\n\n{'word ' * 30}".encode(), "")
    assert any(code in chunk.text(document) for chunk in cut(document, 45, lambda text: len(text.split())))


def test_a_chunk_does_not_end_with_a_heading():
    text = "\n\n".join(f"# Chapter {number}\n\n{'word ' * 9}" for number in range(20))
    document = read_markdown(text.encode(), "")
    for chunk in cut(document, 25, lambda text: len(text.split())):
        assert not chunk.text(document).splitlines()[-1].startswith("#")


def test_a_long_table_is_cut_between_its_rows():
    rows = [f"| name {number} | {number} |" for number in range(100)]
    document = Document(text="\n".join(rows))
    chunks = cut(document, 60, lambda text: len(text.split()))
    assert [row for chunk in chunks for row in chunk.text(document).splitlines()] == rows


def test_chunks_are_smaller_where_the_text_is_dense():
    document = Document(text="\n\n".join(["plain words here"] * 20 + ["dense words here"] * 20))
    chunks = cut(document, 12, lambda text: len(text.split()), share=lambda text: 0.5 if "dense" in text else 1.0)
    dense = [chunk.tokens for chunk in chunks if "dense" in chunk.text(document)]
    plain = [chunk.tokens for chunk in chunks if "dense" not in chunk.text(document)]
    assert (max(dense), max(plain)) == (3, 9)


@pytest.mark.parametrize("text", ["", " \n\t ", "\n" * 50])
def test_a_text_without_words_has_no_chunks(text):
    assert cut(Document(text=text), 10, len) == ()


def test_a_line_of_two_million_characters_is_cut():
    document = Document(text="x" * 2_000_000)
    chunks = cut(document, 50_000, len)
    assert sum(chunk.end - chunk.start for chunk in chunks) == 2_000_000


@pytest.mark.parametrize("size", [20, 60, 200])
@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        ("第{}条规定押金为三千元整，租金为每月1.250元，由乙方于每月五日前支付。", "。"),
        ("第{}条によると敷金は三千円、家賃は月1.250ユーロです。", "。"),
        ("Clause {} was signed by Dr. Ada Lind and says that the rent is 1.250 euros, e.g. in May. ", "."),
    ],
)
@pytest.mark.parametrize("width", [None, 72])
def test_a_long_paragraph_is_cut_between_its_sentences(sentence, end, size, width):
    text = "".join(sentence.format(number) for number in range(60)).strip()
    text = text if width is None or end == "。" else textwrap.fill(text, width)
    document = Document(text=text)
    chunks = [chunk.text(document) for chunk in cut(document, size, lambda each: (len(each) + 1) // 2)]
    assert len(chunks) > 4
    if size > len(sentence):
        assert all(chunk.endswith(end) and chunk.count("1.250") == chunk.count(sentence[0]) for chunk in chunks)
    else:  # a sentence is longer than a chunk
        assert "".join("".join(chunks).split()) == "".join(text.split())


def test_a_sentence_longer_than_a_chunk_is_cut_behind_a_comma_or_a_word():
    document = Document(text="word " * 30 + "last, " + "word " * 12 + "end.")
    chunks = [chunk.text(document) for chunk in cut(document, 40, lambda each: len(each.split()))]
    assert chunks[0].endswith("last,")
    assert all(piece in ("word", "last,", "end.") for chunk in chunks for piece in chunk.split())
