"""Files of other formats as they are found: line ends, gaps, counters, plural forms, entities; changes by edits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming import streamed, text_of
from test_rewrite import PIECE
from test_rewrite_edits import LIST, changes
from test_rewrite_files import HTML, LONG, SRT, shouted

from stretto import Document
from stretto.router.given import Given
from stretto.strategies.rewrite.entries import entry_pieces
from stretto.strategies.rewrite.kept_text import lost
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


def rewritten(text, ending, change="translate", how=shouted):
    """The file with each of its texts changed."""
    parts, end = [], 0
    for piece in entry_pieces(Given(change, "", text, ending=ending), 4):
        parts += [text[end : piece.start], piece.filled([how(entry.text) for entry in piece.entries])]
        end = piece.end
    return "".join([*parts, text[end:]])


def texts_of(text, ending, change="translate"):
    pieces = entry_pieces(Given(change, "", text, ending=ending), 4)
    return [entry.text for piece in pieces for entry in piece.entries]


# Parts of files as they stand, and as they are once their texts are shouted.
SAID = ["hello there", "<i>so be it</i>", "- one\n- two", "a --> b", "%(count)d of %s", "Ünder {name}"]
CUES = st.tuples(
    st.sampled_from(["7\n", "007\n", "", " 3 \n"]),
    st.sampled_from(["00:00:01,000 --> 00:00:02,000", "00:00:01.000 --> 00:00:02.000 X1:1", "0:1:2,3-->0:1:3,4"]),
    st.sampled_from([*SAID, "gap\n\nwithin the cue", "12 %"]),
    st.sampled_from(["\n\n", "\n", "\n\n\n", "\n \n"]),
)
START, NEWLINES = st.sampled_from(["", "\ufeff", "\n\n"]), st.sampled_from(["\n", "\r\n"])


def cue_text(said):
    return shouted(said).replace("-->", "->")


@given(st.lists(CUES, min_size=1, max_size=6), START, NEWLINES)
def test_of_subtitles_only_texts_change(cues, start, newline):
    source = start + "".join(f"{number}{time}\n{said}{gap}" for number, time, said, gap in cues)
    wanted = start + "".join(f"{number}{time}\n{cue_text(said)}{gap}" for number, time, said, gap in cues)
    given_, expected = source.replace("\n", newline), wanted.replace("\n", newline)
    assert rewritten(given_, ".srt") == expected


VTT = """\ufeffWEBVTT - a title

STYLE
::cue { color: red }

NOTE this is no text
of the film

intro
00:01.000 --> 00:02.000 align:start position:5%
<v Bob>so be it</v> &amp; more

NOTE between

