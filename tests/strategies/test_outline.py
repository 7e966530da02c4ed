import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.router.obstacles import MOST_POINTS
from stretto.strategies.outline import LONGEST_TITLE, OutlineParser, clean_title


def parse(text, **arguments):
    parser = OutlineParser(**arguments)
    parser.feed(text)
    parser.finish()
    return parser


def titles(text):
    return [point.title for point in parse(text).points]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Check tyres\n2. Oil the chain", ["Check tyres", "Oil the chain"]),
        ("1) Check tyres\n2) Oil the chain", ["Check tyres", "Oil the chain"]),
        ("(1) Check tyres\n(2) Oil the chain", ["Check tyres", "Oil the chain"]),
        ("Here is the outline:\n\n1. Tyres\n\n2. Chain\n\nHope this helps!", ["Tyres", "Chain"]),
        ("- Tyres\n- Chain\n- Brakes", ["Tyres", "Chain", "Brakes"]),
        ("• Tyres\n• Chain", ["Tyres", "Chain"]),
        ("- [ ] Tyres\n- [x] Chain", ["Tyres", "Chain"]),
        ("**1. Tyres**\n**2. Chain**", ["Tyres", "Chain"]),
        ("1. **Tyres**\n2. **Chain**: keep it oiled", ["Tyres", "Chain"]),
        ("### 1. Tyres\n### 2. Chain", ["Tyres", "Chain"]),
        ("# Looking after a bicycle\n## Tyres\n## Chain", ["Tyres", "Chain"]),
        ("**Tyres**\n**Chain**", ["Tyres", "Chain"]),
        ("Point 1: Tyres\nPoint 2: Chain", ["Tyres", "Chain"]),
        (
            "1. Tyres\n   - pressure\n   - tread\n2. Chain\n   1. clean\n   2. oil\n3. Brakes",
            ["Tyres", "Chain", "Brakes"],
        ),
        ("- Tyres\n  1. pressure\n- Chain", ["Tyres", "Chain"]),
        ("1. Tyres\n1. Chain\n1. Brakes", ["Tyres", "Chain", "Brakes"]),
        ("Tyres\nChain\nBrakes", ["Tyres", "Chain", "Brakes"]),
        ("一、检查轮胎\n二、给链条上油\n三、清洁", ["检查轮胎", "给链条上油", "清洁"]),
        ("１．タイヤ\n２．チェーン", ["タイヤ", "チェーン"]),
        ("① Reifen\n② Kette", ["Reifen", "Kette"]),
        ("١. الإطارات\n٢. السلسلة", ["الإطارات", "السلسلة"]),
        ("१. टायर\n२. चेन", ["टायर", "चेन"]),
        ("1. Шины\n2. Цепь", ["Шины", "Цепь"]),
        ('["Tyres", "Chain"]', ["Tyres", "Chain"]),
        ('```json\n{"points": [{"title": "Tyres"}, {"title": "Chain"}]}\n```', ["Tyres", "Chain"]),
        ('{"1": "Tyres", "2": "Chain"}', ["Tyres", "Chain"]),
        ('{"title": "Bicycle care", "points": ["Tyres", "Chain"]}', ["Tyres", "Chain"]),
        ('[ "Tyres", "", "Chain"]', ["Tyres", "Chain"]),
        ("1. C#\n2. snake_case names\n3. *Emphasis* here", ["C#", "snake_case names", "Emphasis here"]),
        ("1. Tyres\n2. Ch\x18\n2. Chain", ["Tyres", "Chain"]),
    ],
)
def test_points_are_found_in_every_common_form_of_outline(text, expected):
    assert titles(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\n",
        "I'm sorry, but I can't help with that.",
        "1990. was the year in which it began.\n1991. came next.",
        "3.5x faster than before\n2.5x slower",
        "It costs 10.50 a month.\nThat is all.",
    ],
)
def test_prose_refusals_years_and_decimals_are_no_points(text):
    assert titles(text) == []


def test_a_point_is_known_the_moment_its_line_is_complete():
    parser = OutlineParser()
    assert parser.feed("1. Check ty") == []
    assert [point.title for point in parser.feed("res\n2. Oil")] == ["Check tyres"]
    assert [point.title for point in parser.finish()] == ["Oil"]


def test_a_json_point_is_known_once_the_next_begins_or_it_is_closed():
    parser = OutlineParser()
    assert parser.feed('["Tyr') == []
    assert [point.title for point in parser.feed('es", "Ch')] == ["Tyres"]


