import re

from typer.testing import CliRunner

from stretto.cli.app import app
from stretto.values.route import Route


def test_a_person_reads_the_cause_the_shapes_and_the_forecast(stretto):
    result = stretto("route", "How do I look after a bicycle?")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.endswith(".")
    assert "Shape of the answer" in result.stdout
    assert "points" in result.stdout
    assert "Forecast" in result.stdout
    assert "(chosen)" in result.stdout


def test_a_program_reads_the_route(stretto):
    result = stretto("route", "How do I look after a bicycle?", "--json")
    route = Route.model_validate_json(result.stdout)
    assert route.reason
    assert sum(chance for name, chance in route.probabilities.items() if name != "skeleton") > 0.99


def test_a_family_of_prompts_can_be_named(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def routed(family):
        asked = ["route", "What are the advantages of tea?", "-m", "openai:gpt-5.4-mini", "--json"]
        return CliRunner().invoke(app, [*asked, "--prompt-family", family])

    forecasts = [Route.model_validate_json(routed(each).stdout).forecast["skeleton"] for each in ("general", "pocket")]
    assert forecasts[0] != forecasts[1]
    wrong = routed("smal")
    assert wrong.exit_code == 2
    assert "--prompt-family smal cannot be used: there are general, pocket, small." in wrong.stderr


def test_nothing_is_generated(stretto):
    opened = []
    stretto("route", "How do I look after a bicycle?", opened=opened)
    assert opened[0].calls == []
    assert opened[0].closed


def test_the_question_may_come_from_a_pipe(stretto):
    assert stretto("route", piped="Write a poem about the sea.\n").exit_code == 0
    assert stretto("route", piped="").exit_code == 2


def test_for_a_local_model_it_tells_the_decoding_and_that_its_gain_is_unknown(stretto):
    local = {"decodings": ("auto", "autoregressive", "suffix")}
    lines = stretto("route", "Implement a binary search in Python.", **local).stdout.splitlines()
    assert "Decoded with auto, for deep drafts: code repeats its own names and structure." in lines
    assert "The speed of auto is unknown: the model is not loaded yet." in lines
    asked = stretto("route", "Implement a binary search in Python.", "--decoding", "suffix", "--json", **local)
    assert Route.model_validate_json(asked.stdout).decoding == "suffix"
    hot = stretto("route", "Implement a binary search in Python.", "--temperature", "1.5", **local)
    assert "Decoded without drafts: at temperature 1.5" in hot.stdout


def test_an_unknown_decoding_is_an_error_with_the_names_of_all(stretto):
    result = stretto("route", "Why?", "--decoding", "turbo")
    assert result.exit_code == 2
    assert re.match(r"error: There is no decoding method 'turbo'\. Use one of: .*\bsuffix\b", result.stderr, re.DOTALL)


def test_documents_that_do_not_fit_are_read_in_passages(stretto, tmp_path):
    (tmp_path / "long.txt").write_text("word " * 20_000)
    result = stretto("route", "What is this?", "-d", str(tmp_path / "long.txt"), context_window=4_000)
    assert "document on scripted:model" in result.stdout
    assert "does not fit:" not in result.stdout


def test_it_says_when_the_prompt_does_not_fit(stretto):
    result = stretto("route", "What is this?", piped="word " * 2_000, context_window=1_000)
    assert result.stdout.startswith("The prompt does not fit: it has about 2,50")
    assert "scripted:model reads 1,000" in result.stdout
    assert "Forecast" not in result.stdout
    assert "does not fit" not in stretto("route", "Why?", piped="word " * 2_000, context_window=100_000).stdout


def test_the_pocket_model_is_forecast_no_prompt_that_it_refuses():
    result = CliRunner().invoke(app, ["route", "-m", "local:pocket"], input="word " * 180_000)
    assert result.stdout.startswith("The prompt does not fit: it has about 225,000 tokens, and local:pocket reads ")
