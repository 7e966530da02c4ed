import json

import decoding
import pytest
from comparison import figures, report
from comparison.run import Run
from comparison.workloads import workloads
from measuring import Spread
from transformers import AutoTokenizer

from stretto.local_engine.pocket import pocket_folder


def answer(tokens, first_s, last_s, steps, rows):
    """A run whose first token comes alone and whose others come at the end."""
    return Run(tokens, [(first_s, 1), (last_s, len(tokens) - 1)], steps, rows)


@pytest.fixture
def summary():
    plain = list(range(11))
    runs = {
        "transformers": [[answer(plain, 0.5, 1.5, 10, 10)], [answer(plain, 0.5, 2.5, 10, 10)]],
        "hf prompt lookup": [[answer(plain, 0.5, 1.0, 5, 25)], [answer(plain, 0.5, 1.5, 5, 25)]],
        "autoregressive": [[answer(plain, 0.1, 0.6, 10, 10)], [answer(plain, 0.3, 1.3, 10, 10)]],
        "auto": [[answer(plain, 0.1, 0.3, 4, 20)], [answer([*plain[:-1], 0], 0.1, 0.6, 4, 24)]],
    }
    peers = {name: name not in {"auto", "autoregressive"} for name in runs}
    found = figures.summarise("code", 0.0, runs, peers, plain_peer="transformers", peak_mb={"auto": 12.0})
    return {each.method: each for each in found}


def test_time_per_token_leaves_out_the_first_token_and_is_told_with_its_spread(summary):
    assert summary["transformers"].ms_per_token == Spread(150.0, 100.0, 200.0)
    assert summary["transformers"].first_ms == Spread(500.0, 500.0, 500.0)


def test_steps_and_rows_are_those_after_the_prompt(summary):
    assert summary["auto"].tokens_per_step == 20 / 8
    assert summary["auto"].rows_per_step == 44 / 8


def test_speed_ups_are_those_within_a_repetition(summary):
    auto = summary["auto"]
    assert (auto.over_greedy.least, auto.over_greedy.most) == (pytest.approx(4.0), pytest.approx(5.0))
    assert (auto.over_autoregressive.least, auto.over_autoregressive.most) == (pytest.approx(2.0), pytest.approx(2.5))


def test_the_best_peer_is_the_one_with_the_lowest_median(summary):
    best = summary["auto"].over_best_peer
    assert (best.least, best.most) == (pytest.approx(2.0), pytest.approx(2.5))
    assert summary["hf prompt lookup"].over_best_peer.median == 1.0


def test_answers_are_compared_with_those_of_one_token_at_a_time(summary):
    assert (summary["auto"].same, summary["auto"].answers) == (1, 2)
    assert summary["transformers"].same == 2
    assert summary["autoregressive"].same is None


def test_what_peers_drew_at_random_is_not_compared():
    runs = {"autoregressive": [[answer([1, 2], 0, 1, 1, 1)]], "transformers": [[answer([3, 4], 0, 1, 1, 1)]]}
    peers = {"autoregressive": False, "transformers": True}
    found = figures.summarise("code", 0.7, runs, peers, plain_peer="transformers", peak_mb={})
    assert [each.same for each in found] == [None, None]


def test_bars_say_which_aims_were_met(summary):
    found = {bar.name: bar for bar in figures.bars(list(summary.values()))}
    assert found["auto over the best peer: code, greedy"].met
    assert found["auto over transformers: code, greedy"].met
    tokens = found["auto's tokens a step over the best peer's: code, greedy"]
    assert (tokens.measured, tokens.met) == (1.25, False)
    assert not figures.floor_bar(1.3).met
    assert figures.floor_bar(1.2).met


def test_a_loop_has_few_distinct_4_grams():
    assert figures.distinct([[1, 2] * 10]) == 2 / 17
    assert figures.distinct([list(range(20)), list(range(20))]) == 1.0
    assert figures.distinct([[1]]) == 0.0


def test_lossless_methods_that_differ_where_they_must_not_are_named():
    row = {"method": "auto", "workload": "code", "temperature": 0.0, "peer": False, "same": 1, "answers": 2}
    assert decoding.broken([row], exact=True) == ["auto (code, temperature 0.0): 1 of 2"]
    assert decoding.broken([row], exact=False) == []
    assert decoding.broken([row | {"peer": True}, row | {"same": 2}, row | {"same": None}], exact=True) == []


