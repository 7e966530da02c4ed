"""What stays of an answer that ended too early: every part once, whatever the form made of it."""

import json
from pathlib import Path

import pytest

from stretto.cli.terminal.unwritten import with_unwritten

# Of text, pairs of title and part, and the whole. The web chat does the same: its test in a browser reads them too.
CASES = json.loads(Path(__file__).with_name("unwritten_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("text", "parts", "whole"), CASES)
def test_a_part_is_looked_for_as_a_whole_behind_the_one_before_it(text, parts, whole):
    assert with_unwritten(text, parts) == whole
