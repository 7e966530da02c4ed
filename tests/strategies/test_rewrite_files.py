"""Texts within HTML, subtitles, gettext and JSON files are rewritten, and nothing else of them; hostile texts."""

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming import streamed, text_of
from test_rewrite import PIECE

from stretto import Document
from stretto.router.given import Given
from stretto.strategies.rewrite.entries import Entries, entry_pieces
from stretto.strategies.rewrite.kept_text import lost, relaid
from stretto.strategies.rewrite.text_pieces import cut, edited_pieces
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

LONG = "and so it goes on, for a while at least"
HTML = f"""<!DOCTYPE html>
<html><head><title>The title</title><style>p {{ color: red }}</style></head>
<body class="page"><h1>A heading</h1>
<p>Some <b>bold</b> text with a <a href="https://example.org/a?b=c">link</a> {LONG}.<br>Next line &amp; more.</p>
<!-- a comment -->
<ul><li>one thing {LONG}</li><li>another thing {LONG}</li></ul>
<pre>code stays</pre><script>var x = "stays";</script>
<p translate="no">Not this.</p><p>{LONG} {LONG}</p></body></html>
"""
SRT = "\n".join(
    f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},900\nLine {number} of what is said\nin two rows\n"
    for number in range(1, 20)
)
PO = (
    "".join(
        f'#: file.c:{number}\nmsgid "Open {{name}} for the {number}. time"\nmsgstr ""\n\n' for number in range(1, 12)
    )
    + '#, fuzzy\nmsgid "one %d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
)
PO = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n\n' + PO
JSON = json.dumps(
    {f"key{number}": {"title": f'The "{number}" title, {LONG}', "url": "https://example.org/x"} for number in range(9)},
    indent=2,
)
SWAPPED = str.maketrans("aeiou", "AEIOU")


def shouted(text):
    """The text with its vowels in upper case, tags and placeholders left alone."""
    parts = re.split(r"(<[^>]*>|\{[^}]*\}|%d|&\w+;)", text)
    return "".join(part if at % 2 else part.translate(SWAPPED) for at, part in enumerate(parts))


def model(change=shouted):
    def reply(prompt):
        found = PIECE.search(text_of(prompt))
        if found is None:
            return "{}"
        return json.dumps({name: change(text) for name, text in json.loads(found["piece"]).items()}, ensure_ascii=False)

    return ScriptedBackend(reply)


async def translated(text, title, change=shouted):
    document = Document(text=text, title=title)
    return (
        await streamed(model(change), "Translate this file into German.", strategy="rewrite", documents=[document])
    )[0]


async def test_html_keeps_its_tags_attributes_comments_and_code():
    answer = await translated(HTML, "page.html")
    assert answer.warnings == ()
    assert answer.text == (
        HTML.replace("The title", "ThE tItlE")
        .replace("A heading", "A hEAdIng")
        .replace("Some", "SOmE")
        .replace("bold", "bOld")
        .replace(" text with a ", " tExt wIth A ")
        .replace(">link<", ">lInk<")
        .replace("Next line", "NExt lInE")
        .replace(" more", " mOrE")
        .replace(LONG, LONG.translate(SWAPPED))
        .replace(">one thing", ">OnE thIng")
        .replace("another thing", "AnOthEr thIng")
    )


async def test_subtitles_keep_their_numbers_and_times():
    answer = await translated(SRT, "film.srt")
    assert answer.text == SRT.replace("of what is said", "Of whAt Is sAId").replace(
        "in two rows", "In twO rOws"
    ).replace("Line", "LInE")


async def test_gettext_keeps_keys_and_placeholders_and_fills_what_is_missing():
    answer = await translated(PO, "de.po")
    assert answer.text.count('msgid "Open {name}') == 11
    assert 'msgid "Open {name} for the 3. time"\nmsgstr "OpEn {name} fOr thE 3. tImE"' in answer.text
    assert 'msgstr[0] "OnE %d fIlE"\nmsgstr[1] "%d fIlEs"' in answer.text
    assert answer.text.startswith(PO.partition("#:")[0])


