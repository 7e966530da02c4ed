"""What a client keeps of documents: how they were cut, for itself alone, no text, and nothing once it is closed."""

import gc

import pytest
from reader import FACTS, haystack, scripted

from stretto import AsyncStretto
from stretto.strategies.document.library import DocumentCache

pytestmark = pytest.mark.anyio
QUESTION = "What is the code of name3?"


class Counting:
    """A backend that counts how often it is asked for the tokens of a text."""

    def __init__(self):
        self.calls = 0
        self.backend = scripted()
        self.backend.text_counter = self.counter

    async def counter(self):
        return self.count

    def count(self, text):
        self.calls += 1
        return len(text) // 3

    def since(self):
        calls, self.calls = self.calls, 0
        return calls


def caches():
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is DocumentCache]  # isinstance would wake torch's proxies


def texts_in(value, seen):
    """All strings that can be reached from a value."""
    if id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    if isinstance(value, str):
        yield value
    for each in gc.get_referents(value):
        yield from texts_in(each, seen)


async def test_another_client_cuts_a_document_anew():
    counting, document = Counting(), haystack(20, FACTS)
    how = {"strategy": "document", "documents": [document]}
    async with AsyncStretto(counting.backend) as one, AsyncStretto(counting.backend) as other:
        await one.ask(QUESTION, **how)
        first = counting.since()
        await one.ask(QUESTION, **how)
        again = counting.since()
        await other.ask(QUESTION, **how)
    assert again < first // 2
    assert counting.since() == first


async def test_no_text_is_kept_and_nothing_after_the_client_is_closed():
    before = len(caches())
    async with AsyncStretto(scripted()) as stretto:
        await stretto.ask(QUESTION, strategy="document", documents=[haystack(20, FACTS)])
        assert len(caches()) == before + 1
        longest = max((len(text) for cache in caches() for text in texts_in(vars(cache), set())), default=0)
        assert longest < 200
    assert len(caches()) == before
