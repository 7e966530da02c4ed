"""Answers, routes and timelines as notebooks and pages show them."""

import html
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from stretto import Answer, Branch, Forecast, InvalidRequestError, Route, Span, Timeline, TimelinePlot, Usage
from stretto.display import show_in_notebooks
from stretto.display.notebook import answer_page, markdown_html, route_markdown

show_in_notebooks()

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
SVG = "{http://www.w3.org/2000/svg}"


def branch(number, times, **fields):
    needed_s, started_s, first_s, ended_s = times
    span = Span(needed_s=needed_s, started_s=started_s, first_s=first_s, ended_s=ended_s)
    return Branch(**{"id": f"point-{number}", "kind": "section", "heading": f"Point {number}", "span": span} | fields)


def answer(*branches, text="A **bold** answer.", **fields):
    timeline = Timeline(total_s=4.0, first_text_s=0.5, critical_path_s=3.5)
    route = Route(strategy="skeleton", backend="scripted:model", reason="Three points are asked for.")
    return Answer(**{"text": text, "route": route, "branches": branches, "timeline": timeline} | fields)


TEA = answer(
    branch(1, (0.0, 0.5, 1.0, 3.0), usage=Usage(completion_tokens=1200)),
    branch(2, (0.5, 0.5, 1.5, 4.0), status="failed", error="the server hung up"),
)


def bars(svg, phase):
    """Begin and end of the bars of a phase, as shares of the axis."""
    found = ElementTree.fromstring(svg).findall(f".//{SVG}rect[@class='{phase}']")[: len(TEA.branches)]  # noqa: S314 - our own
    width = 920 - 230 - 150
    edges = [(float(bar.get("x")) - 230, float(bar.get("width"))) for bar in found]
    return [(round(x / width, 2), round((x + wide) / width, 2)) for x, wide in edges]


def test_words_of_others_are_text_in_markdown():
    route = Route(strategy="direct", backend="x", reason="~~one~~ $two$ &lt;b> `three` [four](five)")
    assert f"<p><strong>direct</strong> on x: {html.escape(route.reason)}</p>\n" == markdown_html(route_markdown(route))
    assert r"\$two\$" in route_markdown(route)  # notebooks draw mathematics


def test_a_timeline_draws_when_each_branch_was_silent_and_when_it_wrote():
    svg = TimelinePlot(TEA).svg
    assert bars(svg, "silent") == [(0.12, 0.25), (0.12, 0.38)]
    assert bars(svg, "writing") == [(0.25, 0.75), (0.38, 1.0)]
    assert "1 Point 1" in svg
    assert "1,200 tokens" in svg
    assert svg.count('class="failed"') == 1
    assert "the server hung up" in svg


def test_a_part_that_ends_too_early_is_marked():
    cut = answer(branch(1, (0, 0, 1, 2), finish_reason="length"), branch(2, (0, 0, 1, 2), cut_by="loop"))
    whole = answer(branch(1, (0, 0, 1, 2)), branch(2, (0, 0, 1, 2), status="failed", finish_reason="length"))
    assert [[each.was_cut for each in found.branches] for found in (cut, whole)] == [[True, True], [False, False]]
    svgs = [TimelinePlot(found).svg for found in (cut, whole)]
    assert [(svg.count(">…<"), svg.count(", cut<")) for svg in svgs] == [(2, 2), (0, 0)]
    assert TimelinePlot(cut)._repr_markdown_().count(" (cut) |") == 2


def test_an_answer_read_from_json_still_draws_its_timeline():
    again = Answer.model_validate_json(TEA.model_dump_json())
    assert again == TEA
    assert TimelinePlot(again).svg == TimelinePlot(TEA).svg


def test_an_answer_without_branches_draws_its_totals():
    assert "total 4.00 s" in TimelinePlot(answer()).svg


