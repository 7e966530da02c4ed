import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.router.obstacles import MOST_POINTS
from stretto.strategies.skeleton.outline import LONGEST_TITLE, OutlineParser, clean_title


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
        ("Point 1: Tyres\nPoint 2: Chain", ["Tyres", "Chain"]),
        (
            "1. Tyres\n   - pressure\n   - tread\n2. Chain\n   1. clean\n   2. oil\n3. Brakes",
            ["Tyres", "Chain", "Brakes"],
        ),
        ("- Tyres\n  1. pressure\n- Chain", ["Tyres", "Chain"]),
        ("1. Tyres\n1. Chain\n1. Brakes", ["Tyres", "Chain", "Brakes"]),
        ("一、检查轮胎\n二、给链条上油\n三、清洁", ["检查轮胎", "给链条上油", "清洁"]),
        ("１．タイヤ\n２．チェーン", ["タイヤ", "チェーン"]),
        ("① Reifen\n② Kette", ["Reifen", "Kette"]),
        ("١. الإطارات\n٢. السلسلة", ["الإطارات", "السلسلة"]),
        ("१. टायर\n२. चेन", ["टायर", "चेन"]),
        ("1. Шины\n2. Цепь", ["Шины", "Цепь"]),
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
        st.sampled_from(["```", "**Bold**", "## Head", "Closing: yes"]),
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
    assert pieces.cut == whole.cut


@given(st.lists(st.from_regex(r"[A-Z][a-z]{2,9}( [a-z]{2,9}){0,3}", fullmatch=True), min_size=2, max_size=10))
def test_clean_titles_survive_every_form(wanted):
    forms = [
        "\n".join(f"{i}. {title}" for i, title in enumerate(wanted, 1)),
        "\n".join(f"{i}) **{title}**" for i, title in enumerate(wanted, 1)),
        "\n".join(f"- {title}" for title in wanted),
    ]
    assert all(titles(form) == wanted for form in forms)
