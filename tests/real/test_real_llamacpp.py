"""Stretto in front of llama.cpp's own server with eight slots: what a scripted server can only imitate."""

import json

import pytest

from stretto import AsyncStretto
from stretto.backends.providers.servers import LlamaCpp
from stretto.values.errors import BackendError, ContextOverflowError

pytestmark = pytest.mark.anyio

TEA = "What is tea made of? Answer in one sentence."
COUNTING = "Write the numbers from 1 to 900, one on each line."
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"type": "integer", "minimum": 0}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}


async def test_the_server_is_recognised_with_its_slots_and_the_window_of_one(llamacpp):
    backend = LlamaCpp("smollm2", base_url=llamacpp.base_url)
    await backend.ask_server(60.0)
    able = backend.capabilities
    await backend.aclose()
    assert (able.concurrent_calls, able.context_window) == (8, 2048)
    assert able.json_schema
    assert able.logprobs


async def test_a_straight_answer_is_what_the_server_says_itself(llamacpp):
    async with llamacpp.client() as stretto:
        answer = await stretto.ask(TEA, strategy="direct", max_tokens=40, temperature=0)
        again = await stretto.ask(TEA, strategy="direct", max_tokens=40, temperature=0)
    assert answer.text == again.text
    assert "leaves" in answer.text
    assert answer.usage.calls == 1
    assert answer.usage.completion_tokens <= 40


async def test_an_answer_that_is_left_frees_its_slot_at_once(llamacpp):
    """The server would write some 3,000 tokens; it stops within a few of those that the reader saw."""
    before = llamacpp.counted("tokens_predicted_total")
    async with llamacpp.client() as stretto:
        async with stretto.stream(COUNTING, strategy="direct", max_tokens=1800, temperature=0) as stream:
            async for _ in stream.text():
                break
        while llamacpp.busy_slots():
            pass  # bounded by the test's own time limit
    assert llamacpp.counted("tokens_predicted_total") - before < 300


async def test_leaving_an_answer_in_parts_frees_all_its_slots(llamacpp):
    before = llamacpp.counted("tokens_predicted_total")
    async with llamacpp.client() as stretto:
        samples = "Write 8 different long stories about a dog."
        async with stretto.stream(samples, strategy="items", max_tokens=1500) as stream:
            async for _ in stream.text():
                break
        while llamacpp.busy_slots():
            pass
    assert llamacpp.counted("tokens_predicted_total") - before < 1500


async def test_a_prompt_beyond_the_window_is_one_clear_error_and_one_call(llamacpp):
    async with llamacpp.client() as stretto:
        with pytest.raises(ContextOverflowError) as failed:
            await stretto.ask("tea " * 4000, strategy="direct")
    assert "2048" in str(failed.value).replace(",", "")
    assert "\n" not in str(failed.value)


async def test_json_is_held_to_its_schema_by_the_servers_grammar(llamacpp):
    async with llamacpp.client() as stretto:
        for animal in ("dog", "hen", "ant"):
            answer = await stretto.ask(
                f"How many legs has a {animal}?", response_format=SCHEMA, max_tokens=120, temperature=0.7, seed=3
            )
            assert set(json.loads(answer.text)) == {"name", "legs"}
            assert answer.parsed == json.loads(answer.text)


async def test_a_prompt_that_begins_alike_is_read_from_the_cache(llamacpp):
    begin = "You know all about the river Elbe and its towns. " * 12
    async with llamacpp.client() as stretto:
        await stretto.ask(f"{begin}Name one town.", strategy="direct", max_tokens=4)
        answer = await stretto.ask(f"{begin}Name another town.", strategy="direct", max_tokens=4)
    assert answer.usage.cached_tokens > 100
    assert answer.usage.cached_tokens < answer.usage.prompt_tokens


async def test_the_router_chooses_by_the_question_on_a_real_server_too(llamacpp):
    async with llamacpp.client() as stretto:
        whole = await stretto.route("Write a poem about the sea.")
        items = await stretto.route("Translate each of these words into French:\n- dog\n- cat\n- hen\n- ant\n- bee")
    assert whole.strategy == "direct"
    assert items.strategy == "items"
    assert items.forecast["items"].calls > 1


async def test_while_the_model_is_being_loaded_the_server_says_so_and_is_asked_again(own_llamacpp):
    """Without retries, each call before the model is loaded is refused: first nobody listens, then status 503."""
    refusals = []
    backend = LlamaCpp("smollm2", base_url=own_llamacpp.base_url)
    async with AsyncStretto(backend) as stretto:
        own_llamacpp.kill()
        with pytest.raises(BackendError):  # from here on, nothing has to be imported any more
            await stretto.ask(TEA, strategy="direct", max_tokens=10)
        own_llamacpp.start()
        while True:
            try:
                answer = await stretto.ask(TEA, strategy="direct", max_tokens=10)
                break
            except BackendError as error:
                refusals.append(error)
    assert answer.text
    assert any("503" in str(error) or "oading" in str(error) for error in refusals), refusals
    await backend.aclose()


async def test_a_server_that_is_killed_and_comes_back_answers_again(own_llamacpp):
    own_llamacpp.wait()
    async with own_llamacpp.client(attempts=1) as stretto:
        assert (await stretto.ask(TEA, strategy="direct", max_tokens=10)).text
        own_llamacpp.kill()
        with pytest.raises(BackendError) as failed:
            await stretto.ask(TEA, strategy="direct", max_tokens=10)
        assert own_llamacpp.url.partition("//")[2] in str(failed.value)
        own_llamacpp.start()
        own_llamacpp.wait()
        assert (await stretto.ask(TEA, strategy="direct", max_tokens=10)).text