@pytest.mark.thorough
def test_a_program_that_makes_clients_has_answers_that_notebooks_show():
    code = (
        "import stretto; answer = stretto.Answer(text='**Hm**', route=stretto.Route(strategy='direct'));"
        "before = answer._repr_html_(); stretto.AsyncStretto;"
        "print(before, '<strong>Hm</strong>' in answer._repr_html_(), answer._repr_markdown_())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "True", "**Hm**"]


def passages(count):
    return [
        branch(n, (0, 0, 1, 2), id=f"passage-{n}", kind="passage", status="failed" if n == 50 else "finished")
        for n in range(1, count + 1)
    ]


def test_many_passages_get_a_row_where_they_begin_and_end_and_where_they_failed():
    svg = TimelinePlot(answer(*passages(100))).svg
    drawn = [int(number) for number in re.findall(r">(\d+) Point \d+</text>", svg)]
    assert drawn == [*range(1, 21), 50, *range(81, 101)]
    assert "59 more passages" in svg


@pytest.mark.parametrize("show", [lambda it: TimelinePlot(it).svg, Answer._repr_html_, answer_page])
def test_what_a_model_wrote_is_text_wherever_it_is_shown(show):
    hostile = answer(
        branch(1, (0, 0, 1, 2), heading=HOSTILE, error=HOSTILE, status="failed"),
        text=f"{HOSTILE}\n\n![track](http://example.org/pixel.png)\n\n[x](javascript:alert(1))",
        warnings=(HOSTILE,),
        route=Route(strategy=HOSTILE, reason=HOSTILE, backend=HOSTILE),
    )
    shown = show(hostile)
    assert "<script" not in shown
    assert "<img" not in shown
    assert 'href="javascript' not in shown


def test_markdown_keeps_its_tables_and_shows_html_as_text():
    shown = markdown_html("| a | b |\n|---|---|\n| 1 | <b>2</b> |")
    assert "<table>" in shown
    assert "&lt;b&gt;2&lt;/b&gt;" in shown


def test_a_route_shows_its_cause_and_what_each_way_would_cost():
    route = Route(
        strategy="direct", reason="One | flow.", forecast={"direct": Forecast(seconds=2, tokens=1500, calls=1)}
    )
    assert "<td class=number>1,500</td>" in route._repr_html_()
    assert route_markdown(route) == (
        "**direct**: One \\| flow.\n\n"
        "| strategy | expected time | tokens | calls |\n|---|---:|---:|---:|\n| direct | 2.0 s | 1,500 | 1 |"
    )
    assert route._repr_markdown_() == route_markdown(route)


def test_a_timeline_is_a_table_where_there_are_no_pictures():
    plot = TimelinePlot(answer(branch(1, (0, 0.5, 1, 2), heading=HOSTILE, status="failed")))
    totals, *table = plot._repr_markdown_().splitlines()
    assert totals.startswith("first text ")
    assert table[-1].endswith(" (failed) | 0.00 s | 0.50 s | 1.00 s | 2.00 s |")
    assert "<script" not in markdown_html("\n".join(table))
    assert len(re.findall(r"(?<!\\)\|", table[-1])) == 6
    assert "59 more passages" in TimelinePlot(answer(*passages(100)))._repr_markdown_()


def test_a_plot_is_saved_as_a_picture_or_a_page(tmp_path):
    plot = TimelinePlot(TEA)
    assert plot.save(tmp_path / "tea.svg").read_text() == plot.svg
    page = plot.save(str(tmp_path / "tea.html")).read_text()
    assert page.startswith("<!doctype html>")
    assert plot.svg in page
    with pytest.raises(InvalidRequestError, match=r"\.svg or \.html"):
        plot.save(tmp_path / "tea.png")


def test_a_page_loads_nothing_and_runs_no_script():
    shown = answer_page(TEA, "How do I make tea?")
    assert "default-src 'none'" in shown
    assert not re.search(r"<script|<link|src=|@import|url\(", shown)
    assert "How do I make tea?" in shown
