"""A local model whose folder holds an adapter for reading documents."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from saved_models import opened, prompt, save, text_of

from stretto import AsyncStretto, Document
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, READING_FILE, fingerprint
from stretto.local_engine.model.formats.differences import added, read_reading, write_differences
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, new_tensors, write_focus
from stretto.values.errors import SettingsError
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio
QUESTION = prompt("What is the rent?")
ABOUT_DOCUMENTS = replace(QUESTION, reads=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return save(tmp_path_factory.mktemp("plain"), end=None)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("adapted"), end=None)
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(7)
    differences = {
        name: torch.randn(weight.shape, generator=generator) for name, weight in weights.items() if "proj" in name
    }
    write_differences(folder / READING_FILE, differences, fingerprint(folder))
    return folder


async def said(backend, asked):
    async with backend.stream(asked, GenerationOptions(max_tokens=20)) as chunks:
        return text_of([chunk async for chunk in chunks])


@pytest.mark.thorough
async def test_prompts_that_show_documents_are_answered_by_the_sum_and_all_others_by_the_weights(adapted, plain):
    async with opened(adapted) as backend, opened(plain) as other:
        without = await said(other, QUESTION)
        assert await said(backend, QUESTION) == without
        assert await said(backend, ABOUT_DOCUMENTS) != without
        assert await said(backend, QUESTION) == without  # still
        assert await said(other, ABOUT_DOCUMENTS) == without  # a folder without an adapter


@pytest.fixture(scope="module")
def whole(adapted, tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("whole"), end=None)
    weights = load_file(folder / "model.safetensors")
    added(weights, read_reading(adapted / READING_FILE, fingerprint(adapted), "a model"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.thorough
async def test_a_model_with_the_differences_added_by_hand_says_the_same(adapted, whole):
    async with opened(whole) as other, opened(adapted) as backend:
        assert await said(backend, ABOUT_DOCUMENTS) == await said(other, QUESTION)


@pytest.mark.thorough
async def test_what_is_longer_than_the_window_is_read_by_the_sum(adapted, whole, plain):
    long = prompt("The rent is 900 euros. " * 60 + "What is the rent?")
    forward = load_model(find_source(f"local:{plain}"), dtype="float32", device="cpu").forward
    tensors = {name: torch.randn(each.shape) * 0.3 for name, each in new_tensors(forward, 4).items()}
    for folder in (adapted, whole, plain):
        write_focus(folder / FOCUS_FILE, FocusAdapter.of(tensors, 64, 32), fingerprint(folder, reading=True))
    async with (
        opened(adapted, long_context="focus") as backend,
        opened(whole, long_context="focus") as other,
        opened(plain, long_context="focus") as without,
    ):
        answer = await said(backend, long)
        assert answer == await said(backend, replace(long, reads=True)) == await said(other, long)
        assert answer != await said(without, long)


async def test_an_adapter_of_other_weights_is_refused_for_documents_alone(adapted, tmp_path):
    folder = save(tmp_path, end=None)
    (folder / READING_FILE).write_bytes((adapted / READING_FILE).read_bytes())
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    async with opened(folder) as backend:
        with pytest.raises(SettingsError, match="was trained on other weights"):
            await said(backend, ABOUT_DOCUMENTS)
        assert await said(backend, QUESTION)


@pytest.mark.thorough
async def test_strategies_say_which_prompts_show_documents(adapted, plain):
    answers = []
    for folder in (plain, adapted):
        async with opened(folder) as backend, AsyncStretto(backend) as stretto:
            document = Document(text="The rent is 900 euros.")
            options = {"strategy": "direct", "max_tokens": 12}
            answers.append((await stretto.ask("Why?", documents=[document], **options)).text)
            answers.append((await stretto.ask("Why?", **options)).text)
    assert answers[0] != answers[2]
    assert answers[1] == answers[3]


@pytest.mark.parametrize("shape", [(8, 64), (3, 5), (1, 1), (33,)])
def test_a_difference_comes_back_within_half_a_step_of_its_group(tmp_path, shape):
    difference = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    write_differences(tmp_path / READING_FILE, {"one": difference, "none": torch.zeros(shape)}, "base")
    back = read_reading(tmp_path / READING_FILE, "base", "a model")
    weights = {"one": torch.zeros(shape), "none": torch.ones(shape)}
    added(weights, back)
    step = difference.abs().max() / 7
    assert (weights["one"] - difference).abs().max() <= 0.51 * step
    assert torch.equal(weights["none"], torch.ones(shape))
