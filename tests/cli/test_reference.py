from pathlib import Path

import pytest

from stretto.cli.app import app
from stretto.cli.reference import COMMANDS, reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.thorough
def test_the_page_in_the_documentation_is_what_the_program_says():
    assert PAGE.read_text(encoding="utf-8") == reference(), "Run: make docs"


def test_every_command_is_on_the_page():
    named = {command.callback.__name__.rstrip("_") for command in app.registered_commands}
    assert named <= set(COMMANDS)
