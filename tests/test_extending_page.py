"""The page on extending the library, and the examples in the contracts: they run, and do what is said of them."""

import doctest
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from anyio import BrokenResourceError, create_memory_object_stream
from anyio.streams.stapled import StapledObjectStream

import stretto
from stretto import AsyncStretto, extending
from stretto.extending import Backend, Strategy
from stretto.testing import ScriptedBackend, check_backend

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
TESTS = [
    "test_the_backend_keeps_the_contract",
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


async def test_the_server_of_the_page_bears_a_client_that_leaves(page):
    said, heard = create_memory_object_stream[bytes](1), create_memory_object_stream[bytes](1)
    await said[0].send(b"POST /generate HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
    await heard[1].aclose()
    with pytest.raises(BrokenResourceError):
        await heard[0].send(b"")
    await page["answer"](StapledObjectStream(heard[0], said[1]))
    await said[0].aclose()


def test_no_test_of_the_page_is_left_out(page):
    assert [name for name in page if name.startswith("test_")] == TESTS


def example(contract):
    """The class that the docstring of a contract shows."""
    names = {name: getattr(home, name) for home in (stretto, extending) for name in home.__all__}
    names |= {each.__name__: each for each in (AsyncGenerator, AsyncIterator, aclosing, asynccontextmanager)}
    (shown,) = doctest.DocTestParser().get_examples(contract.__doc__)
    found = {}
    exec(shown.source, names, found)  # noqa: S102 - our own docstring
    return next(iter(found.values()))


async def test_the_example_of_a_backend_keeps_its_contract():
    await check_backend(example(Backend)())


async def test_the_example_of_a_strategy_is_chosen_and_answers():
    backend = ScriptedBackend({"speaks for": "Honey.", "speaks against": "Stings."})
    async with AsyncStretto(backend, strategies=[example(Strategy)()]) as client:
        answer = await client.ask("What is there for and against bees?")
    assert answer.route.strategy == "both_sides"
    assert answer.text == "What speaks for it:\nHoney.What speaks against it:\nStings."
