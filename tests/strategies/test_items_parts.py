import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.strategies.items.layout import Entries, EntryLayout, EntryText, layout_for
from stretto.strategies.items.plan import read_plan
from stretto.strategies.items.samples import is_repeated
from stretto.strategies.items.splitting import Split
from stretto.values.answer import Branch

TEXT = st.lists(
    st.sampled_from(
        [
            "1. ",
            "2. ",
            "3. ",
            "10. ",
            "cat",
            ": ",
            "\n",
            "\n\n",
            " ",
            "**",
            "- ",
            "Word",
            "→",
            "|",
            '"',
            "```",
            "猫",
            "\\",
        ]
    ),
    max_size=25,
).map("".join)
CUTS = st.lists(st.integers(0, 80), max_size=12)


def cut(text, cuts):
    edges = [0, *sorted(at for at in cuts if at < len(text)), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


def through(filter_, pieces):
    return "".join(filter_.feed(piece) for piece in pieces) + filter_.finish()


def read(most, pieces):
    entries = Entries(most)
    found = [entry for piece in pieces for entry in entries.feed(piece)]
    return found + entries.finish(), entries.confused


@given(text=TEXT, cuts=CUTS)
def test_an_entry_does_not_depend_on_how_its_text_was_cut(text, cuts):
    assert through(EntryText(("cat",), "  "), cut(text, cuts)) == through(EntryText(("cat",), "  "), [text])


@given(text=TEXT, cuts=CUTS, most=st.integers(1, 4))
def test_entries_do_not_depend_on_how_their_text_was_cut(text, cuts, most):
    assert read(most, cut(text, cuts)) == read(most, [text])


@given(text=TEXT)
def test_an_entry_without_a_name_keeps_its_text(text):
    assert through(EntryText((), ""), [text]) == text.strip()


@given(entries=st.lists(st.text("abcde fghij", min_size=1).map(str.strip).filter(bool), min_size=2, max_size=9))
def test_a_numbered_list_comes_apart_into_its_entries(entries):
    text = "Here they are:\n" + "\n".join(f"{number}. {entry}" for number, entry in enumerate(entries, 1))
    assert read(len(entries), [text]) == (entries, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat: cats", "cats"),
        ("**Cat**: cats", "cats"),
        ('"cat" → cats', "cats"),
        ("cat - cats", "cats"),
        ("cat\ncats", "cats"),
        ("cats", "cats"),
        ("cat", "cat"),
        ("cat:", "cat:"),
        ("cathedral: a church", "cathedral: a church"),
        ("  two\nlines \n", "two\n  lines"),
    ],
)
def test_a_repeated_name_is_taken_off(text, expected):
    assert through(EntryText(("cat",), "  "), [text]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. a\n2. b\n3. c", ["a", "b", "c"]),
        ("**1.** a\n**2.** b\n**3.** c", ["a", "b", "c"]),
        ("1) a\n(2) b\n3: c", ["a", "b", "c"]),
        ("1. a\n   more\n2. b\n\n3. c", ["a\nmore", "b", "c"]),
        ("```\n1. a\n2. b\n3. c\n```", ["a", "b", "c"]),
        ("1.\na\n2.\nb\n3.\nc", ["a", "b", "c"]),
        ("- a\n- b\n- c", ["a", "b", "c"]),
        ("Here they are:\n- a\n- b\n- c", ["a", "b", "c"]),
        ("1. a\n2. b\n3. c\n4. d\nmore", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_lists_as_models_write_them(text, expected):
    assert read(3, [text])[0] == expected


def test_a_list_may_go_on_counting_from_its_own_first_number():
    entries = Entries(3, first=5)
    assert entries.feed("5. a\n6. b\n7. c") + entries.finish() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4. a", "a"),
        ("1) a\nb", "a\nb"),
        ("1. a\n2. b", "1. a\n2. b"),
        ("1984. a", "1984. a"),
        ("4. a?\n1) b\n2) c", "a?\n1) b\n2) c"),
    ],
)
def test_a_single_entry_is_the_whole_text_without_its_number(text, expected):
    entries = Entries(1, first=4)
    assert entries.feed(text) + entries.finish() == [expected]


def test_numbers_out_of_turn_are_noticed():
    assert read(3, ["1. a\n2. b\n3. c"])[1] is False
    assert read(3, ["1. a\n1. sub\n2. b\n3. c"])[1] is True
    assert read(3, ["1. a\n2. b\n3. c\n4. d"])[1] is True


