from functools import partial

import anyio
import anyio.lowlevel
import pytest
from reader import FACTS, answer, answer_to, ask, haystack, scripted, text_of

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities, Measured
from stretto.backends.providers.openai import openai_counter
from stretto.backends.registry import open_backend
from stretto.strategies.document.document_reading import estimate, share_of, total_tokens
from stretto.strategies.document.library import DocumentCache
from stretto.strategies.document.sizes import sizes_of, useful_slots
from stretto.strategies.document.task import Task
from stretto.testing import Reply
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.values.document import Heading
from stretto.values.request import Request

pytestmark = pytest.mark.anyio


def chunk(total, *, left=None, preference="balanced", task=Task(), measured=None, **able):  # noqa: B008 - frozen
    able = {"context_window": 32_000, "concurrent_calls": 16} | able
    request = Request.of("What is it?", preference=preference)
    sizes = sizes_of(
        request,
        task,
        Capabilities(**able),
        model="m",
        overhead=500,
        closing=500,
        total=total,
        left=left or {},
        measured=measured,
    )
    return sizes.chunk


def test_a_document_is_spread_over_the_calls_that_run_side_by_side():
    assert chunk(32_000) == 2_000
    assert chunk(32_000, concurrent_calls=8) == 4_000


def test_a_passage_is_neither_too_short_to_be_worth_a_call_nor_too_long_to_be_read_with_care():
    assert chunk(1_000) == 400
    assert [chunk(10**6, preference=each) for each in ("fastest", "balanced", "careful")] == [16_000, 8_000, 3_000]


def test_a_model_that_reads_short_texts_only_gets_short_passages():
    assert chunk(100_000, passage_tokens=256) == 256
    assert chunk(100_000, passage_tokens=256, task=Task("extract")) == 256


def test_where_all_of_a_kind_is_wanted_passages_are_shorter():
    assert chunk(10**6, task=Task("extract")) == 4_000


def test_where_few_requests_are_left_passages_are_longer():
    assert chunk(32_000, left={"requests": 4.0}) == 8_000
    assert chunk(80_000, left={"requests": 4.0}) == 20_000


def test_where_few_tokens_are_left_the_instructions_are_sent_less_often():
    assert chunk(32_000, left={"tokens": 40_000.0}) == 8_000


def test_slots_of_a_local_model_count_as_far_as_a_forward_takes_them_for_nothing():
    measured = Measured(step_ms={1: 10.0, 8: 40.0})
    assert useful_slots(Capabilities(concurrent_calls=8), measured) == 2
    assert useful_slots(Capabilities(concurrent_calls=8)) == 8
    assert chunk(16_000, concurrent_calls=8, measured=measured) == 8_000


@pytest.mark.thorough
async def test_rate_limits_that_a_server_reports_make_passages_longer():
    few = {
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "1s",
    }
    document = haystack(100, FACTS)

    async def passages(headers):
        async with ScriptedServer(lambda received: HttpReply(answer_to(received.prompt)), headers=headers) as server:
            backend = open_backend("openai:scripted", base_url=server.openai_url, api_key="sk-test")
            async with AsyncStretto(backend) as stretto:
                await stretto.ask("Hello?", strategy="direct")
                found = await stretto.ask("What is the code of name3?", strategy="document", documents=[document])
            await backend.aclose()
        assert "1021" in found.text
        return len(found.passages)

    assert await passages(few) < await passages({})


def test_dense_text_is_told_by_its_figures_alone():
    assert share_of("Revenue 2021 1,204 2022 1,377 2023 1,502 costs 2021 903 2022 911 2023 950") == 0.5
    assert share_of("The committee met on 3 May and talked about the garden for a long while.") == 1.0


def test_estimates_are_rather_too_high_in_every_script():
    assert estimate("plain words") == 4
    assert estimate("größere Änderungen") == 8
    assert estimate("漢字" * 50) == 120


def test_a_long_text_is_counted_by_samples():
    counted = []

    def count(text):
        counted.append(len(text))
        return len(text) // 4

    assert total_tokens("abcd" * 1_000_000, count) == 1_000_000
    assert sum(counted) <= 200_000


def test_what_was_kept_is_not_made_again_and_the_oldest_goes_first():
    made = []
    cache = DocumentCache(most_characters=20)
    one, two, three = (Document(text=letter * 8) for letter in "abc")
    for document in (one, two, one, three, one, two):
        cache.keep(document, "chunks", lambda document=document: made.append(document.text[0]))
    assert made == ["a", "b", "c", "b"]


def test_the_same_text_with_other_headings_is_another_document():
    cache = DocumentCache()
    bare = Document(text="text")
    headed = Document(text="text", headings=(Heading(offset=0, level=1, text="text"),))
    assert [cache.keep(each, "chunks", lambda each=each: len(each.headings)) for each in (bare, headed)] == [0, 1]


class Counting:
    """A backend that counts exactly, and how much it counts."""

    def __init__(self):
        self.inner, self.counted = scripted(), 0
        self.name, self.capabilities = "counting:model", self.inner.capabilities
        self.stream, self.count_tokens, self.aclose = self.inner.stream, self.inner.count_tokens, self.inner.aclose

    async def text_counter(self):
        def count(text):
            self.counted += len(text)
            return len(text) // 3 + 1

        return count


async def test_a_second_question_finds_the_documents_counted_and_cut_and_its_prompts_begin_the_same():
    backend, document = Counting(), haystack(20, FACTS)
    async with AsyncStretto(backend) as stretto:
        how = {"strategy": "document", "documents": [document]}
        first = await stretto.ask("What is the code of name3?", **how)
        counted = backend.counted
        second = await stretto.ask("What, please, is the code of name5?", **how)
    assert [(each.start, each.end) for each in first.passages] == [(each.start, each.end) for each in second.passages]
    assert backend.counted - counted < len(document.text) / 4
    told = [text_of(prompt) for prompt, _ in backend.inner.calls if '"no_information"' in text_of(prompt)]
    half = len(told) // 2
    for before, after in zip(told[:half], told[half:], strict=True):
        assert before.partition("Question:")[0] == after.partition("Question:")[0]


async def test_a_shared_beginning_is_warmed_by_one_call_before_the_others_where_it_is_cached():
    arrived, go = anyio.Event(), anyio.Event()

    def script(prompt):
        first = not arrived.is_set()
        arrived.set()
        return Reply(answer(prompt), hold=go if first else None)

    backend = scripted(script, prompt_cache_minimum=300, concurrent_calls=8, context_window=4_000)
    system = "Be exact. " * 250
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask, backend, "What is the code of name3?", haystack(20, FACTS), system=system))
        await arrived.wait()
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert len(backend.calls) == 1
        go.set()
    prompts = [prompt for prompt, _ in backend.calls if '"no_information"' in text_of(prompt)]
    assert backend.most_running == 8
    assert len({prompt.prefix for prompt in prompts}) == 1
    assert system.strip() in prompts[0].prefix


async def test_without_a_cache_all_start_at_once():
    backend = scripted(concurrent_calls=8)
    await ask(backend, "What is the code of name3?", haystack(20, FACTS))
    assert backend.most_running == 8


def test_tokens_are_counted_by_tiktoken_only_where_its_encoding_is_on_disk(monkeypatch, tmp_path):
    pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert openai_counter("gpt-5-mini") is None
    assert openai_counter("a model that is not known") is None
