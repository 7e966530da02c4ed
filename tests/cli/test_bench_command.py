import json

import pytest

from stretto.cli.commands.bench import prompts_in, rendered
from stretto.local_engine.measuring.advice import advice
from stretto.local_engine.measuring.bench import Report, Row, Spread
from stretto.values.errors import InvalidRequestError


@pytest.mark.thorough
def test_it_measures_the_pocket_model_and_says_what_to_use(stretto, tmp_path):
    own = tmp_path / "prompts.txt"
    own.write_text("# kind: mine\nGive the plural of each word: cat, child, mouse, foot, tooth\n")
    result = stretto("bench", "local:pocket", "--prompts", str(own), "--tokens", "8", "--repeats", "1", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert {"auto", "autoregressive", "suffix"} <= {row["method"] for row in found["rows"]}
    assert {row["kind"] for row in found["rows"]} == {"mine"}
    assert found["advice"][0]["reason"].endswith(".")
    assert "draft_model" in found["left_out"]


def test_a_person_reads_a_table_for_each_kind_and_the_losing_methods_too():
    def row(method, ms):
        return Row("code", method, Spread(ms, ms - 1, ms + 1), Spread(20, 19, 21), 4 / ms, 2.5, 6.25, 96, method != "x")

    rows = (row("autoregressive", 4.0), row("x", 5.0), row("auto", 2.0))
    left_out = {"draft_model": "It needs a draft model."}
    report = Report("local:m", "bfloat16", False, "cpu", 2, 96, 3, 0.7, rows, left_out)
    lines = [line.plain for line in rendered(report, advice(report))]
    assert lines == [
        "local:m, bfloat16 on cpu, 2 threads; at most 96 tokens, temperature 0.7; "
        "medians of 3 repetitions (least-most)",
        "",
        "code, 96 tokens        ms a token  speed-up  tokens a step  rows a step    first token ms",
        "auto             2.00 (1.00-3.00)      2.00           2.50          6.2  20.0 (19.0-21.0)",
        "autoregressive   4.00 (3.00-5.00)      1.00           2.50          6.2  20.0 (19.0-21.0)",
        "x                5.00 (4.00-6.00)      0.80           2.50          6.2  20.0 (19.0-21.0)"
        "  other answers, slower",
        "",
        "Not measured",
        "draft_model  It needs a draft model.",
        "",
        "Use",
        "code  auto  too close to tell: 2.00 ms a token against 4.00 without drafts, 2.00 times as fast, with 2.50 "
        "tokens a step; the repetitions of both overlap, so measure again, with more repetitions, on a quiet machine.",
    ]


def test_prompts_are_read_with_their_kinds(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("# kind: code\ndef add(a, b):\n\n    return\n---\nWhy?\n---\n\n")
    assert [(prompt.kind, prompt.text) for prompt in prompts_in(file)] == [
        ("code", "def add(a, b):\n\n    return"),
        ("prompt", "Why?"),
    ]


@pytest.mark.parametrize(("content", "words"), [("---\n\n", "holds no prompt"), (b"\xff\xfe\x00", "not UTF-8")])
def test_a_file_without_prompts_is_one_error(tmp_path, content, words):
    file = tmp_path / "prompts.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidRequestError, match=words):
        prompts_in(file)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("openai:gpt",), "is no name of a local model"),
        (("local:./nowhere",), "There is no folder 'nowhere'"),
        (("local:pocket", "--prompts", "nowhere.txt"), "'nowhere.txt' cannot be read"),
        (("local:pocket", "--draft", "./nowhere"), "There is no folder 'nowhere'"),
    ],
)
def test_what_cannot_be_measured_is_one_error(stretto, arguments, words):
    result = stretto("bench", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert words in result.stderr