@pytest.mark.thorough
@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=4), name=st.sampled_from(["json_array", "json_object"])
)
def test_json_is_valid_whatever_was_written(texts, name):
    items = tuple(f"item {number}" for number in range(len(texts)))
    layout = EntryLayout(name, items, items)
    pieces = [layout.before(index + 1, index) + layout.entry(text, index) for index, text in enumerate(texts)]
    value = json.loads("".join(pieces) + layout.closing)
    assert len(value) == len(texts)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('{"order": "7755"}\n\nThis JSON object holds the number of the order.', {"order": "7755"}),
        ('```json\n{"order": 7755}\n```\nThe order is 7755.', {"order": 7755}),
        ('The order:\n```json\n{"order": 7755}\n```', {"order": 7755}),
        ('["a", "b"]\nare its parts.', ["a", "b"]),
        ('{"a": 1} or {"a": 2}', '{"a": 1} or {"a": 2}'),
        ('{"order": 7755', '{"order": 7755'),
        ("[1] is a footnote", "[1] is a footnote"),
        ("{x} marks a place", "{x} marks a place"),
        ('He said: {"a": 1}', 'He said: {"a": 1}'),
    ],
)
def test_what_a_model_says_of_its_json_is_left_out(said, value):
    """As SmolLM2 does behind every second record."""
    assert json.loads(EntryLayout("json_array").entry(said)) == value


def test_json_takes_over_no_constants_that_are_not_json():
    assert EntryLayout("json_array").entry("NaN") == '"NaN"'


@given(text=st.text(max_size=60))
def test_a_row_of_a_table_is_one_line(text):
    layout = EntryLayout("table", ("cat",), ("cat",), ("word", "plural"))
    assert len(layout.entry(text, 0).splitlines()) == 1


def test_a_failed_row_names_its_item():
    layout = EntryLayout("table", ("cat",), ("cat",))
    branch = Branch(id="item-1", kind="item", title="cat", status="failed", error="no words")
    assert layout.ending(branch, 0) == "| cat | [cat: could not be written] |"


@pytest.mark.parametrize(
    ("split", "name"),
    [
        (Split("Define each", items=("a", "b", "c"), marks="separated"), "lines"),
        (Split("Define each", items=("a", "b", "c"), marks="numbered"), "numbered"),
        (Split("Define each as a bulleted list", items=("a", "b", "c"), marks="numbered"), "bulleted"),
        (Split("Classify each", items=("long " * 20, "b", "c"), marks="bulleted"), "numbered"),
        (Split("Write a paragraph on each", items=("a", "b", "c"), marks="separated"), "sections"),
        (Split("Write 60 words on each", items=("a", "b", "c"), marks="separated"), "sections"),
        (Split("Translate each to JSON", items=("a", "b", "c"), marks="separated"), "json_object"),
        (Split("Translate each into a JSON list", items=("a", "b", "c"), marks="separated"), "json_array"),
        (Split("Write 5 slogans", count=5), "numbered"),
        (Split("Write 5 slogans as JSON", count=5), "json_array"),
        (Split("Write 5 slogans with bullet points", count=5), "bulleted"),
    ],
)
def test_the_form_follows_the_request(split, name):
    assert layout_for(split).name == name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ride on!", "ride on"),
        ("Ride into tomorrow", "Ride into the tomorrow."),
        ("1, 2, 3!", "1 2 3"),
        ("骑行吧", "骑行吧！"),
        (
            "The little shop on the corner of the old market mends every bicycle with love and patience.",
            "The little shop on the corner of the old market mends every bicycle with love and great patience.",
        ),
    ],
)
def test_repetitions_are_noticed(one, other):
    assert is_repeated(one, [other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ride on", "Roll on"),
        ("What is the capital of Peru?", "What is the capital of Chad?"),
        ("What is 7 + 5?", "What is 7 + 6?"),
        ("骑行吧", "飞行吧"),
        ("!!!", "???"),
        ("Oh no", "Go up"),
    ],
)
def test_what_differs_is_kept(one, other):
    assert not is_repeated(one, [other])


@pytest.mark.parametrize(
    "text", ["", "none", "{", '{"kind": 3}', '{"items": []}', "[1]", '{"kind": "items", "items": [1]}']
)
def test_what_is_no_plan_is_not_read_as_one(text):
    assert read_plan(text) is None


def test_a_plan_that_was_cut_off_is_read_as_far_as_it_goes():
    plan = read_plan('{"kind": "items", "instruction": "Define", "items": ["a", "b')
    assert plan is not None
    assert plan.items == ["a"]
