from dataclasses import replace

import pytest
from tiny_models import WINDOW

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.measuring.advice import advice
from stretto.local_engine.measuring.bench import Report, Row, Spread, bench
from stretto.local_engine.measuring.bench_prompts import PROMPTS, BenchPrompt
from stretto.values.errors import ContextOverflowError

OIL = BenchPrompt("question", "The bicycle needs oil, air and a dry place. The bicycle needs")


def measured(model, **options):
    return bench(model, **{"prompts": [OIL], "tokens": 12, "repeats": 1} | options)


def test_every_method_that_can_run_is_measured_and_gives_the_same_answer(loaded):
    seen = []
    report = measured(loaded("llama"), progress=lambda *where: seen.append(where))
    rows = {row.method: row for row in report.rows}
    assert {"auto", "autoregressive", "lookahead", "suffix"} <= set(rows) <= set(DRAFTERS)
    assert "draft_model" in report.left_out
    assert all(row.same for row in report.rows)
    assert len({row.tokens for row in report.rows}) == 1
    assert (rows["autoregressive"].tokens_per_step, rows["autoregressive"].rows_per_step) == (1.0, 1.0)
    assert rows["autoregressive"].speed_up == 1.0
    assert all(row.ms_per_token.least > 0 and row.first_token_ms.least > 0 for row in report.rows)
    assert seen[-1] == (2 * len(rows), 2 * len(rows), "")
    assert [done for done, _, _ in seen] == list(range(2 * len(rows) + 1))


def test_a_draft_model_is_measured_too(loaded):
    report = measured(loaded("llama"), draft=loaded("llama"))
    row = next(row for row in report.rows if row.method == "draft_model")
    assert row.same
    assert row.tokens_per_step > 1


def test_a_prompt_over_the_window_is_one_error(loaded):
    with pytest.raises(ContextOverflowError, match=f"holds {WINDOW}"):
        measured(loaded("llama"), prompts=[replace(OIL, text="oil " * 400)])


def test_the_prompts_at_hand_are_of_four_kinds():
    assert [prompt.kind for prompt in PROMPTS] == ["code", "prose", "transformation", "question"]


def row(kind, method, ms, *, same=True, plain=4.0):
    spread = Spread(ms, ms * 0.99, ms * 1.01)
    return Row(kind, method, spread, spread, plain / ms, 4.0 / ms, 4.0, 96, same)


def report(*rows, exact=True):
    return Report("local:x", "float32", exact, "cpu", 1, 96, 3, 0.0, rows, {})


def methods(*rows, **options):
    return [each.method for each in advice(report(*rows, **options))]


def test_the_fastest_is_advised_with_its_figures():
    found = advice(report(row("code", "auto", 3.0), row("code", "autoregressive", 4.0), row("code", "suffix", 2.0)))
    assert [each.method for each in found] == ["suffix"]
    assert (
        found[0].reason == "2.00 ms a token against 4.00 without drafts, 2.00 times as fast, with 2.00 tokens a step."
    )


def test_auto_is_preferred_where_it_is_as_fast_as_the_fastest_within_the_noise():
    found = advice(report(row("code", "auto", 2.04), row("code", "autoregressive", 4.0), row("code", "suffix", 2.0)))
    assert found[0].method == "auto"
    assert "suffix was 2.0% faster" in found[0].reason


def test_without_a_gain_no_drafts_are_advised():
    rows = [row("prose", "auto", 4.2), row("prose", "autoregressive", 4.0), row("prose", "suffix", 3.95)]
    found = advice(report(*rows[:2], replace(rows[2], tokens_per_step=1.5)))
    assert found[0].method == "autoregressive"
    assert "suffix, was 1.01 times" in found[0].reason


def test_what_changes_the_answer_where_rounding_is_not_why_is_never_advised():
    rows = [row("code", "wild", 1.0, same=False), row("code", "suffix", 3.0), row("code", "autoregressive", 4.0)]
    assert methods(*rows) == ["suffix"]
    assert methods(*rows, exact=False) == ["wild"]


def test_one_method_for_every_kind_is_the_best_on_average():
    rows = [
        *(row("code", "auto", 2.0), row("code", "autoregressive", 4.0), row("code", "suffix", 1.0)),
        *(row("prose", "auto", 3.0), row("prose", "autoregressive", 4.0), row("prose", "suffix", 8.0)),
    ]
    found = advice(report(*rows))
    assert [(each.kind, each.method) for each in found] == [
        ("code", "suffix"),
        ("prose", "auto"),
        ("every kind", "auto"),
    ]
    assert all(f"{gain} times" in found[-1].reason for gain in (1.63, 1.33))


def test_a_model_that_says_nothing_leaves_nothing_to_measure():
    silent = replace(row("code", "autoregressive", 4.0), ms_per_token=None, speed_up=None)
    assert "nothing to measure" in advice(report(silent))[0].reason


def test_a_sampled_answer_is_the_same_under_every_method(loaded):
    report = measured(loaded("llama"), temperature=0.7)
    assert all(row.same for row in report.rows)


def test_a_method_that_gets_one_token_out_of_a_step_is_not_advised_whatever_the_clock_said():
    lucky = replace(row("code", "jacobi", 2.0), tokens_per_step=1.0)
    found = advice(report(lucky, row("code", "autoregressive", 4.0)))
    assert found[0].method == "autoregressive"
    assert found[0].reason.startswith("too close to tell: jacobi was 2.00 times")


def test_what_the_clock_says_of_a_method_without_drafts_is_how_far_it_is_off_for_the_others_too():
    lucky = replace(row("code", "auto", 2.65), tokens_per_step=1.0)
    found = advice(report(lucky, row("code", "autoregressive", 4.0), row("code", "lexical", 3.3)))
    assert found[0].method == "auto"  # it is at the top of the table, and lexical gained less than the clock is off by
    assert found[0].reason.startswith("too close to tell: auto was 1.51 times")


def test_where_the_repetitions_overlap_it_is_too_close_to_tell():
    wide = [
        replace(row("code", name, ms), ms_per_token=Spread(ms, ms - 0.5, ms + 0.5))
        for name, ms in (("auto", 2.4), ("autoregressive", 4.0), ("suffix", 2.0), ("jacobi", 3.4))
    ]
    (found,) = advice(report(*wide))
    assert found.method == "auto"
    assert found.reason.endswith("suffix was 20.0% faster, but does not adapt; too close to tell from suffix.")
    (found,) = advice(report(*wide[1:2], wide[3]))
    assert found.method == "jacobi"
    assert found.reason.startswith("too close to tell: 3.40 ms a token against 4.00 without drafts")


def test_one_repetition_counts_as_a_tenth_off():
    rows = (row("code", "autoregressive", 4.0), row("code", "suffix", 3.5))
    assert "too close" not in advice(report(*rows))[0].reason
    assert advice(replace(report(*rows), repeats=1))[0].reason.startswith("too close to tell")