00:03.000 --> 00:04.000
in two
rows
"""


def test_notes_styles_and_names_of_cues_stay():
    assert texts_of(VTT, ".vtt") == ["<v Bob>so be it</v> &amp; more", "in two\nrows"]
    expected = VTT.replace("so be it<", "sO bE It<").replace("& more", "& mOrE").replace("amp; more", "amp; mOrE")
    assert rewritten(VTT, ".vtt") == expected.replace("in two\nrows", "In twO\nrOws")


PLURAL = 'msgid "one %d file"\nmsgid_plural "%(n)d files"\nmsgstr[0] {}\nmsgstr[1]\t{}\nmsgstr[2] {}'
MESSAGES = st.sampled_from(  # each as it stands, and as it is once what it lacks is there
    [
        ("# a comment\n#. for translators\n#: a.c:1\n#, fuzzy, c-format", None),
        ('#~ msgid "an old one"\n#~ msgstr ""', None),
        ('msgid "done"\nmsgstr "fertig"', None),
        ('#| msgid "before"\nmsgctxt "menu"\nmsgid "open %s"\nmsgstr ""', 'msgstr "OpEn %s"'),
        ('msgid ""\n"in two "\n"lines\\n"\nmsgstr ""', 'msgstr "In twO lInEs\\n"'),
        ('msgid "\\nso \\"be\\" it {name}\\\\"\nmsgstr   ""', 'msgstr   ""\n"\\n"\n"sO \\"bE\\" It {name}\\\\"'),
        (PLURAL.format(*['""'] * 3), PLURAL.format('"OnE %d fIlE"', *['"%(n)d fIlEs"'] * 2)),
    ]
)
HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Plural-Forms: nplurals=3; plural=0;\\n"\n\nmsgid "a"\nmsgstr ""\n'


@given(st.lists(MESSAGES, max_size=8), START, NEWLINES, st.sampled_from(["\n", "\n\n", " \n"]))
def test_of_gettext_only_what_is_not_translated_yet_is_written(messages, start, newline, gap):
    source = start + HEADER + "".join(said + gap for said, _ in messages)
    expected = start + HEADER.replace('"a"\nmsgstr ""', '"a"\nmsgstr "A"')
    for said, filled in messages:
        kept = said if filled is None else "" if said.startswith('msgid "one') else said[: said.rindex("msgstr")]
        expected += kept + (filled or "") + gap
    expected = expected.replace('In twO "\n"lInEs', "In twO lInEs")  # a text is cut at its line ends alone
    assert rewritten(source.replace("\n", newline), ".po") == expected.replace("\n", newline)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_of_json_only_strings_change_in_the_way_it_writes_them(start, newline):
    source = (
        start
        + '{\n "a key": "so \\"be\\" it\\n",\n "n": [1.0, 1e5, "x: y", "{name}", "/path"],  "a key": "caf\\u00e9"\n}\n'
    )
    expected = (
        source.replace("so \\", "sO \\").replace('be\\"', 'bE\\"').replace("it\\n", "It\\n").replace("caf", "cAf")
    )
    assert rewritten(source.replace("\n", newline), ".json") == expected.replace("\n", newline)
    assert rewritten(f"{source}]", ".json") == f"{source}]"  # no JSON, so nothing of it is touched


def test_a_text_of_html_begins_with_its_entity():
    assert texts_of("<p>&Uuml;ber uns &amp; mehr</p><p>&nbsp;</p>", ".html") == ["&Uuml;ber uns &amp; mehr"]


@pytest.mark.parametrize("placeholder", ["%s", "%d", "%(x)d", "%5.2f", "%-10s", "%lu", "%1$s", "%@", "{name}", "{{x}}"])
def test_a_placeholder_that_is_gone_is_told(placeholder):
    told = lost(f"Open {placeholder}, please", "Bitte", "translate")
    assert told[0] == f"placeholders are missing: {placeholder}"


# Changes by edits


def editor(*pairs, anew=lambda text: text):
    """A model that makes each change where its text stands, and writes pieces anew where that is asked for."""

    def reply(prompt):
        piece = PIECE.search(text_of(prompt))["piece"]
        if LIST in text_of(prompt) and '{"changes"' in text_of(prompt):
            return changes(*(pair for pair in pairs if pair[0] in piece))
        return json.dumps({name: anew(text) for name, text in json.loads(piece).items()})

    return ScriptedBackend(reply)


async def edited(backend, text, title, order="Correct the spelling of this document."):
    return await streamed(backend, order, strategy="rewrite", documents=[Document(text=text, title=title)])


async def test_of_html_edits_change_texts_and_never_tags_or_attributes():
    source = HTML.replace("one thing", "one thnig").replace('class="page"', 'class="thnig"')
    backend = editor(("one thnig", "one thing"))
    answer, events = await edited(backend, source, "page.html")
    assert answer.text == source.replace("one thnig", "one thing")
    (event,) = [each for each in events if each.type == "text_edited"]
    assert answer.text[event.start :].startswith("one thing")
    assert (answer.warnings, answer.usage.completion_tokens < 60) == ((), True)
    assert "<script>" not in "".join(text_of(prompt) for prompt, _ in backend.calls)


async def test_a_name_is_changed_in_texts_alone():
    source = HTML.replace("link<", "bold<").replace("https://example.org/a", "https://example.org/bold")
    source = source.replace("<p>Some", '<p title="bold">Some').replace("&amp;", "&amp; amp")
    answer, _ = await edited(editor(("bold", "heavy"), ("amp", "lamp")), source, "page.html", "Rename bold to heavy.")
    assert answer.text == source.replace(">bold<", ">heavy<").replace("&amp; amp", "&amp; lamp")
    assert answer.warnings == ()


@pytest.mark.parametrize(
    "pair", [("<b>bold</b>", "bold"), ("bold", "<i>bold</i>"), ("bold", "<script>x()</script>"), ("a?b=c", "a?b=d")]
)
async def test_an_edit_that_would_change_a_tag_is_not_made(pair):
    answer, events = await edited(editor(pair), HTML, "page.html")
    assert answer.text == HTML
    assert not [each for each in events if each.type == "text_edited"]


@pytest.mark.parametrize(
    ("title", "source", "pair"),
    [
        ("film.srt", SRT.replace("Line 3", "Lien 3"), ("Lien 3 of", "Line 3 of")),
        ("de.po", f'msgid "Lien 3"\nmsgstr "a \\"Lien 3\\" {LONG * 12}"\n\n', ('"Lien 3"', '"Line 3"')),
        ("de.json", json.dumps({"Lien 3": f'a "Lien 3" {LONG * 12}'}), ('"Lien 3"', '"Line 3"')),
    ],
)
async def test_of_other_formats_edits_change_texts_alone(title, source, pair):
    answer, _ = await edited(editor(pair), source, title)
    quoted = 'a \\"Lien 3' if title != "film.srt" else "Lien 3"
    assert answer.text == source.replace(quoted, quoted.replace("Lien", "Line"))
    assert answer.warnings == ()


async def test_the_texts_of_a_file_are_asked_for_as_an_object():
    backend = editor()
    await streamed(backend, "Translate this file.", strategy="rewrite", documents=[Document(text=SRT, title="a.srt")])
    assert all("a JSON object whose values are texts" in text_of(prompt) for prompt, _ in backend.calls)
