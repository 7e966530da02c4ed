from rich.cells import cell_len

from stretto.cli.output.trace import render_timeline
from stretto.values.answer import Answer, Branch, Span, Timeline, Usage
from stretto.values.route import Route
from stretto.values.token_records import DecodingStats


def branch(name, times, *, title="", tokens=0, failed=False):
    needed_s, started_s, first_s, ended_s = times
    return Branch(
        id=name,
        kind="section" if title else "outline",
        heading=title,
        status="failed" if failed else "finished",
        span=Span(needed_s=needed_s, started_s=started_s, first_s=first_s, ended_s=ended_s),
        usage=Usage(completion_tokens=tokens),
    )


def answer(*branches, total_s, first_text_s=None, critical_path_s=0.0):
    timeline = Timeline(total_s=total_s, first_text_s=first_text_s, critical_path_s=critical_path_s)
    return Answer(text="", route=Route(strategy="skeleton"), branches=branches, timeline=timeline)


def drawn(*arguments, **options):
    return [line.plain.rstrip() for line in render_timeline(*arguments, **options)]


TEA = answer(
    branch("outline", (0.0, 0.0, 0.5, 1.0), tokens=20),
    branch("point-1", (0.75, 0.75, 1.25, 3.0), title="Water", tokens=60),
    branch("point-2", (1.0, 1.5, 2.0, 4.0), title="Leaves", tokens=1200),
    total_s=4.0,
    first_text_s=1.25,
    critical_path_s=3.5,
)


def test_a_row_for_each_branch_over_the_seconds_of_the_answer():
    assert drawn(TEA, 80) == [
        "         0 s           1            2            3                  time  tokens",
        "outline  ░░░░░░░███████                                           1.00 s      20",
        "1 Water            ░░░░░░░███████████████████████                 2.25 s      60",
        "2 Leaves               ······░░░░░░░███████████████████████████   3.00 s   1,200",
        "·· next in line  ░░ waiting for the first word  ██ being written",
        "first text 1.25 s · total 4.00 s · critical path 3.50 s",
    ]


def test_a_call_for_several_points_has_no_row_beside_those_of_its_points():
    times = (1.0, 1.0, 2.0, 3.0)
    shared = branch("points-1-2", times, title="Points 1-2", tokens=80).model_copy(update={"kind": "sections"})
    points = [branch(f"point-{at}", times, title=title) for at, title in enumerate(("Water", "Leaves"), 1)]
    points = [point.model_copy(update={"text": "Hot."}) for point in points]
    lines = drawn(answer(shared, *points, total_s=4.0), 60)
    rows = [line.split() for line in lines[1:3]]
    assert [row[1] for row in rows] == ["Water", "Leaves"]
    assert [row[-2:] for row in rows] == [["2.00", "s"]] * 2  # their tokens are those of the call
    assert lines[3] == "1 call for several sections: 80 tokens"


def test_ascii_is_enough():
    assert drawn(TEA, 60, blocks=False) == [
        "         0 s              2                     time  tokens",
        "outline  ----####                             1.00 s      20",
        "1 Water        -----###############           2.25 s      60",
        "2 Leaves         .....----#################   3.00 s   1,200",
        ".. next in line  -- waiting for the first word",
        "## being written",
        "first text 1.25 s | total 4.00 s | critical path 3.50 s",
    ]


def test_a_narrow_terminal_has_room_for_names_and_all_of_the_legend():
    assert drawn(TEA, 40) == [
        "         0 s                        time",
        "outline  ░░░███                   1.00 s",
        "1 Water      ░░░█████████         2.25 s",
        "2 Leaves       ··░░░███████████   3.00 s",
        "·· next in line",
        "░░ waiting for the first word",
        "██ being written",
        "first text 1.25 s · total 4.00 s · critical path 3.50 s",
    ]


