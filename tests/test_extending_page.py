"""The page on extending the library: its snippets run, and its tests pass."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
TESTS = [
    "test_the_line_server_keeps_the_contract",
    "test_both_sides_are_written",
    "test_each_call_is_told",
]

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def page():
    names = {"__name__": "extending"}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(snippet, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return names


@pytest.mark.parametrize("test", TESTS)
async def test_a_snippet_does_what_the_page_says(page, test):
    await page[test]()


def test_no_test_of_the_page_is_left_out(page):
    assert [name for name in page if name.startswith("test_")] == TESTS


def test_a_backend_and_a_strategy_take_some_thirty_lines():
    snippets = re.findall(r"^class .*?(?=```)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [len(snippet.strip().splitlines()) <= 40 for snippet in snippets] == [True, True]
