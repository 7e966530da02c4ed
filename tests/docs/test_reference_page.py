import re
import subprocess
import sys
from pathlib import Path

import pytest

import stretto
import stretto.testing.server

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference.md"


@pytest.mark.thorough
def test_the_reference_is_what_the_docstrings_say(tmp_path):
    written = tmp_path / "reference.md"
    subprocess.run([sys.executable, DOCS / "make_reference.py", written], check=True)
    assert written.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "Run: make docs"


def test_every_public_name_has_its_place_in_the_reference():
    headings = re.findall(r"^### `(\w+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in stretto.__all__ if headings.count(name) != 1] == [], "Run: make docs"


@pytest.mark.parametrize("module", [stretto.testing, stretto.testing.server])
def test_what_tests_of_applications_import_has_its_place_too(module):
    headings = re.findall(r"^### `(\w+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name in module.__all__ if headings.count(name) != 1] == [], "Run: make docs"


def test_every_field_in_the_reference_is_explained():
    entries = re.findall(
        r"^- `(\w+)`(?: <code>.*?</code>)?(?: = `.*?`)?:(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(entries) > 150
    assert [name for name, said in entries if not said.strip()] == []
