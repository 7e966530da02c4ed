"""A model in this process as a backend: what it answers, what it counts, who waits for whom."""

import json
import re
import sys
import threading
import time
from dataclasses import astuple

import anyio
import anyio.lowlevel
import pytest
import warm
from patience import patience
from saved_models import collect, opened, prompt, save, text_of

from stretto.backends.base import Backend, ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.choosing.constraint import Grammars
from stretto.local_engine.drafting.catalogue import DRAFTERS, all_drafters
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.research.lexical import pads as pad_file
from stretto.local_engine.text.chat_template import ChatTemplate
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, ContextOverflowError, InvalidRequestError
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory):
    """A model that never ends by itself."""
    return save(tmp_path_factory.mktemp("wide"), window=10**7, end=None)


async def test_it_streams_text_and_ends_with_the_account(folder):
    async with opened(folder) as backend:
        assert isinstance(backend, Backend)
        chunks = await collect(backend, max_tokens=40)
        count = await backend.count_tokens(prompt("How do I oil a chain?"))
    assert text_of(chunks)
    assert all(chunk.finish_reason is None for chunk in chunks[:-1])
    assert chunks[-1].finish_reason == "length"
    assert chunks[-1].usage == Usage(prompt_tokens=count, completion_tokens=40, calls=1)
    assert count == len(b"How do I oil a chain?")


async def test_calls_sent_together_share_their_beginning_and_get_what_each_gets_alone(folder):
    questions = [f"{'A long introduction. ' * 8}Point {letter}" for letter in "abcdefg"]
    async with opened(folder, prefix_cache_bytes=0) as backend:
        alone = [text_of(await collect(backend, question, max_tokens=20)) for question in questions]
        together = [[] for _ in questions]

        async def ask(place):
            together[place] = await collect(backend, questions[place], max_tokens=20)

        async with anyio.create_task_group() as group:
            for place in range(len(questions)):
                group.start_soon(ask, place)
    assert [text_of(chunks) for chunks in together] == alone
    assert len(set(alone)) > 1
    # On a machine too busy to send them within milliseconds they make two batches, each with its own first.
    cached = [chunks[-1].usage.cached_tokens for chunks in together]
    assert set(cached) == {0, len("A long introduction. " * 8 + "Point ")}


@pytest.mark.thorough
async def test_the_next_turn_of_a_chat_starts_from_the_turn_before_and_says_the_same(folder):
    async def chat(backend):
        first = await collect(backend, "How do I oil a chain?", max_tokens=20)
        turns = (("user", "How do I oil a chain?"), ("assistant", text_of(first)), ("user", "And then?"))
        messages = tuple(Message(role=role, content=content) for role, content in turns)
        async with backend.stream(ModelRequest(messages=messages), GenerationOptions(max_tokens=20)) as chunks:
            second = [chunk async for chunk in chunks]
        return text_of(first), text_of(second), second[-1].usage.cached_tokens

    async with opened(folder) as keeping, opened(folder, prefix_cache_bytes=0) as forgetful:
        *said, reused = await chat(keeping)
        assert [*said, 0] == list(await chat(forgetful))
    assert reused >= len(b"How do I oil a chain?")


async def test_how_tokens_were_found_is_forgotten(folder):
    async with opened(folder) as backend:
        await collect(backend, max_tokens=10)
        assert backend.measured().decodings
        backend.forget_learned()
        assert not backend.measured().decodings


async def test_a_seed_repeats_a_sampled_answer(folder):
    async with opened(folder) as backend:
        first, again, other = [
            text_of(await collect(backend, max_tokens=30, temperature=1.0, top_p=0.9, seed=seed)) for seed in (1, 1, 2)
        ]
    assert first == again != other


async def test_a_stop_text_ends_the_answer_before_itself(folder):
    async with opened(folder) as backend:
        whole = text_of(await collect(backend, max_tokens=60, temperature=1.0, seed=1))
        stop = whole[12:15]
        chunks = await collect(backend, max_tokens=60, temperature=1.0, seed=1, stop=stop)
    assert text_of(chunks) == whole[: whole.index(stop)]
    assert chunks[-1].finish_reason == "stop"


async def test_leaving_early_frees_the_engine_for_the_next_call(wide_folder):
    async with opened(wide_folder) as backend:
        expected = text_of(await collect(backend, max_tokens=20))
        async with backend.stream(prompt("Tell all."), GenerationOptions(max_tokens=10**6)) as chunks:
            async for _ in chunks:
                break
        assert text_of(await collect(backend, max_tokens=20)) == expected


