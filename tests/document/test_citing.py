"""What becomes a citation in an answer, and what stays as it is, however the stream was chunked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader import FACTS, answer, ask, haystack, scripted, text_of

from stretto import Document
from stretto.strategies.document.citing import CitationFilter, mark_for, without_marks
from stretto.values.citation import Citation

PAGES = 12
UNTOUCHED = [
    "The rule is from [2019] UKSC 41, para 3.",
    "[2] UKSC 41 is older.",
    "Jones v Kaney [2011] UKSC 13",
    "Take arr[10] and args[0][1] and f(x)[2] of it.",
    "x lies in [0, 1].",
    "x lies in [1, 2].",
    "The interval [1, 2] is closed, and so is the range [3-5].",
    "let $x \\in [1, 2]$ and y = [3], z=[4]",
    "See [3](https://example.org/3) and [the rent][3].",
    "[3]: https://example.org/3",
    "A footnote.[^3]",
    "- [ ] todo\n- [3] done\n1. [4] third",
    "Run `numbers [3]` now.",
    "So:\n\n```python\nfirst = values [1]\nprint [2]\n```\n",
    "~~~\nvalues [1]\n~~~",
    "The rent is 900 [99].",
    "The rent is 900 [3, 99].",
    "The rent is 900 [3-99].",
    "The rent is 900 [5-3].",
    "The rent is 900 [10-14].",
    "The rent is 900 [].",
    "The rent is 900 [3",
    "The rent is 900 [citee:3] [cited: 3] [cite",
    "The rent is 900 [" + ", ".join(["3"] * 200) + "].",
    "a[1]b",
    "[[1]]",
]
CITED = [
    ("The rent is 900 [cite:3].", "The rent is 900 <3>."),
    ("The rent is 900[cite:3].", "The rent is 900<3>."),
    ("In code `x[cite:3]` too.", "In code `x<3>` too."),
    ("900 [cite:3][cite:4], 80 [Cite: 5].", "900 <3><4>, 80 <5>."),
    ("900 [cite:3, cite:5].", "900 <3><5>."),
    ("900 [cite:3, 5; 7].", "900 <3><5><7>."),
    ("900 [cite:3-5].", "900 <3><4><5>."),
    ("900 [cite 3].", "900 <3>."),
    ("[cite:3] says so.", "<3> says so."),
    ("The rent is 900 [3].", "The rent is 900 <3>."),
    ("The rent is 900. [3]", "The rent is 900. <3>"),
    ("The rent is 900 [3] [4][5], and more.", "The rent is 900 <3> <4><5>, and more."),
    ("The rent is **900** [3, 4].\nNext 80 [3-5]", "The rent is **900** <3><4>.\nNext 80 <3><4><5>"),
    ("- The rent is 900 [3].", "- The rent is 900 <3>."),
    ("租金是九百[3]。", "租金是九百<3>。"),
]
SIZED = "The rent is 900 [cite:" + ", ".join(["3"] * 40) + "]."


def filtered(pieces, mark="cite", prompt=""):
    def resolve(number):
        if not 0 < number <= PAGES:
            return None
        return Citation(
            number=number, label=f"<{number}>", title="t", source="", document=0, start=number, end=number, quote="q"
        )

    citing = CitationFilter(resolve, mark=mark, prompt=prompt)
    return "".join(map(citing.feed, pieces)) + citing.finish(), citing


@pytest.mark.parametrize("text", UNTOUCHED)
@pytest.mark.parametrize("mark", ["cite", ""])
def test_what_is_no_citation_stays_as_it_is(text, mark):
    assert filtered([text], mark)[0] == text


@pytest.mark.parametrize(("text", "shown"), CITED)
def test_what_is_a_citation_becomes_its_label(text, shown):
    assert filtered([text])[0] == shown


def test_a_long_list_is_one_citation():
    assert filtered([SIZED])[0] == "The rent is 900 <3>."


def test_a_mark_of_nothing_is_left_out_and_counted():
    text, citing = filtered(["It is 900 [cite:99], 80 [cite:3, 98]."])
    assert (text, citing.unknown) == ("It is 900 , 80 <3>.", 2)


def test_after_one_mark_a_bare_number_is_none():
    assert filtered(["It is 900 [cite:3], as the list [4] says: 900 [5]."])[0] == (
        "It is 900 <3>, as the list [4] says: 900 [5]."
    )


def test_a_number_that_the_model_was_shown_in_brackets_is_no_citation():
    assert filtered(["As Smith [3] and Jones [4, 5] show [6]."], prompt="Smith [3] and Jones [4,5] showed it.")[0] == (
        "As Smith [3] and Jones [4, 5] show <6>."
    )


def test_the_trained_form_needs_no_mark():
    assert filtered(["It is 900 [3].\n"], "", "[3] quoted")[0] == "It is 900 <3>.\n"


PIECES = st.sampled_from(
    [
        *UNTOUCHED,
        *(text for text, _ in CITED),
        SIZED,
        "[",
        "]",
        "[cite",
        ":3]",
        "[3",
        "]",
        "`",
        "```",
        "\n",
        " ",
        "x",
        "3,",
    ]
)


@given(st.lists(PIECES, max_size=6).map("".join), st.randoms(use_true_random=False), st.sampled_from(["cite", ""]))
def test_the_result_does_not_depend_on_the_chunks(text, chance, mark):
    whole, citing = filtered([text], mark)
    cuts = sorted(chance.sample(range(len(text) + 1), min(len(text), 12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for chunked in (pieces, list(text)):
        again, other = filtered(chunked, mark)
        assert (again, other.citations, other.unknown) == (whole, citing.citations, citing.unknown)


@given(st.text(alphabet="[]cite:0123 ,-;x`\n(", max_size=200))
def test_nothing_of_a_text_is_lost_but_marks(text):
    shown, citing = filtered([text], "quoted")
    if not citing.citations:
        assert shown == text


def test_the_mark_is_one_that_the_texts_do_not_hold():
    assert mark_for(["An answer [1] of a chat [ref:2]."]) == "cite"
    assert mark_for(["Copied from a chat [cite:1]."]) == "quoted"
    hostile = " ".join(f"[{name}:1]" for name in ("Cite", "quoted", "proof", "citeaa"))
    assert mark_for([hostile]) == "citeab"


def marking(mark):
    """A reader that writes its numbers as it is asked to."""

    def reply(prompt):
        said = answer(prompt)
        return said if '"no_information"' in text_of(prompt) else said.replace(" [", f" [{mark}:")

    return reply


@pytest.mark.anyio
@pytest.mark.parametrize("window", [2_000, 100_000], ids=["in passages", "whole"])
async def test_documents_that_hold_the_mark_get_another_one(window):
    document = Document(text=f"{haystack(10, FACTS).text}\n\nThe rent is 900 [cite:1].", title="report")
    backend = scripted(marking("quoted"), context_window=window)
    found = await ask(backend, "What is the code of name3?", document)
    assert "[quoted:3]" in text_of(backend.calls[-1][0])
    assert len(found.citations) == 1
    assert "name3" in found.citations[0].quote


@pytest.mark.anyio
async def test_the_answer_tells_what_each_number_stood_for():
    found = await ask(scripted(marking("cite")), "What is the code of every person?", haystack(10, FACTS))
    said = next(branch.text for branch in found.branches if branch.kind == "direct")
    assert [citation.number for citation in found.citations] == list(range(1, len(FACTS) + 1))
    for citation in found.citations:
        assert f"{citation.quote.removesuffix('.')} [cite:{citation.number}]." in said
        assert f"{citation.quote.removesuffix('.')} {citation.label}." in found.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is so [cite:3], and so [Cite: 4, 7-9].", "It is so, and so."),
        ("It is so [quoted:3][proof:4].", "It is so."),
        *((f"It is so{begun}", "It is so") for begun in (" [", " [ci", " [cite:", " [cite:1", " [cite:1, ")),
        *((kept, kept) for kept in ("See [the page](x) and arr[10] too.", "[2019] UKSC 41", "[note] it")),
    ],
)
def test_a_part_is_shown_without_its_marks_before_they_become_places(text, shown):
    assert without_marks(text) == shown