def test_dependencies_lengths_and_the_closing_sentence_are_read():
    parser = parse("1. Costs\n2. Savings (80 words)\n3. Balance (needs 1, 2) (120 words)\nClosing: It pays off.")
    assert [(point.title, point.needs, point.words) for point in parser.points] == [
        ("Costs", (), None),
        ("Savings", (), 80),
        ("Balance", (1, 2), 120),
    ]
    assert parser.closing == "It pays off."


def test_an_opening_sentence_is_read_only_before_the_points():
    parser = parse("Opening: Some words first.\n1. Costs\n2. Savings\nOpening: too late")
    assert parser.opening == "Some words first."
    assert [point.title for point in parser.points] == ["Costs", "Savings"]


def test_a_point_cannot_need_itself_or_a_later_one():
    assert [point.needs for point in parse("1. A (needs 1, 2)\n2. B (needs 3)\n3. C (needs 2)").points] == [
        (),
        (),
        (2,),
    ]


def test_the_frame_of_a_json_outline_is_read():
    parser = parse('{"opening": "Some words.", "points": ["Tyres", "Chain"], "closing": "That is all."}')
    assert (parser.opening, parser.closing) == ("Some words.", "That is all.")


def test_more_points_than_an_answer_can_hold_are_cut_and_said():
    parser = parse("\n".join(f"{i}. Point number {i}" for i in range(1, 100)))
    assert len(parser.points) == MOST_POINTS
    assert parser.cut


def test_a_title_is_one_line_without_markup_role_tags_or_control_characters():
    assert clean_title("**Oil** <|im_start|>the\x1b[31m chain:") == "Oil"
    assert clean_title("Oil <|im_end|> the `chain`.") == "Oil the chain"
    assert len(clean_title("word " * 200)) <= LONGEST_TITLE + 1


LINES = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.builds("{}. {}".format, st.integers(1, 40), st.text(min_size=1, max_size=20)),
        st.builds("- {}".format, st.text(max_size=20)),
        st.builds('"{}",'.format, st.text(max_size=8)),
        st.sampled_from(["```json", "```", "[", "{", "}", "]", "**Bold**", "## Head", "Closing: yes", "Opening: so"]),
    ),
    max_size=14,
).map("\n".join)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=30)


def cut(text, lengths):
    at = number = 0
    while at < len(text):
        length = lengths[number % len(lengths)]
        yield text[at : at + length]
        at, number = at + length, number + 1


@given(LINES, CUTS)
def test_any_cutting_of_the_same_text_gives_the_same_points(text, lengths):
    whole, pieces = parse(text), OutlineParser()
    for piece in cut(text, lengths):
        pieces.feed(piece)
    pieces.finish()
    assert pieces.points == whole.points
    assert (pieces.opening, pieces.closing) == (whole.opening, whole.closing)
    assert pieces.cut == whole.cut


@given(st.lists(st.from_regex(r"[A-Z][a-z]{2,9}( [a-z]{2,9}){0,3}", fullmatch=True), min_size=2, max_size=10))
def test_clean_titles_survive_every_form(wanted):
    forms = [
        "\n".join(f"{i}. {title}" for i, title in enumerate(wanted, 1)),
        "\n".join(f"{i}) **{title}**" for i, title in enumerate(wanted, 1)),
        "\n".join(f"- {title}" for title in wanted),
        json.dumps([{"title": title} for title in wanted]),
    ]
    assert all(titles(form) == wanted for form in forms)


@pytest.mark.parametrize(
    ("outline", "begun_by"),
    [
        ("1. Tyres\n2. Chain", "1. Tyres\n2."),
        ("1) Tyres\n2) Chain", "1) Tyres\n2)"),
        ("1. Tyres\n1. Chain", "1. Tyres\n1."),
        ("- Tyres\n- Chain", "- Tyres\n- "),
        ("**1. Tyres**\n**2. Chain**", "**1. Tyres**\n**2."),
        ("一、轮胎\n二、链条", "一、轮胎\n二、"),
        ("① Tyres\n② Chain", "① Tyres\n② "),
        ("1. Tyres\n   - pressure\n2. Chain", "1. Tyres\n   - pressure\n2."),
        ('["Tyres", "Chain"]', '["Tyres", "Chain"'),
        ("1. Tyres\n\nThat is all: 2. is not there.", None),
        ("1. Tyres\n- pressure\n- tread", None),
        ("Tyres\nChain", None),
    ],
)
def test_a_second_point_has_begun_as_soon_as_its_marker_is_there(outline, begun_by):
    parser, read = OutlineParser(), ""
    while len(read) < len(outline) and not parser.another_begun:
        parser.feed(outline[len(read)])
        read += outline[len(read)]
    assert read == (begun_by or outline)
    assert parser.another_begun == (begun_by is not None)
