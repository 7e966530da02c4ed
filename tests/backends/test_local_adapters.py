"""LoRA and DoRA adapters of local models: merged into the weights, or kept beside them."""

import asyncio
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import opened, prompt, save, text_of
from transformers import AutoModelForCausalLM

from stretto import AsyncStretto, InvalidRequestError, SettingsError
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.model.beside import keep_beside
from stretto.local_engine.model.low_rank import read_low_rank
from stretto.request import GenerationOptions
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

MODULES = {
    "self_attn.q_proj": (32, 32),
    "self_attn.v_proj": (16, 32),
    "mlp.up_proj": (48, 32),
    "mlp.down_proj": (32, 48),
}
RANK, ALPHA = 4, 8


def write(folder, seed=1, *, modules=MODULES, lengths=False, **config):
    """An adapter as peft saves it, for the models of `small_models`."""
    torch.manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for module, (outer, inner) in modules.items():
            name = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, inner) / 4
            tensors[f"{name}.lora_B.weight"] = torch.randn(outer, RANK) / 4
            if lengths:
                tensors[f"{name}.lora_magnitude_vector"] = 0.5 + torch.rand(outer)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    known = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "use_dora": lengths}
    (folder / "adapter_config.json").write_text(json.dumps(known | config))
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A model, and a LoRA and a DoRA adapter of it."""
    root = tmp_path_factory.mktemp("adapters")
    return save(root / "model", end=None), write(root / "lora"), write(root / "dora", 2, lengths=True)


@pytest.fixture(scope="session")
def beside(folders):
    model, lora, dora = folders
    backend = LocalBackend(f"local:{model}", dtype="float32", device="cpu", adapters={"lora": lora, "dora": dora})
    yield backend
    asyncio.run(backend.aclose())


async def answer(backend, adapter=None, question="Oil, oil, oil, oil the chain", **options):
    given = GenerationOptions(adapter=adapter, max_tokens=24, temperature=0, **options)
    async with backend.stream(prompt(question), given) as chunks:
        return [chunk async for chunk in chunks]


@pytest.mark.parametrize("kind", ["lora", "dora"])
async def test_an_adapter_says_the_same_merged_and_beside(folders, beside, kind):
    async with opened(folders[0], adapter=folders[1 if kind == "lora" else 2]) as backend:
        merged = text_of(await answer(backend))
    assert merged == text_of(await answer(beside, kind)) != text_of(await answer(beside))


async def test_drafts_do_not_change_what_an_adapted_model_says(beside):
    methods = ("autoregressive", "suffix", "token_recycling")
    said = {method: await answer(beside, "dora", decoding=method) for method in methods}
    assert len({text_of(chunks) for chunks in said.values()}) == 1
    assert sum(said["suffix"][-1].decoding.drafted.values())


async def test_adapters_share_no_keys_and_values(beside):
    asked = [(await answer(beside, each, "Zinc plates last")) for each in (None, "lora", "dora", None, "lora", "dora")]
    cached = [chunks[-1].usage.cached_tokens for chunks in asked]
    assert cached[:3] == [0, 0, 0]
    assert all(cached[3:])


@pytest.mark.parametrize("lengths", [False, True])
def test_a_merged_weight_is_what_the_papers_say(folders, tmp_path, lengths):
    folder = write(tmp_path, lengths=lengths, use_rslora=True, alpha_pattern={"self_attn.q_proj": 3})
    saved = load_file(folder / "adapter_model.safetensors")
    weights = dict(AutoModelForCausalLM.from_pretrained(folders[0]).named_parameters())
    before = {name: weight.clone() for name, weight in weights.items()}
    read_low_rank(folder).merge(weights)
    for module, alpha in (("self_attn.q_proj", 3), ("mlp.down_proj", ALPHA)):
        name = f"model.layers.1.{module}"
        down, up = (saved[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
        expected = before[f"{name}.weight"] + alpha / RANK**0.5 * up @ down
        if lengths:
            magnitude = saved[f"base_model.model.{name}.lora_magnitude_vector"]
            expected *= (magnitude / expected.pow(2).sum(1).sqrt())[:, None]
        torch.testing.assert_close(weights[f"{name}.weight"], expected)
    untouched = "model.layers.1.self_attn.k_proj.weight"
    assert torch.equal(weights[untouched], before[untouched])


async def test_a_request_names_its_adapter(beside):
    async with AsyncStretto(beside) as stretto:
        options = {"max_tokens": 8, "temperature": 0}
        own = await stretto.ask("Why?", adapter="lora", **options)
        plain = await stretto.ask("Why?", **options)
        with pytest.raises(InvalidRequestError, match=r"adapter='no' cannot be used .*: lora, dora\."):
            await stretto.ask("Why?", adapter="no", **options)
    assert own.text != plain.text


async def test_a_model_without_adapters_leaves_their_name_out_and_says_so():
    async with AsyncStretto(ScriptedBackend({"": "Oil it."})) as stretto:
        answered = await stretto.ask("Why?", adapter="law")
    assert any("adapter='law' was left out" in warning for warning in answered.warnings)


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"self_attn.q_proj": (32, 64)}, r"q_proj.weight of 32 × 64, which is 32 × 32 there"),
        ({"mixer.in_proj": (32, 32)}, r"it changes .*mixer.in_proj.weight, which the model does not have"),
    ],
)
async def test_an_adapter_that_does_not_fit_is_refused_in_a_sentence(folders, beside, tmp_path, modules, said):
    adapter = read_low_rank(write(tmp_path, modules=modules))
    with pytest.raises(SettingsError, match=said):
        adapter.merge(load_file(folders[0] / "model.safetensors"))
    await answer(beside)
    with pytest.raises(SettingsError, match=said):
        keep_beside(beside._loader.engine.model, "own", adapter)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"peft_type": "IA3"}, "is of the type 'IA3', and only LoRA and DoRA are read"),
        ({"lora_bias": True}, "has biases of its own, which are not read here"),
    ],
)
def test_an_adapter_of_another_kind_is_refused_in_a_sentence(tmp_path, wrong, said):
    with pytest.raises(SettingsError, match=said):
        read_low_rank(write(tmp_path, **wrong))


def test_a_folder_without_an_adapter_is_refused_at_once(folders, tmp_path):
    with pytest.raises(SettingsError, match=r"There is no adapter in .*: it has no adapter_config.json"):
        LocalBackend(f"local:{folders[0]}", adapters={"own": tmp_path})


async def test_an_adapter_folder_is_a_model_where_it_names_its_own(folders, beside, tmp_path):
    async with opened(write(tmp_path, base_model_name_or_path=str(folders[0]))) as backend:
        assert text_of(await answer(backend)) == text_of(await answer(beside, "lora"))
