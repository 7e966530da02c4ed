"""Prompts longer than the window of a local model: focus reading, and what is refused."""

import threading

import anyio
import pytest
import torch
from saved_models import collect, opened, prompt, save, text_of

from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, fingerprint
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.focus.focus import FocusReader
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, new_tensors, read_focus, write_focus
from stretto.local_engine.serving.long_prompts import FocusOptions
from stretto.values.errors import BackendError, ContextOverflowError, SettingsError
from stretto.values.request import GenerationOptions

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]
WINDOW = 512
DOCUMENT = "".join(f"The code of {number} is {number * 7919 % 1000}. " for number in range(80))
QUESTION = DOCUMENT + "What is the code of 7?"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return save(tmp_path_factory.mktemp("plain"), window=WINDOW, end=None)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("adapted"), window=WINDOW, end=None)
    forward = load_model(find_source(f"local:{folder}"), dtype="float32", device="cpu").forward
    generator = torch.Generator().manual_seed(3)
    tensors = {
        name: torch.randn(each.shape, generator=generator) * 0.3 for name, each in new_tensors(forward, 4).items()
    }
    write_focus(folder / FOCUS_FILE, FocusAdapter.of(tensors, 64, 32), fingerprint(folder, reading=True))
    return folder


def by_hand(folder, text, count, options=FocusOptions()):  # noqa: B008 - it is frozen
    """The answer that a reader gives when every token is asked for by hand."""
    model = load_model(find_source(f"local:{folder}"), dtype="float32", device="cpu")
    ids = model.tokenizer(text).input_ids
    answer = []
    local = options.local
    adapter = read_focus(folder / FOCUS_FILE, fingerprint(folder), "local:model", model.forward, model.device)
    reader = FocusReader(model.forward, adapter, ids[:-local], options, device=model.device)
    with torch.inference_mode():
        while len(answer) < count:
            *_, logits = reader.read(ids[-local:], answer)
            answer.append(int(logits.argmax()))
    return model.decode(answer)


async def test_a_prompt_over_the_window_is_answered_and_streamed(adapted):
    async with opened(adapted, long_context="focus") as backend:
        async with backend.stream(prompt(QUESTION), GenerationOptions(max_tokens=30)) as stream:
            chunks = [chunk async for chunk in stream]
        expected = by_hand(adapted, QUESTION, 30)
        assert text_of(chunks).rstrip("�") == expected.rstrip("�")  # its last letter may have lacked a byte
        assert len(chunks) > 1  # text that is ready together comes as one chunk
        assert chunks[-1].finish_reason == "length"
        assert chunks[-1].usage.completion_tokens == 30
        assert chunks[-1].usage.prompt_tokens == len(QUESTION) > 3 * WINDOW


async def test_focus_is_the_default_where_there_is_an_adapter(adapted, plain):
    async with opened(adapted) as backend:
        assert text_of(await collect(backend, QUESTION, max_tokens=9)) == by_hand(adapted, QUESTION, 9)
    for options in ({}, {"long_context": None}):
        async with opened(plain, **options) as backend:
            with pytest.raises(ContextOverflowError, match="more than 512 tokens"):
                await collect(backend, QUESTION * 9)
    async with opened(adapted, long_context=None) as backend:
        with pytest.raises(ContextOverflowError, match="holds 512"):
            await collect(backend, QUESTION)


async def test_a_prompt_within_the_window_is_answered_as_without_it(adapted):
    async with opened(adapted) as long, opened(adapted, long_context=None) as short:
        assert text_of(await collect(long, max_tokens=20)) == text_of(await collect(short, max_tokens=20))


async def test_the_next_question_about_a_document_starts_from_what_is_known(adapted):
    second = DOCUMENT + "And the code of 31?"
    async with opened(adapted) as backend:
        first = (await collect(backend, QUESTION, max_tokens=5))[-1]
        chunks = await collect(backend, second, max_tokens=5)
        other = (await collect(backend, "x" + second, max_tokens=5))[-1]
    assert first.usage.cached_tokens == other.usage.cached_tokens == 0
    assert chunks[-1].usage.cached_tokens == len(QUESTION) - 96
    assert len(text_of(chunks)) > 0


async def test_short_requests_run_while_a_long_prompt_is_read(adapted):
    ended = []
    async with opened(adapted) as backend, anyio.create_task_group() as tasks:

        async def ask(name, text, tokens):
            await collect(backend, text, max_tokens=tokens)
            ended.append(name)

        async with backend.stream(prompt(QUESTION), GenerationOptions(max_tokens=120)) as stream:
            await anext(stream)
            tasks.start_soon(ask, "short", "How do I oil a chain?", 3)
            async for _ in stream:
                pass
            ended.append("long")
    assert ended == ["short", "long"]


