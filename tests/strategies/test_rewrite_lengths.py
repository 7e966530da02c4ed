"""A text that is to be shortened to a length: what its writers are told, and what stayed too long."""

import pytest
from streaming import streamed, text_of
from test_rewrite import piece_of

from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

WORDS = 100
PARAGRAPHS = [" ".join([f"paragraph{number}", *["word"] * (WORDS - 2), "end."]) for number in range(6)]
TEXT = "\n\n".join(["# A short heading", *PARAGRAPHS])


def shortened(piece, words):
    return " ".join(piece.split()[:words])


async def ask(reply, task, text=TEXT):
    backend = ScriptedBackend(lambda prompt: reply(piece_of(prompt), text_of(prompt)))
    answer, _ = await streamed(backend, f"{task}\n\n{text}", strategy="rewrite")
    return answer, [text_of(prompt) for prompt, _ in backend.calls]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Shorten this text to half its length:", 50),
        ("Shorten this text by a third:", 67),
        ("Kürze diesen Text um 20 Prozent:", 80),
        (f"Shorten this text to {len(TEXT.split()) // 4} words:", 25),
    ],
)
async def test_each_piece_is_asked_for_in_the_words_of_its_share(task, words):
    answer, told = await ask(lambda piece, _: shortened(piece, words), task)
    assert sum(f"about {words} words in place of the 100 " in prompt for prompt in told) == len(PARAGRAPHS)
    assert answer.warnings == ()


async def test_a_total_of_characters_is_shared_by_the_pieces():
    total = round(0.3 * len("".join(TEXT.split())))
    _, told = await ask(lambda piece, _: shortened(piece, 30), f"Shorten this text to {total} characters:")
    assert sum("about 30 words in place of the 100 " in prompt for prompt in told) == len(PARAGRAPHS)


async def test_a_text_without_blanks_is_asked_for_in_characters():
    text = "\n\n".join(f"第{number}段" + "文" * 417 for number in range(4))
    _, told = await ask(lambda piece, _: piece[: len(piece) // 2], "把这篇文章缩短到一半：", text)
    assert sum("about 210 characters in place of the 420 " in prompt for prompt in told) == 4


async def test_a_piece_that_stays_too_long_is_asked_for_once_more_with_its_figures():
    def reply(piece, prompt):
        again = "it has 90 words where about 50 were asked for" in prompt
        return shortened(piece, 90 if "paragraph3" in piece and not again else 50)

    answer, told = await ask(reply, "Shorten this text to half its length:")
    assert len(told) == len(PARAGRAPHS) + 2
    assert answer.text == "\n\n".join(["# A short heading", *(shortened(each, 50) for each in PARAGRAPHS)])
    assert answer.warnings == ()


async def test_a_piece_that_stays_too_long_twice_is_told():
    def reply(piece, _):
        return shortened(piece, 90 if "paragraph3" in piece else 50)

    answer, told = await ask(reply, "Shorten this text to half its length:")
    assert len(told) == len(PARAGRAPHS) + 2
    assert [(w.code, "90 words where about 50 " in w) for w in answer.warnings] == [("kept", True)]


@pytest.mark.parametrize("task", ["Shorten this text:", "This text has 580 words. Please shorten it:"])
async def test_without_a_length_none_is_told_or_checked(task):
    answer, told = await ask(lambda piece, _: piece, task)
    assert not any("in place of the" in prompt for prompt in told)
    assert answer.warnings == ()


async def test_texts_of_a_file_are_shortened_to_their_share():
    long, task = "word " * 99 + "end", "Shorten this text to half its length:"
    text = "```html\n" + "".join(f"<p>{long}</p>\n" for _ in range(4)) + "```"
    answer, told = await ask(lambda piece, _: piece, task, text)
    assert answer.text == text
    assert sum("about 50 words in place of the 100 " in prompt for prompt in told) == 2 * 4
    assert sum("100 words where about 50 " in warning for warning in answer.warnings) == 4


@pytest.mark.parametrize(
    ("task", "words", "told"),
    [
        ("Shorten this text to half its length:", 30, "183 words where about 302 "),
        ("Shorten this text to 250 words:", 58, "351 words where about 250 "),
        ("Shorten this text to 250 words:", 45, ""),
        ("Shorten this text by a third:", 60, ""),
    ],
)
async def test_a_whole_text_that_is_far_from_its_length_is_told_with_both_figures(task, words, told):
    answer, _ = await ask(lambda piece, _: shortened(piece, words), task)
    assert [(w.code, told in w) for w in answer.warnings if w.part is None] == [("kept", True)] * bool(told)


async def test_a_total_of_characters_is_checked_in_characters():
    answer, _ = await ask(lambda piece, _: shortened(piece, 15), "Shorten this text to 1,000 characters:")
    count = len("".join(answer.text.split()))
    assert count < 750
    assert [f"{count} characters where about 1,000 " in w for w in answer.warnings if w.part is None] == [True]


async def test_code_that_is_copied_counts_for_the_whole_length():
    text = "\n\n".join([TEXT, "```py", *["a = b + c d"] * 90, "```"])
    answer, _ = await ask(lambda piece, _: shortened(piece, 50), "Shorten this text to half its length:", text)
    assert [(w.code, w.part) for w in answer.warnings] == [("kept", None)]
