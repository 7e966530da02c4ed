"""No pattern of the package needs more than linear time, whatever text comes from outside."""

import json
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


SLOW = [
    (r"^ {0,3}(#{1,6})[ \t]+([^\n]*?)[ \t]*#*[ \t]*$", "finditer"),
    (r"\s+$", "search"),
    (r"(?:^|[.!?])\W*(?:(?:please|now)\W+)*translate", "search"),
    (r"^(?:'.*?'(?: / '.*?')*): (.*)$", "match"),
    (r"(\w+)=\"([^\"]*)\"", "finditer"),
    (r"[“«][^”»]{40,}[”»]", "search"),
    (r"\b(?:pk|rk)[-_](?=[\w.-]*\d)[\w.-]{8,}", "search"),
]


@pytest.mark.timeout(600)
def test_those_that_are_not_would_be_found():
    code = (
        "import json, re, sys; from measured import measured\n"
        "slow = {(re.compile(each), way): str(number) for number, (each, way) in enumerate(json.loads(sys.argv[1]))}\n"
        "print(*measured(slow), sep='\\n')"
    )
    found = run("-c", code, json.dumps(SLOW))
    assert [line.partition(":")[0] for line in found.stdout.splitlines()] == [*map(str, range(len(SLOW)))], found.stderr