async def test_leaving_early_frees_the_reader_for_the_next_prompt(adapted):
    async with opened(adapted) as backend:
        for _ in range(3):
            async with backend.stream(prompt(QUESTION), GenerationOptions(max_tokens=200)) as chunks:
                await anext(chunks)
        async with backend.stream(prompt(QUESTION * 2), GenerationOptions(max_tokens=200)):
            pass  # before its first token
        assert text_of(await collect(backend, QUESTION, max_tokens=9)) == by_hand(adapted, QUESTION, 9)
        assert text_of(await collect(backend, max_tokens=5))


async def test_closing_ends_a_long_prompt_and_leaves_no_thread(adapted):
    before = set(threading.enumerate())
    backend = LocalBackend(f"local:{adapted}", dtype="float32", device="cpu")
    async with (
        backend.stream(prompt(QUESTION), GenerationOptions(max_tokens=200)) as first,
        backend.stream(prompt(QUESTION), GenerationOptions(max_tokens=200)) as second,  # not begun yet
    ):
        await anext(first)
        await backend.aclose()
        for stream in (first, second):
            with pytest.raises(BackendError, match="closed while it generated"):
                async for _ in stream:
                    pass
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile


async def test_a_document_of_more_candidates_than_the_window_holds_is_refused(adapted):
    async with opened(adapted) as backend:
        with pytest.raises(ContextOverflowError, match="candidates, which exceed the context window"):
            await collect(backend, DOCUMENT * 12)
        assert text_of(await collect(backend, QUESTION, max_tokens=3))


async def test_more_tokens_than_there_are_positions_end_at_the_last_one(adapted):
    async with opened(adapted) as backend:
        last = (await collect(backend, QUESTION, max_tokens=10**6))[-1]
    assert last.finish_reason == "length"
    assert 50 < last.usage.completion_tokens < WINDOW


async def test_log_probabilities_come_with_each_token(adapted):
    async with opened(adapted) as backend:
        chunks = await collect(backend, QUESTION, max_tokens=6, logprobs=2)
    told = [each for chunk in chunks for each in chunk.logprobs]
    assert len(told) == 6
    assert all(len(each.top) == 2 and each.logprob <= 0 for each in told)


async def test_options_say_how_a_document_is_cut(adapted):
    options = FocusOptions(chunk=40, appended=16, local=48)
    async with opened(adapted, long_context=options) as backend:
        said = text_of(await collect(backend, QUESTION, max_tokens=9))
    assert said.rstrip("�") == by_hand(adapted, QUESTION, 9, options).rstrip("�")


@pytest.mark.parametrize("given", ["refuse", None])
async def test_long_prompts_can_be_refused_by_name(adapted, given):
    async with opened(adapted, long_context=given) as backend:
        with pytest.raises(ContextOverflowError, match="holds 512"):
            await collect(backend, QUESTION)


def test_a_chunk_that_leaves_no_room_in_the_window_is_refused(adapted):
    with pytest.raises(SettingsError, match=r"chunk=448 cannot be used .* takes 513 of the 512 tokens of the context"):
        LocalBackend(f"local:{adapted}", long_context=FocusOptions(chunk=448))


def test_what_cannot_be_used_is_refused_when_the_backend_is_made(adapted, plain):
    for way in ("far", "star"):  # the second one was there once
        with pytest.raises(
            SettingsError, match=f"long_context='{way}' cannot be used. Use one of: 'auto', 'focus', 'r"
        ):
            LocalBackend(f"local:{adapted}", long_context=way)
    with pytest.raises(SettingsError, match=r"no focus\.safetensors"):
        LocalBackend(f"local:{plain}", long_context="focus")
    with pytest.raises(SettingsError, match=r"long_context=FocusOptions\(...\) cannot be used: .* no focus"):
        LocalBackend(f"local:{plain}", long_context=FocusOptions())
    with pytest.raises(SettingsError, match="long_context=7 cannot be used"):
        LocalBackend(f"local:{plain}", long_context=7)


async def test_an_adapter_of_other_weights_is_refused_and_short_prompts_are_answered(adapted, tmp_path):
    folder = save(tmp_path, window=WINDOW, end=None)
    (folder / FOCUS_FILE).write_bytes((adapted / FOCUS_FILE).read_bytes())
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    async with opened(folder) as backend:
        with pytest.raises(SettingsError, match="trained on other weights"):
            await collect(backend, QUESTION)
        assert text_of(await collect(backend, max_tokens=5))
