"""The search that skips passages needs memory for the words of a text, not for each time they stand in it."""

import tracemalloc

import bm25s  # noqa: F401 - imported by the search, it would count as memory of this one
import pytest
from reader import ask, record, scripted

from stretto import Document
from stretto.strategies.document import strategy

pytestmark = pytest.mark.anyio

TEXT = "\n\n".join(f"paragraph{number % 400} " + "river stone garden winter " * 12 for number in range(3_000))


async def test_a_word_that_stands_there_often_is_kept_once(monkeypatch):
    peaks = []
    search = strategy.relevant

    def measured(reading, places):
        tracemalloc.start()
        found = search(reading, places)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return found

    monkeypatch.setattr(strategy, "relevant", measured)
    backend = scripted(lambda _: record({"no_information": True}), context_window=16_000, concurrent_calls=1)
    found = await ask(backend, "What is in paragraph17?", Document(text=TEXT), preference="fastest")
    assert any(each.status == "skipped" for each in found.passages)
    assert peaks[0] < 15 * len(TEXT)