async def test_a_cancelled_caller_leaves_and_the_others_go_on(wide_folder):
    async with opened(wide_folder) as backend:
        expected = text_of(await collect(backend, max_tokens=60))
        finished = []

        async def other():
            finished.append(text_of(await collect(backend, max_tokens=60)))

        async with anyio.create_task_group() as outer:
            outer.start_soon(other)
            with anyio.CancelScope() as scope:
                async with backend.stream(prompt("Tell all."), GenerationOptions(max_tokens=10**6)) as chunks:
                    async for _ in chunks:
                        scope.cancel()
            assert scope.cancelled_caught
    assert finished == [expected]


async def test_closing_leaves_no_thread_and_ends_running_calls(wide_folder):
    before = set(threading.enumerate())
    backend = LocalBackend(f"local:{wide_folder}", dtype="float32", device="cpu")
    async with backend.stream(prompt("Tell all."), GenerationOptions(max_tokens=10**6)) as chunks:
        await anext(chunks)
        await backend.aclose()
        with pytest.raises(BackendError, match="closed while it generated"):
            async for _ in chunks:
                pass
    await backend.aclose()
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile
    with pytest.raises(BackendError, match="is closed"):
        await collect(backend)


async def test_a_long_prompt_is_counted_exactly(folder):
    async with opened(folder) as backend:
        assert await backend.count_tokens(prompt("x" * 30_000)) == 30_000


async def test_a_prompt_over_the_window_is_refused_and_the_next_call_works(folder):
    async with opened(folder) as backend:
        with pytest.raises(ContextOverflowError, match=r"600 tokens.*holds 512"):
            await collect(backend, "x" * 600)
        assert text_of(await collect(backend, max_tokens=10))


async def test_a_prompt_of_megabytes_is_refused_and_the_event_loop_goes_on_meanwhile(folder, monkeypatch):
    threads = in_threads(monkeypatch, ChatTemplate, "encode")
    async with opened(folder) as backend:
        with pytest.raises(ContextOverflowError, match=r"more than 512 tokens.*holds 512"):
            await collect(backend, "How do I oil a chain? " * 250_000)
    assert threads
    assert threading.main_thread() not in threads


async def test_control_tokens_in_a_message_are_text_unless_the_caller_says_otherwise(tmp_path):
    folder = save(tmp_path, template=TEMPLATE)  # its <end> is one token, and every other character is one
    frame = len("<user>\n<assistant>")
    async with opened(folder) as backend, opened(folder, special_tokens_in_text=True) as trusting:
        assert await backend.count_tokens(prompt("Why?<end>")) == frame + len("Why?<end>")
        assert await trusting.count_tokens(prompt("Why?<end>")) == frame + len("Why?") + 1
        assert text_of(await collect(backend, "Why?<end>", max_tokens=9))


@pytest.mark.thorough
def test_a_prompt_over_the_window_is_said_once():
    code = """
from stretto import Stretto
from stretto.local import LocalBackend
with Stretto(LocalBackend("local:pocket", long_context=None)) as stretto:
    try:
        stretto.ask("How do I look after a bicycle? " * 500, strategy="direct")
    except Exception as error:
        print(type(error).__name__)
"""
    run = warm.run([sys.executable, "-c", code], timeout=patience(110), local=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "ContextOverflowError\n", "")


async def test_without_a_limit_an_answer_stays_inside_the_window(folder):
    async with opened(folder) as backend:
        chunks = await collect(backend, "x" * 480, temperature=0.0)
        also = await collect(backend, "x" * 480, max_tokens=10_000)
    usage = chunks[-1].usage
    assert usage.prompt_tokens + usage.completion_tokens <= 512
    assert text_of(also) == text_of(chunks)


async def test_the_chat_template_is_used_and_a_refused_system_message_stands_before_the_question(tmp_path):
    folder = save(tmp_path, template=TEMPLATE)
    both = ModelRequest((Message(role="system", content="Be brief."), Message(role="user", content="Why?")))
    async with opened(folder) as backend:
        assert await backend.count_tokens(prompt("Why?")) == len("<user>Why?\n<assistant>")
        assert await backend.count_tokens(both) == len("<user>Be brief.\n\nWhy?\n<assistant>")


async def test_messages_the_template_refuses_are_an_error_that_says_why(tmp_path):
    folder = save(tmp_path, template="{{ raise_exception('only poems') }}")
    async with opened(folder) as backend:
        with pytest.raises(BackendError, match="only poems"):
            await backend.count_tokens(prompt("Why?"))