def test_a_branch_that_was_cut_ends_in_dots():
    part = branch("point-1", (0.0, 0.0, None, 2.0), title="Water").model_copy(update={"cut_by": "loop"})
    lines = drawn(answer(part, total_s=4.0), 60)
    assert "░…  " in lines[1]
    assert "… cut" in lines[3]


def test_a_failed_branch_ends_in_a_cross():
    lines = drawn(answer(branch("point-1", (0.0, 0.0, None, 2.0), title="Water", failed=True), total_s=4.0), 60)
    assert "░×" in lines[1]
    assert "× failed or dropped" in lines[3]


def test_a_branch_that_never_started_only_waits():
    lines = drawn(answer(branch("point-1", (1.0, None, None, 2.0), title="Water", failed=True), total_s=2.0), 60)
    assert "·×" in lines[1]
    assert "░" not in lines[1]


def test_a_branch_that_wrote_at_once_is_still_seen():
    lines = drawn(answer(branch("direct", (0.0, 0.0, 9.999, 10.0)), total_s=10.0), 60)
    assert "█" in lines[1]


def test_no_line_is_wider_than_asked_whatever_the_titles():
    wide = answer(
        branch("point-1", (0.0, 0.0, 0.1, 1.0), title="自転車の手入れについて詳しく説明します"),
        branch("point-2", (0.0, 0.0, 0.1, 1.0), title="A very long title that goes on and on and on"),
        branch("point-3", (0.0, 0.0, 0.1, 1.0), title="Red\x1b[31m\ntitle"),
        total_s=1.0,
    )
    for width in (50, 80, 132):
        rows = [line.plain for line in render_timeline(wide, width)][1:4]
        assert {cell_len(row) for row in rows} == {width}
    assert "…" in rows[1]
    assert "\x1b" not in rows[2]


def test_an_answer_without_branches_says_so():
    assert drawn(answer(total_s=0.0), 80) == ["Nothing ran."]


def test_below_the_answer_of_a_local_model_stands_how_it_was_decoded():
    decoding = DecodingStats(
        methods=("auto",),
        steps=1200,
        rows=6000,
        tokens=3000,
        drafted={"suffix": 3800, "drafter_of_a_plugin": 1000},
        accepted={"suffix": 950, "drafter_of_a_plugin": 850},
    )
    lines = drawn(TEA.model_copy(update={"decoding": decoding}), 80)[-3:]
    assert lines == [
        "decoding auto · 1,200 steps · 2.50 tokens a step · 5.0 rows a step",
        "suffix 25% of 3,800 drafted accepted",
        "drafter_of_a_plugin 85% of 1,000 drafted accepted",
    ]
    plain = TEA.model_copy(update={"decoding": DecodingStats(methods=("autoregressive",), steps=9, rows=9, tokens=9)})
    assert drawn(plain, 80)[-1] == "decoding autoregressive · 9 steps · 1.00 tokens a step · 1.0 rows a step"


def test_calls_of_a_local_model_have_a_row_each_for_what_they_waited_for():
    reached = {"loaded_s": 3.0, "prepared_s": 3.25, "submitted_s": 3.25, "admitted_s": 3.5, "prompt_read_s": 3.75}
    whole = Span(needed_s=0, started_s=0.5, **reached, first_token_s=3.75, first_s=4.0, ended_s=5.0)
    queued = Span(needed_s=1.0, started_s=1.0, loaded_s=1.0, prepared_s=1.0, submitted_s=1.0, ended_s=3.0)
    branches = [branch("outline", (0, 0, 1, 2)), branch("point-1", (0, 0, 1, 2), title="Water")]
    branches = [each.model_copy(update={"span": span}) for each, span in zip(branches, (whole, queued), strict=True)]
    assert drawn(answer(*branches, total_s=5.0), 90)[-3:] == [
        "before the first text, in s  turn  load  prepare  queue  prompt  token  text",
        "outline                      0.50  2.50     0.25   0.25    0.25   0.00  0.25",
        "1 Water                      0.00  0.00     0.00   2.00       -      -     -",
    ]
