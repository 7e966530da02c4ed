"""No pattern of the package needs more than linear time, whatever text comes from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.thorough  # minutes of a processor


def run(*given):
    return subprocess.run([sys.executable, *given], cwd=HERE, capture_output=True, text=True, check=False)


@pytest.mark.timeout(1800)
def test_every_pattern_is_matched_in_linear_time_and_none_is_overlooked():
    """In a process of its own: patterns are seen as modules are imported. It takes a minute of an idle processor.

    Every call of `re` in the package is either seen when it is imported, or written out, or has an example.
    """
    found = run("measured.py")
    assert (found.stdout, found.returncode) == ("", 0), found.stdout + found.stderr[-2000:]


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"^ {0,3}(#{1,6})[ \t]+([^\n]*?)[ \t]*#*[ \t]*$", "finditer"),
        (r"\s+$", "search"),
        (r"(?:^|[.!?])\W*(?:(?:please|now)\W+)*translate", "search"),
        (r"^(?:'.*?'(?: / '.*?')*): (.*)$", "match"),
        (r"(\w+)=\"([^\"]*)\"", "finditer"),
        (r"[“«][^”»]{40,}[”»]", "search"),
        (r"\b(?:pk|rk)[-_](?=[\w.-]*\d)[\w.-]{8,}", "search"),
    ],
)
def test_one_that_is_not_would_be_found(pattern, method):
    code = (
        "import re, sys; from measured import measured\n"
        "print(*measured({(re.compile(sys.argv[1]), sys.argv[2]): 'here'}))"
    )
    assert run("-c", code, pattern, method).stdout.startswith("here: ")