@pytest.mark.thorough
async def test_the_models_own_sampling_is_the_default_and_the_caller_goes_before_it(tmp_path, folder):
    own = save(tmp_path, do_sample=True, temperature=0.9, top_k=50)
    async with opened(own) as sampling, opened(folder) as greedy:
        answers = {text_of(await collect(sampling, max_tokens=30, seed=seed)) for seed in range(4)}
        assert len(answers) > 1
        first = text_of(await collect(greedy, max_tokens=30))
        assert text_of(await collect(sampling, max_tokens=30, temperature=0.0)) == first


@pytest.mark.thorough
async def test_a_request_that_samples_keeps_to_the_models_own_limits(tmp_path, folder):
    own = save(tmp_path)
    (own / "generation_config.json").write_text('{"eos_token_id": 0, "top_k": 1}')
    async with opened(own) as limited, opened(folder) as greedy:
        first = text_of(await collect(greedy, max_tokens=30))
        assert text_of(await collect(limited, max_tokens=30, temperature=1.5, seed=3)) == first
        assert text_of(await collect(greedy, max_tokens=30, temperature=1.5, seed=3)) != first


@pytest.mark.thorough
async def test_a_backend_with_another_decoding_method_gives_the_same_answer(folder):
    """Each method is asked for by name in the next test; here it is that of the backend."""
    async with opened(folder) as backend:
        expected = text_of(await collect(backend, max_tokens=60, temperature=0.0))
    async with opened(folder, decoding="suffix") as backend:
        assert text_of(await collect(backend, max_tokens=60, temperature=0.0)) == expected
    async with opened(folder, decoding="draft_model", draft=f"local:{folder}") as backend:
        assert text_of(await collect(backend, max_tokens=60, temperature=0.0)) == expected


async def test_requests_with_different_decodings_run_in_one_batch_and_get_what_each_gets_alone(folder):
    async with opened(folder) as backend:
        methods = backend.capabilities.decodings
        expected = text_of(await collect(backend, max_tokens=60, temperature=0.0))
        found = {}

        async def ask(method):
            found[method] = await collect(backend, max_tokens=60, temperature=0.0, decoding=method)

        async with anyio.create_task_group() as group:
            for method in methods:
                group.start_soon(ask, method)
    assert {text_of(chunks) for chunks in found.values()} == {expected}
    figures = {method: chunks[-1].decoding for method, chunks in found.items()}
    assert all(figures[method].methods == (method,) for method in methods)
    assert figures["autoregressive"].steps == 59  # the first token comes with the prompt
    assert figures["lookahead"].rows_per_step > 1


async def test_a_request_goes_before_the_backends_own_decoding(folder):
    async with opened(folder, decoding="suffix") as backend:
        own, asked = [
            (await collect(backend, max_tokens=20, decoding=method))[-1].decoding.methods for method in (None, "jacobi")
        ]
    assert (own, asked) == (("suffix",), ("jacobi",))


async def test_a_request_for_an_unknown_decoding_is_refused_before_anything_is_loaded(folder):
    threads = set(threading.enumerate())
    async with opened(folder) as backend:
        with pytest.raises(InvalidRequestError, match=r"decoding='turbo' cannot be used .* Use one of: .*\bsuffix\b"):
            await collect(backend, decoding="turbo")
        assert set(threading.enumerate()) <= threads


async def test_what_was_measured_is_known_once_the_model_has_answered(folder):
    async with opened(folder) as backend:
        assert backend.measured() is None
        await collect(backend, max_tokens=30, decoding="autoregressive")
        assert backend.measured().decodings["autoregressive"].steps == 29
        await collect(backend, max_tokens=30, temperature=0.0, decoding="auto")
        await anyio.to_thread.run_sync(backend._loader.engine.wait_measured)
        measured = backend.measured()
    assert measured.step_ms[1] > 0
    assert measured.step_ms[64] >= measured.step_ms[8] >= measured.step_ms[1]
    assert measured.decodings["auto"].tokens == 29