def results(rows, bars=()):
    return {
        "machine": "a machine", "model": "local:pocket", "dtype": "float32", "versions": {"torch": "2"},
        "notes": ["A note."], "rows": rows, "larger": None, "bars": list(bars),
    }  # fmt: skip


def test_the_figures_are_written_between_the_marks_of_the_page_and_nowhere_else(summary, tmp_path):
    rows = [decoding._plain(each) for each in summary.values()]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report._BEGIN}\nold\n{report._END}\nafter\n")
    text = report.markdown(
        results(rows, [{"name": "a bar", "aim": 1.0, "measured": 2.0, "at_most": False, "met": True}])
    )
    report.fill_block(page, text)
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "old" not in written
    assert "| auto | 2.50 | 5.5 |" in written
    assert "| a bar | >= 1.00 | 2.00 | met |" in written
    report.fill_block(page, text)
    assert page.read_text() == written


@pytest.mark.thorough
def test_the_plot_is_drawn_from_the_figures_as_they_are_kept(summary, tmp_path):
    file = tmp_path / "plot"
    report.draw(results([decoding._plain(each) for each in summary.values()]), file)
    assert (tmp_path / "plot-dark.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_a_method_that_is_not_there_is_named_with_those_that_are(capsys):
    chosen = ["--model", "local:pocket", "--workload", "code", "--only", "telepathy"]
    assert decoding.main(["--quick", "--no-compile", *chosen]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "no method 'telepathy'" in shown
    assert "hf prompt lookup" in shown


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="no place for figures"):
        report.fill_block(page, "text")


@pytest.mark.parametrize("name", [decoding.named(model, "float32") for model in decoding.MODELS])
def test_the_pages_of_the_documentation_have_the_marks(name):
    page = (decoding.RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert report._BEGIN in page
    assert report._END in page


def test_a_part_takes_the_place_of_its_workloads_in_the_kept_figures(summary):
    rows = [decoding._plain(each) for each in summary.values()]
    bar = {"name": "auto over transformers: code, greedy", "aim": 1.0, "measured": 2.0, "at_most": False, "met": True}
    others = [row | {"workload": "questions"} for row in rows]
    part = results([row | {"tokens": 1} for row in rows], [bar | {"measured": 3.0}])
    found = decoding.joined(results([*others, *rows], [bar]) | {"larger": "kept"}, part)
    assert found["rows"] == [*part["rows"], *others]
    assert (found["bars"], found["larger"]) == (part["bars"], "kept")


def test_workloads_are_prompts_of_token_ids():
    tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
    made = workloads(tokenizer, 2)
    assert [each.name for each in made] == ["code", "questions", "transformations"]
    assert all(len(each.prompts) == 2 and all(prompt for prompt in each.prompts) for each in made)


@pytest.mark.thorough
def test_a_small_run_compares_ours_with_a_peer_token_for_token(capsys):
    chosen = ["--model", "local:pocket", "--only", "autoregressive", "suffix", "transformers", "hf prompt lookup"]
    options = ["--quick", "--dtype", "float32", "--workload", "transformations", "--tokens", "6", "--no-compile"]
    assert decoding.main([*options, *chosen]) == 0
    shown = capsys.readouterr().out
    assert "transformations, greedy" in shown
    assert "transformations, temperature 0.7" in shown


@pytest.mark.thorough
def test_the_results_of_a_small_run_are_json_and_ours_are_exact():
    options = decoding.arguments(
        ["--quick", "--dtype", "float32", "--workload", "code", "--tokens", "6", "--no-compile",
         "--only", "autoregressive", "auto", "lexical", "transformers"]
    )  # fmt: skip
    options.turns = 2
    found = json.loads(json.dumps(decoding.measure(options)))
    greedy = {row["method"]: row for row in found["rows"] if row["temperature"] == 0}
    assert greedy["auto"]["same"] == greedy["auto"]["answers"] == 2
    assert greedy["lexical"]["same"] == 2  # with the adapter that stands beside the weights
    assert greedy["transformers"]["same"] == 1
    assert greedy["transformers"]["tokens_per_step"] == 1.0
    assert greedy["auto"]["over_greedy"]["median"] > 0
