"""``--role``: further models by the names of their roles."""

import json

import pytest
from typer.testing import CliRunner

from stretto.cli.app import app
from stretto.cli.command_client import models_of
from stretto.values.errors import SettingsError

WHY = "Why do bees dance?"


def test_a_role_has_one_model():
    with pytest.raises(SettingsError, match=r"--role judge=openai:b: this role has a model already, openai:a"):
        models_of([("judge", "openai:a"), ("judge", "openai:b")])


def test_a_command_opens_the_models_of_its_roles():
    options = ["-s", "collaborate", "-m", "local:pocket", "--role", "other=local:pocket", "--json"]
    result = CliRunner().invoke(app, ["route", WHY, *options])
    assert json.loads(result.stdout)["strategy"] == "collaborate"


@pytest.mark.parametrize(("given", "said"), [("judge", "no ROLE=PROVIDER:MODEL"), ("judge=", "no ROLE=PROVIDER:MODEL")])
def test_what_is_no_role_is_named(stretto, given, said):
    result = stretto("ask", WHY, "--role", given)
    assert result.exit_code == 2
    assert said in result.stderr
