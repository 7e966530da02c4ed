import importlib
import sys
from pathlib import Path

import pytest

from stretto.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
make_cli = importlib.import_module("make_cli")


@pytest.mark.thorough
def test_the_page_in_the_documentation_is_what_the_program_says():
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == make_cli.reference(), "Run: make docs"


def test_every_command_is_on_the_page():
    named = {command.callback.__name__.rstrip("_") for command in app.registered_commands}
    assert named <= set(make_cli.COMMANDS)
