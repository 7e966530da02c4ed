"""What the batching benchmark and the soak write, from results made up here."""

from dataclasses import asdict

import pytest
from batching import OURS, Row, Run
from batching_report import ahead, batching_markdown, draw_batching, draw_soak, soak_markdown
from comparison.report import fill_block
from measuring import RESULTS
from memory import Slope
from soak import Report


def row(method, requests, seconds, first=0.1):
    answers = [[1, 2, 3]] * requests
    return asdict(Row.of(method, [Run([first] * requests, [seconds] * requests, 3 * requests, answers)], answers))


@pytest.fixture
def results():
    rows = [row("autoregressive", 2, 1.0), row("auto", 2, 2.0), row("peer", 2, 3.0), row("other peer", 2, 1.5, 0.05)]
    points = {"auto, one batch": {"median": 1.0, "least": 1.0, "most": 1.0}}
    about = {"machine": "a box", "model": "local:x", "dtype": "float32", "options": {"tokens": 3}}
    return {**about, "rows": rows, "points": points, "points_of_an_answer": 6}


@pytest.fixture
def soaked():
    slopes, at_rest, memory = (Slope(12.4, 3.0), Slope(0.4, 0.3)), [99.0, 99.25], [(-5, 2**20), (0, 2**21)]
    report = Report({"length": 9, "cancelled": 1}, 0, 0, 0, 5, 0, *slopes, (200.4, 201.0), at_rest, 300.0, 60.0, memory)
    return {"machine": "a box", "options": {"dtype": "float32"}, **asdict(report)}


def test_each_measure_is_compared_with_the_peer_that_is_best_in_it(results):
    own, auto = ahead(results["rows"])
    assert [entry["method"] for entry in (own, auto)] == list(OURS)
    assert (own["tokens_per_s"], own["end_median_s"]) == (pytest.approx(1.5), pytest.approx(1.5))
    assert own["first_median_s"] == pytest.approx(0.5)  # behind
    assert auto["tokens_per_s"] == pytest.approx(0.75)
    assert auto["over_autoregressive"] == pytest.approx(0.5)


def test_without_a_peer_nothing_is_said_about_one(results):
    own, _ = ahead([each for each in results["rows"] if not each["peer"]])
    assert set(own) == {"requests", "method", "over_autoregressive"}


def test_the_page_gets_both_blocks_each_in_its_place(results, soaked, tmp_path):
    page = tmp_path / "page.md"
    page.write_text((RESULTS / "batching.md").read_text(encoding="utf-8"), encoding="utf-8")
    fill_block(page, batching_markdown(results), "batching")
    fill_block(page, soak_markdown(soaked), "soak")
    first, second = page.read_text(encoding="utf-8").split("## A thousand requests")
    assert "| 2 | other peer | 1 | 4 | 1.500 | 1.500 | 0.050 | 1.00 |" in first
    assert "| 2 | autoregressive | 1.50 | 1.50 | 0.50 | 1.00 |" in first
    assert "| requests, by how they ended | 1 cancelled, 9 length |" in second
    assert "| process, bytes more per request | 12 ± 3 |" in second
    assert "| given out by malloc while nothing ran, MiB, before and after | 99.0, 99.2 |" in second


def test_where_malloc_does_not_tell_the_page_says_so(soaked):
    assert "before and after | not known |" in soak_markdown({**soaked, "at_rest_mib": []})


@pytest.mark.thorough
def test_the_plots_are_drawn(results, soaked, tmp_path):
    draw_batching(results, tmp_path / "batching")
    draw_soak(soaked, tmp_path / "soak")
    names = [f"{name}-{scheme}.png" for name in ("batching", "soak") for scheme in ("light", "dark")]
    assert all((tmp_path / name).stat().st_size > 5000 for name in names)
