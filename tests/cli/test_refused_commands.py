"""Command lines that cannot be used: one line that names what was given, and an exit status."""

import pytest
from typer.testing import CliRunner

from stretto.cli.app import app


def test_a_document_that_is_not_there_is_named(stretto, tmp_path):
    result = stretto("ask", "What?", "-d", str(tmp_path / "gone.txt"))
    assert result.exit_code == 2
    assert "gone.txt" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_document_that_is_no_text_is_refused(stretto, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    result = stretto("ask", "What?", "-d", str(tmp_path / "picture.png"))
    assert result.exit_code == 2
    assert "neither UTF-8 text nor of a known format" in result.stderr


def test_an_unknown_strategy_is_one_line(stretto):
    result = stretto("ask", "-q", "Why?", "--strategy", "magic")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: There is no strategy 'magic'. Choose one of: auto, direct")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("file", "remedy"), [("none/out.html", "Make it first"), ("out.pdf", "Name such a file")])
def test_a_page_that_cannot_be_written_is_told_before_anything_is_asked(stretto, tmp_path, file, remedy):
    opened = []
    result = stretto("ask", "--trace", str(tmp_path / file), "Why?", opened=opened)
    assert result.exit_code == 2
    assert remedy in result.stderr.replace("\n", " ")
    assert not opened


def test_compare_has_nothing_to_compare_with_direct(stretto):
    result = stretto("ask", "Why?", "-s", "direct", "--compare")
    assert "Nothing to compare" in result.stderr
    assert "seconds in total" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--logprobs", "2"), "--logprobs 2 cannot be had from scripted:model"),
        (("--logprobs", "21"), "--logprobs 21 cannot be used"),
        (("--logprobs", "-1"), "--logprobs -1 cannot be used"),
    ],
)
def test_log_probabilities_that_cannot_be_had_are_one_line(stretto, options, said):
    result = stretto("ask", "-q", "Why?", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


def test_options_for_local_models_are_refused_for_others(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    options = ["--dtype", "float32", "--device", "cpu", "--threads", "1", "--no-compiled", "--long-context", "focus"]
    result = CliRunner().invoke(app, ["ask", "-m", "openai:any", *options, "Why?"], prog_name="stretto")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --dtype, --device, --threads, --no-compiled, --long-context: only for models that run in this process, "
        "local:..., and openai:any does not.\n"
    )


@pytest.mark.parametrize("options", [["--device", "toaster"], ["--dtype", "int8"]])
@pytest.mark.parametrize("command", [["ask", "-m", "local:pocket", "Why?"], ["bench", "-q", "local:pocket"]])
def test_a_device_or_number_type_that_does_not_exist_is_one_line(command, options):
    pytest.importorskip("torch")
    result = CliRunner().invoke(app, [*command, *options], prog_name="stretto")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {' '.join(options)} ")
    assert result.stderr.count("\n") == 1


def test_a_way_to_read_long_prompts_that_there_is_not_is_one_line():
    command = ["ask", "-q", "-m", "local:pocket", "--long-context", "far", "Why?"]
    result = CliRunner().invoke(app, command, prog_name="stretto")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --long-context far cannot be used. Use one of: 'auto', 'focus', 'refuse'")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-tokens", "0"), "--max-tokens 0 cannot be used"),
        (("--deadline", "-1"), "--deadline -1"),
        (("--temperature", "9"), "--temperature 9"),
    ],
)
def test_an_error_names_the_option_that_was_given(stretto, options, said):
    result = stretto("ask", "Why?", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [("--strategy", "magic"), ("--max-tokens", "0"), ("--logprobs", "3")])
def test_nothing_is_said_of_the_model_before_an_error(stretto, options):
    result = stretto("ask", "Why?", *options, name="local:pocket")
    assert result.exit_code == 2
    assert "demonstration" not in result.stderr


def test_a_missing_key_names_an_option_of_the_command_line(monkeypatch):
    monkeypatch.setenv("STRETTO_ATTEMPTS", "1")
    result = CliRunner().invoke(app, ["ask", "Why?", "-m", "openai:some-model"])
    assert result.exit_code == 4
    assert "--key-variable" in result.stderr
    assert "api_key" not in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-tokens", "many"), "--max-tokens many cannot be used: "),
        (("--max-tokens=many",), "--max-tokens many cannot be used: "),
        (("-p", "fast"), "--preference fast cannot be used: "),
        (("--threads", "99999"), "--threads 99999 cannot be used: "),
        (("--seed", ""), "--seed '' cannot be used: "),
        (("--document", ""), "--document '' cannot be used: it names no file. See stretto ask --help."),
        (("--document", "a.md", "--document", ""), "--document cannot be used: it names no file."),
        (("--trace=.",), "--trace . cannot be used: "),
        (("--max-tokens", f"sk-{'a1' * 12}"), "--max-tokens [hidden: it looks like a key] cannot be used: "),
        ((f"--max-tokens=sk-{'a1' * 12}",), "--max-tokens [hidden: it looks like a key] cannot be used: "),
        (("-p", f"sk-{'a1' * 12}"), "--preference [hidden: it looks like a key] cannot be used: it is not one of"),
        (("-p", f"sk-{'a1' * 12}", "-p", "x"), "--preference x cannot be used: it is not one of"),
        (("--temprature", "1"), "No such option: --temprature"),
        (("--max-tokens",), "Option '--max-tokens' requires an argument. See stretto ask --help."),
    ],
)
def test_a_command_line_that_cannot_be_used_is_one_line_with_the_value(stretto, options, said):
    result = stretto("ask", "Why?", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")
    assert result.stderr.count("\n") == 1
    assert "a1a1" not in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logs", "show", "x"), "NUMBER x cannot be used: "),
        (("logs", "show", f"sk-{'a1' * 12}"), "NUMBER [hidden: it looks like a key] cannot be used: "),
        (("prompts", "list", f"sk-{'a1' * 12}"), "Got unexpected extra argument"),
        ((f"sk-{'a1' * 12}",), "No such command '[hidden: it looks like a key]'."),
    ],
)
def test_an_argument_that_cannot_be_used_is_told_with_its_value_unless_it_may_be_a_key(stretto, words, said):
    result = stretto(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {said}")
    assert "a1a1" not in result.stderr


def test_an_unknown_command_is_one_line():
    result = CliRunner().invoke(app, ["aks", "Why?"], prog_name="stretto")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: No such command 'aks'.")
    assert result.stderr.endswith(" See stretto --help.\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("prompts",)])
def test_a_group_without_a_command_shows_its_help(words):
    result = CliRunner().invoke(app, words, prog_name="stretto")
    assert result.exit_code in {0, 2}
    assert "Commands:" in result.output
    assert "error:" not in result.output
