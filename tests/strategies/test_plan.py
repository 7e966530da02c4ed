"""The plan of an answer is read as it streams, however a model writes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.strategies.skeleton.plan import PlanParser

PLAN = """Opening: Fix the chain first. Opening hours of shops vary.
Sections: What to do weekly | What a shop does | When to replace
Shared: costs in euros, chain wear 0.75%
1. steps, about 90 words: clean, oil, check wear
2. bullets, 60 words: truing, bearings
3. table, 80 words: part, sign, cost
Closing: Book the shop for spring."""

PLAIN = (
    "Fix the chain first. Opening hours of shops vary.",
    ("What to do weekly", "What a shop does", "When to replace"),
)


def parse(text: str, size: int = 0) -> PlanParser:
    parser = PlanParser()
    for at in range(0, len(text), size or len(text) or 1):
        parser.feed(text[at : at + (size or len(text))])
    parser.finish()
    return parser


@given(st.integers(1, 60))
def test_pieces_of_any_size_give_the_same_plan(size):
    pieces, whole = parse(PLAN, size), parse(PLAN)
    assert (pieces.opening, pieces.headings, pieces.sections, pieces.closing, pieces.text) == (
        *(whole.opening, whole.headings, whole.sections, whole.closing, whole.text),
    )


def test_a_plan_as_it_was_asked_for():
    parser = parse(PLAN)
    assert (parser.opening, parser.headings) == PLAIN
    assert [(each.index, each.words) for each in parser.sections] == [(1, 90), (2, 60), (3, 80)]
    assert parser.closing == "Book the shop for spring."
    assert "Shared: costs in euros" in parser.text
    assert "2. What a shop does: bullets, 60 words: truing, bearings" in parser.text


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("short bullets, about 110 words: par levels", "short bullets"),
        ("table (item, typical cost), 110 words: lamps, heating", "table"),
        ("**steps**, 40 words: oil it", "steps"),
        ("numbered steps 100 words: oil it", "numbered steps"),
        ("Tabelle, etwa 80 Wörter: Teil, Preis", "Tabelle"),
        ("箇条書き、約80語：部品", "箇条書き"),
        ("oil the chain, then wipe it", ""),
        ("80 words: oil the chain", ""),
        ("oil the chain: at 5 bar, two drops", ""),
        ("", ""),
    ],
)
def test_the_form_of_a_section_is_what_its_line_names_before_the_length(line, form):
    sections = parse(f"Opening: Oil it.\nSections: A | B\n1. steps, 40 words: x\n2. {line}").sections
    assert [section.form for section in sections] == (["steps", form] if line else ["steps"])


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: f"Here is the plan:\n\n{plan}",
        lambda plan: f"```\n{plan}\n```",
        lambda plan: plan.replace("Opening:", "**Opening:**").replace("Sections:", "**Sections:**"),
        lambda plan: plan.replace("Opening:", "## Opening\n".strip() + ":").replace("\n", "\n\n"),
        lambda plan: plan.replace("1. steps", "1. **What to do weekly**: steps").replace("2. b", "2) b"),
        lambda plan: plan.replace("What to do weekly |", "1. What to do weekly |"),
        lambda plan: plan.replace("Closing: Book the shop for spring.", "Closing: none"),
        lambda plan: plan.replace(
            "Sections: What to do weekly | What a shop does | When to replace",
            "Sections:\n- What to do weekly\n- What a shop does\n- When to replace",
        ),
        lambda plan: plan.replace("\n", "\r\n"),
    ],
)
def test_what_models_add_or_write_differently(change):
    parser = parse(change(PLAN))
    assert (parser.opening, parser.headings) == PLAIN
    assert [each.brief.split(",")[0] for each in parser.sections] == ["steps", "bullets", "table"]
    assert parser.closing in ("Book the shop for spring.", "")


def test_headings_that_stand_in_the_lines():
    parser = parse(
        "Opening: Go.\n1. Weekly care: steps, 80 words: oil\n2. **In the shop**: bullets: truing\nClosing: none"
    )
    assert parser.headings == ("Weekly care", "In the shop")
    assert [each.words for each in parser.sections] == [80, None]


def test_headings_without_a_line_become_sections():
    parser = parse("Opening: Go.\nSections: A one | B two | C three\n1. steps: x")
    parser.complete()
    assert [(each.heading, each.brief) for each in parser.sections] == [
        ("A one", "steps: x"),
        ("B two", ""),
        ("C three", ""),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1. Chain\n2. Tyres\n",
        "| Part | Care |\n",
        '{"opening": "Oil it."}\n',
        "Sure! Here is all that you asked me for, " * 4,
    ],
)
def test_a_text_that_is_no_plan(text):
    parser = PlanParser()
    parser.feed(text)
    assert parser.is_plan is (False if text else None)
    assert parse(text, 1).is_plan is False
    assert parse(text).opening == ""


@pytest.mark.parametrize(
    "text",
    [
        "Oil the chain. It rusts",
        "Oil the chain of your bicycle every week and then pump the tyres",
        "毎週油をさす。次に",
        "# Care\n\nOil it. It",
    ],
)
def test_an_opening_without_its_label_is_shown_at_once(text):
    for size in (1, 5, 0):
        parser = parse(text, size)
        assert (parser.is_plan, parser.opening) == (True, text.removeprefix("# Care\n\n"))
    assert parse(f"{text}.\nSections: A | B\n1. steps: x\n2. y").headings == ("A", "B")


def test_a_list_within_an_answer_that_is_no_plan_makes_no_sections():
    text = "Look after it like this.\n\n1. **Chain**: oil it.\n2. **Tyres**: pump them."
    assert (parse(text).opening, parse(text).sections) == (text, [])


@pytest.mark.parametrize(
    ("line", "opening"),
    [
        ("Opening: **Oil** it *now*", "**Oil** it *now*"),
        ("**Opening:** **Oil** it", "**Oil** it"),
        ("**Opening**: **Oil** it", "**Oil** it"),
        ("**Opening: Oil it.**", "Oil it."),
    ],
)
def test_marks_of_the_label_are_taken_off_and_those_of_the_text_stay(line, opening):
    assert {parse(f"{line}\nSections: A | B", size).opening for size in (1, 2, 3, 9, 0)} == {opening}


def test_the_opening_is_there_before_its_line_ends():
    parser = PlanParser()
    parser.feed("Opening: Fix the chain fi")
    assert parser.new_opening() == "Fix the chain fi"
    parser.feed("rst.")
    assert parser.new_opening() == "rst."
    parser.feed("\nSect")
    assert parser.new_opening().strip() == ""
    parser.feed("ions: A | B\n")
    assert (parser.new_opening(), parser.headings) == ("", ("A", "B"))


def test_an_opening_that_becomes_the_answer_is_told():
    for size in (1, 9, 0):
        parser = parse("Opening: " + "Oil the chain and pump the tyres at 3.5 bar. " * 60, size)
        assert parser.is_too_long
        assert parser.opening == ("Oil the chain and pump the tyres at 3.5 bar. " * 16).strip()


def test_a_plan_of_blanks_is_none():
    assert parse(" " * 100_000, 1).is_plan is False


def test_a_citation_is_no_part_of_a_heading():
    plan = parse("Opening: Yes [cite:1].\nSections: Costs [cite:3] | Staff [4, 7-9]\n1. table: x\n2. y\nClosing: none")
    assert plan.headings == ("Costs", "Staff")
