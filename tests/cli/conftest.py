import sys

import pytest
from ports import reserved_port
from scripted import __file__ as scripted_program
from scripted import opening
from typer.testing import CliRunner

from stretto.cli.app import app
from stretto.cli.usage import spelled_out

ENVIRONMENT = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HF_TOKEN", "NO_COLOR")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No keys and no settings of whoever runs the tests."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("STRETTO_LOGS", str(tmp_path / "kept" / "answers.db"))
    monkeypatch.setenv("STRETTO_CHATS", str(tmp_path / "chats"))


@pytest.fixture
def stretto():
    """Runs a command in this process, on a model that follows a script."""

    def run(*arguments, script="A plain answer.", piped=None, **options):
        script = script if not isinstance(script, str) else {"": script}
        return CliRunner().invoke(
            app, spelled_out(arguments), input=piped, obj=opening(script, **options), prog_name="stretto"
        )

    return run


@pytest.fixture
def program():
    """The command line of the same as a separate program; the script as JSON."""
    return lambda script, *arguments: [sys.executable, scripted_program, script, *arguments]


@pytest.fixture
def unused_port():
    """A port of this machine where nothing listens."""
    with reserved_port() as port:
        yield port
