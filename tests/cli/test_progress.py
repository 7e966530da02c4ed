import pytest

from stretto.cli.output.progress import Progress, status_of
from stretto.values.answer import Answer, Branch, Timeline, Usage
from stretto.values.events import (
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    RouteChosen,
    SectionPlanned,
    TextDelta,
)
from stretto.values.route import Route


@pytest.fixture
def progress():
    return Progress("openai:gpt-5-mini", lambda: 0.0)


def after(progress, *events):
    for event in events:
        progress.see(event)
    return progress.phrase().removesuffix(" · 0.0 s")


def started(name, kind):
    return BranchStarted(branch_id=name, kind=kind, title="")


def point(number):
    return SectionPlanned(branch_id=f"point-{number}", index=number, heading="Tea")


CHOSEN = RouteChosen(route=Route(strategy="skeleton"))


def test_before_the_route_it_is_choosing(progress):
    assert after(progress) == "choosing a strategy"


def test_until_the_first_text_it_names_the_model(progress):
    assert after(progress, CHOSEN, started("direct", "direct")) == "waiting for openai:gpt-5-mini"
    assert after(progress, started("outline", "outline")) == "planning: waiting for openai:gpt-5-mini"


def test_a_local_model_is_loaded_first():
    assert after(Progress("local:pocket", lambda: 0.0, loads=True), CHOSEN) == "loading local:pocket"
    times = iter([0.0, 4.0])
    assert after(Progress("local:pocket", lambda: next(times), loads=True), CHOSEN) == "loading local:pocket · 4.0 s"


def test_it_counts_the_points_of_the_outline(progress):
    heard = (CHOSEN, started("outline", "outline"), BranchDelta(branch_id="outline", text="1. Tea\n"))
    assert after(progress, *heard, point(1)) == "planning: 1 section"
    assert after(progress, point(2)) == "planning: 2 sections"


def test_it_counts_the_fields_and_the_elements_of_a_record(progress):
    first = (started("fields", "fields"), BranchDelta(branch_id="fields", text="{"))
    assert after(progress, RouteChosen(route=Route(strategy="fields")), *first) == "writing"
    parts = [started("field-a", "field"), started("field-b", "field"), started("field-c[0]", "element")]
    assert after(progress, *parts) == "writing 3 fields"
    assert after(progress, BranchFinished(branch=Branch(id="field-b", kind="field"))) == "writing 3 fields, 1 done"


def test_it_counts_the_points_that_are_written(progress):
    outline = (CHOSEN, started("outline", "outline"), point(1), point(2))
    points = (started("point-1", "section"), started("point-2", "section"))
    assert after(progress, *outline, *points, BranchFinished(branch=Branch(id="outline", kind="outline"))) == (
        "writing 2 sections"
    )
    assert after(progress, BranchFinished(branch=Branch(id="point-1", kind="section"))) == "writing 2 sections, 1 done"


def test_the_seconds_count_from_the_beginning():
    times = iter((10.0, 12.5))
    assert Progress("local:pocket", lambda: next(times)).phrase().endswith(" · 2.5 s")


def test_the_status_line_holds_time_tokens_and_calls():
    answer = Answer(
        text="Tea.",
        route=Route(strategy="skeleton"),
        usage=Usage(prompt_tokens=1200, completion_tokens=34, calls=1),
        timeline=Timeline(first_text_s=0.5, total_s=2.0),
    )
    assert status_of(answer) == "skeleton · 2.00 s, first text 0.50 s · 1,200 tokens in, 34 out · 1 call · cost unknown"


def test_sections_of_a_plan_are_ahead_until_the_text_comes_to_them():
    progress = Progress("openai:gpt-5-mini", lambda: 0.0)
    after(progress, started("plan", "plan"))
    for number, heading in enumerate(("Tea\x1b[31m", "Milk"), 1):
        after(progress, SectionPlanned(branch_id=f"section-{number}", index=number, heading=heading))
    assert progress.ahead == ["· Tea[31m", "· Milk"]
    after(progress, TextDelta(text="\n\n## Tea\x1b[31m\n\n"), started("section-1", "section"))
    after(progress, started("section-2", "section"))
    assert progress.ahead == ["… Milk"]
    after(progress, BranchDelta(branch_id="section-2", text="It is white."))
    assert progress.ahead == ["▸ Milk · 3 words"]
    after(progress, BranchFailed(branch=Branch(id="section-2", kind="section", status="failed")))
    assert progress.ahead == ["✗ Milk · 3 words"]


def test_nothing_is_ahead_of_points_and_of_what_turned_straight():
    progress = Progress("openai:gpt-5-mini", lambda: 0.0, blocks=False)
    after(progress, started("outline", "outline"), point(1))
    assert progress.ahead == []
    after(progress, BranchFinished(branch=Branch(id="outline", kind="outline")), started("plan", "plan"), point(2))
    assert progress.ahead == [". Tea"]
    after(progress, BranchFinished(branch=Branch(id="plan", kind="plan")), started("direct", "direct"))
    assert progress.ahead == []