async def test_strings_of_json_are_written_and_keys_and_addresses_kept():
    answer = await translated(JSON, "de.json")
    assert json.loads(answer.text) == {
        key: {"title": value["title"].translate(SWAPPED), "url": value["url"]}
        for key, value in json.loads(JSON).items()
    }


async def test_a_text_that_lost_a_tag_or_is_missing_is_asked_for_again_and_then_told():
    answer = await translated(HTML, "page.html", lambda text: text.replace("<b>", "").replace("</b>", ""))
    assert "kept" in [warning.code for warning in answer.warnings]


MARKS = [
    *(
        "# ",
        "- ",
        "1. ",
        "> ",
        "| a | b |\n|---|---|\n| c | d |\n",
        "```\ncode\n```\n",
        "\n\n",
        "\n",
        "\r\n",
        "  ",
        "\t",
    ),
    *("---\n", "{name}", "%(x)s", "[a](http://b.c/d)", "`x`", "<b>", "</p>", "<!--", "\u2028", "\0", "é", "日本語。"),
    *(
        "word ",
        "Sentence. ",
        "=== 1f ===",
        "12,345",
        '"',
        "\\",
        "<pre>",
        'msgid "a"\nmsgstr ""\n',
        "[x]: y\n",
        "\ufeff",
    ),
    *("1\n00:00:01,000 --> 00:00:02,000\n", '{"a": "b"}', "\ud83d"),
]
ENDINGS = ["", ".md", ".py", ".html", ".srt", ".po", ".json"]


async def test_what_a_browser_would_run_is_never_added_to_a_file():
    added = "<script>alert(1)</script>"
    answer = await translated(HTML, "page.html", lambda text: f"{shouted(text)}{added if 'one thing' in text else ''}")
    assert added not in answer.text
    assert f"<li>one thing {LONG}</li>" in answer.text
    assert shouted(f"another thing {LONG}") in answer.text
    assert "kept" in [warning.code for warning in answer.warnings]


@pytest.mark.parametrize(
    "written",
    [
        "その価格は1,234円で、5日間です。",
        "价格是1234元，共５天",
        "가격은 1.234원, 5일",
        "السعر ١٬٢٣٤ يورو لمدة ٥ أيام",
        "मूल्य १,२३४ है, ५ दिन",
    ],
)
def test_numbers_are_found_in_every_script(written):
    source = "The price is 1,234 euros for 5 days."
    assert lost(source, written, "translate") == []
    assert lost(source, written.translate({ord(sign): "7" for sign in "4４٤४"}), "translate") == [
        "numbers are missing: 1234"
    ]


def hostile(seed):
    chosen = random.Random(seed)  # noqa: S311 - the same texts each time
    return "".join(chosen.choice(MARKS) for _ in range(chosen.randint(1, 120)))


def put_together(text, pieces):
    """The text with every piece as it was."""
    parts, end = [], 0
    for piece in pieces:
        same = piece.filled([None] * len(piece.entries)) if isinstance(piece, Entries) else piece.text
        parts += [text[end : piece.start], same]
        end = piece.end
    return "".join([*parts, text[end:]])


@pytest.mark.parametrize("seed", range(200))
def test_a_hostile_text_whose_pieces_stay_is_the_same_byte_for_byte(seed):
    text = hostile(seed)
    for ending in ENDINGS:
        for change in ("translate", "correct", "rename", "insert"):
            source = Given(change, "", text, ending=ending)
            for pieces in (entry_pieces(source, 8), cut(text, ending, 8), edited_pieces(source, 8)):
                assert put_together(text, pieces) == text
                assert [piece.number for piece in pieces] == sorted({piece.number for piece in pieces})


@given(st.text(st.sampled_from("ab \n\r.-#|1`{}[]()<>/:é"), max_size=80))
def test_what_is_written_as_it_was_has_lost_nothing(text):
    assert lost(text, text, "correct", tags=True) == []
    if text == text.strip() and "\r" not in text:
        assert relaid(text, text) == text