async def test_an_answer_is_held_to_a_schema_or_an_expression(folder):
    schema = {"type": "object", "properties": {"stars": {"enum": [1, 2]}}, "required": ["stars"]}
    schema["additionalProperties"] = False
    ask = (Message(role="user", content="How good is it?"),)
    async with opened(folder, decoding="suffix") as backend:
        assert backend.capabilities.json_schema
        assert backend.capabilities.regex
        for prompt, fits in (
            (ModelRequest(ask, response_schema=schema), lambda text: json.loads(text)["stars"] in (1, 2)),
            (ModelRequest(ask, response_regex="[ab]{3}!"), re.compile("[ab]{3}!").fullmatch),
        ):
            async with backend.stream(prompt, GenerationOptions(max_tokens=40)) as chunks:
                assert fits(text_of([chunk async for chunk in chunks]))
        with pytest.raises(InvalidRequestError, match="unclosed group"):
            async with backend.stream(ModelRequest(ask, response_regex="(a"), GenerationOptions()):
                pass
        assert text_of(await collect(backend, max_tokens=5))


def in_threads(monkeypatch, owner, name, before=lambda: None):
    """The threads a function is called in; ``before`` is called there first."""
    threads, function = [], getattr(owner, name)

    def called(*given, **named):
        threads.append(threading.current_thread())
        before()
        return function(*given, **named)

    monkeypatch.setattr(owner, name, called)
    return threads


@pytest.mark.thorough
async def test_a_lexical_request_has_the_weights_hashed_once_and_not_in_the_event_loop(folder, monkeypatch):
    threads = in_threads(monkeypatch, pad_file, "fingerprint")
    backend = LocalBackend("local:pocket", dtype="float32", device="cpu")  # the router chooses: it may be lexical
    try:
        await collect(backend, max_tokens=3)
        assert not threads
        for _ in range(2):
            await collect(backend, max_tokens=3, decoding="lexical")
    finally:
        await backend.aclose()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_while_a_schema_is_compiled_the_event_loop_and_other_requests_go_on(folder, monkeypatch):
    begun, others_ended, announced = threading.Event(), threading.Event(), []

    def before():
        announced.append(engine._serving._gathering.coming)
        begun.set()
        assert others_ended.wait(patience(60)), "another request did not get through while a schema was compiled"

    answers = {}

    async def held(backend):
        schema = {"type": "array", "items": {"enum": [f"value {number}" for number in range(3000)]}, "maxItems": 1}
        ask = ModelRequest((Message(role="user", content="Choose."),), response_schema=schema)
        async with backend.stream(ask, GenerationOptions(max_tokens=20)) as chunks:
            answers["held"] = text_of([chunk async for chunk in chunks])

    async with opened(folder) as backend:
        await collect(backend, max_tokens=2)
        engine = backend._loader.engine
        known = ModelRequest((Message(role="user", content="Yes or no?"),), response_regex="yes|no")
        async with backend.stream(known, GenerationOptions(max_tokens=8)) as chunks:
            assert text_of([chunk async for chunk in chunks]) in {"yes", "no"}
        compiled = in_threads(monkeypatch, Grammars, "_compile", before)
        asked = in_threads(monkeypatch, Grammars, "constraint")
        async with anyio.create_task_group() as group:
            group.start_soon(held, backend)
            with anyio.fail_after(patience(60)):
                while not begun.is_set():
                    await anyio.lowlevel.checkpoint()
            expected = await collect(backend, max_tokens=20)
            others_ended.set()
    assert text_of(expected)
    assert answers["held"].startswith('["value ')
    assert announced == [0], "the others would wait for what is announced"
    assert len(compiled) == 1
    assert threading.main_thread() not in {*compiled, *asked}


class Faulty(Suffix):
    def propose(self, context, rows):  # noqa: ARG002 - the protocol's arguments
        raise RuntimeError("no more ideas")


async def test_what_went_wrong_without_harm_to_the_answer_comes_with_its_last_chunk(folder, monkeypatch):
    monkeypatch.setitem(DRAFTERS, "suffix", lambda _: Faulty())
    all_drafters.cache_clear()
    async with opened(folder) as backend:
        *before, last = await collect(backend, max_tokens=8, decoding="suffix")
    assert not any(chunk.warnings for chunk in before)
    all_drafters.cache_clear()
    (told,) = last.warnings[1:]  # behind that there is no chat template
    assert "RuntimeError: no more ideas" in told


async def test_chunks_tell_how_far_a_call_has_come_on_its_way_to_the_first_text(folder):
    async with opened(folder) as backend:
        before = time.perf_counter()
        chunks = await collect(backend, max_tokens=5)
        after = time.perf_counter()
    told = [chunk.stages for chunk in chunks if chunk.stages is not None]
    assert not chunks[0].text
    assert told[0].submitted_s is not None
    times = astuple(told[-1])
    assert before <= times[0]
    assert list(times) == sorted(times)
    assert times[-1] <= after
