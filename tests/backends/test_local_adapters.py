"""LoRA and DoRA adapters of local models: merged into the weights, or kept beside them."""

import asyncio
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from saved_models import opened, prompt, save, text_of
from transformers import AutoModelForCausalLM

from stretto import AsyncStretto, InvalidRequestError, SettingsError
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.model.adapters.attached_lora import attach_lora
from stretto.local_engine.model.adapters.lora import read_lora
from stretto.testing import ScriptedBackend
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

MODULES = {
    "self_attn.q_proj": (32, 32),
    "self_attn.v_proj": (16, 32),
    "mlp.up_proj": (48, 32),
    "mlp.down_proj": (32, 48),
}
RANK, ALPHA = 4, 8


def write(folder, seed=1, *, modules=MODULES, lengths=False, **config):
    """An adapter as peft saves it, for the models of `saved_models`."""
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
    methods = ("autoregressive", "suffix", "lookahead")
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
    read_lora(folder).merge(weights)
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
    assert [warning.code for warning in answered.warnings] == ["option"]


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"self_attn.q_proj": (32, 64)}, r"q_proj.weight of 32 × 64, which is 32 × 32 there"),
        ({"mixer.in_proj": (32, 32)}, r"it changes .*mixer.in_proj.weight, which the model does not have"),
    ],
)
async def test_an_adapter_that_does_not_fit_is_refused_in_a_sentence(folders, beside, tmp_path, modules, said):
    adapter = read_lora(write(tmp_path, modules=modules))
    with pytest.raises(SettingsError, match=said):
        adapter.merge(load_file(folders[0] / "model.safetensors"))
    await answer(beside)
    with pytest.raises(SettingsError, match=said):
        attach_lora(beside._loader.engine.model, "own", adapter)


@pytest.mark.parametrize(
    ("pattern", "alphas"),
    [
        ({"q_proj": 3, "self_attn.q_proj": 5}, (3, 3, ALPHA)),  # the first that fits counts, as for peft
        ({"layers.0.self_attn.q_proj": 5, "q_proj$": 3}, (5, 3, ALPHA)),
        ({"^model.layers.1.self_attn.q_proj": 5, "^q_proj": 3, "_proj": 2, r"mlp\.down_proj": 7}, (ALPHA, 5, 7)),
    ],
)
def test_an_alpha_is_given_to_modules_by_the_end_of_their_names(tmp_path, pattern, alphas):
    folder = write(tmp_path, alpha_pattern=pattern)
    saved = load_file(folder / "adapter_model.safetensors")
    changes = read_lora(folder).changes
    names = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj")
    for name, alpha in zip(names, alphas, strict=True):
        expected = saved[f"base_model.model.{name}.lora_B.weight"] * alpha / RANK
        torch.testing.assert_close(changes[name].up, expected)


OF_TENSORS = {
    "rank": lambda name, tensor: {name: tensor[:0]},
    "large": lambda name, tensor: {name: tensor * 1e30},
    "whole": lambda _, tensor: {"base_model.model.model.norm.weight": tensor[0] * 1e30},
}


def spoiled(folder, what):
    """An adapter with a number that is none, or with a configuration that cannot be used."""
    tensors = load_file(folder / "adapter_model.safetensors")
    config = json.loads((folder / "adapter_config.json").read_text())
    first = min(tensors)
    if what in ("nan", "inf"):
        tensors[first][1, 2] = float(what)
        save_file(tensors, folder / "adapter_model.safetensors")
    elif what in OF_TENSORS:
        save_file(tensors | OF_TENSORS[what](first, tensors[first]), folder / "adapter_model.safetensors")
    elif what != "deep":
        config |= json.loads(what)
    (folder / "adapter_config.json").write_text("[" * 100_000 if what == "deep" else json.dumps(config))
    return folder


REFUSED = {
    '{"alpha_pattern": {"q_proj|v_proj": 8}}': "and only names of modules are read here, such as q_proj",
    '{"lora_alpha": NaN}': "is damaged: lora_alpha=nan in its adapter_config.json is no positive number",
    '{"lora_alpha": 1e29}': "is damaged: with lora_alpha=1e.29, it adds rows of length .*e.28 at model.layers",
    '{"peft_type": ["LORA"]}': r"is of the type \['LORA'\], and only LoRA and DoRA",
    "inf": "holds NaN or an infinite number",
    "deep": "its adapter_config.json is damaged .it is nested too deeply",
}
UNREAD = {
    '{"alpha_pattern": {"([a-z_.0-9]+)+X": 8}}': r"alpha_pattern '\(\[a-z_.0-9\]\+\)\+X', and only names",
    '{"alpha_pattern": {"q_proj": NaN}}': "is damaged: alpha_pattern of 'q_proj'=nan in its adapter_config.json is no",
    '{"alpha_pattern": {"q_proj": 1e29}}': "is damaged: with lora_alpha=8, it adds rows of length .*e.28 at model",
    '{"alpha_pattern": ["q_proj"]}': r"alpha_pattern=\['q_proj'\] in its adapter_config.json is no JSON object",
    '{"lora_alpha": "8"}': "lora_alpha='8' in its adapter_config.json is no positive number",
    '{"lora_alpha": 0}': "lora_alpha=0 in its adapter_config.json is no positive number",
    '{"lora_alpha": -8}': "lora_alpha=-8 in its adapter_config.json is no positive number",
    '{"lora_alpha": true}': "lora_alpha=True in its adapter_config.json is no positive number",
    '{"r": 0}': "r=0 in its adapter_config.json is no positive number",
    '{"use_dora": true}': "is incomplete at model.layers",
    '{"lora_alpha": 1e7}': "is damaged: with lora_alpha=10000000.0, it adds rows of length .*, and those of trained",
    '{"lora_alpha": 1e300}': "is damaged: with lora_alpha=1e.300, it adds rows of length (inf|nan) at model.layers",
    '{"lora_alpha": 1' + "0" * 400 + "}": "lora_alpha=1000.* is no positive number",
    "nan": "is damaged: base_model.model.model.layers.0.*lora_A.weight holds NaN or an infinite number",
    "large": "lora_A.weight holds .*e.29, and trained weights no number above 1,000",
    "whole": "model.norm.weight holds .*e.29, and trained weights no number above 1,000",
    "rank": "is damaged: the sizes at model.layers.0.* do not fit each other",
}


@pytest.mark.parametrize("what", UNREAD)
def test_an_adapter_that_cannot_be_what_was_trained_is_refused_in_a_sentence(tmp_path, what):
    with pytest.raises(SettingsError, match=UNREAD[what]):
        read_lora(spoiled(write(tmp_path, lengths=False), what))


@pytest.mark.parametrize("what", REFUSED)
async def test_a_damaged_adapter_is_refused_in_a_sentence_merged_and_beside(folders, tmp_path, what):
    folder = spoiled(write(tmp_path, lengths=False), what)
    for options, asked in (({"adapter": folder}, None), ({"adapters": {"own": folder}}, "own")):
        async with opened(folders[0], **options) as backend:
            with pytest.raises(SettingsError, match=REFUSED[what]):
                await answer(backend, asked)


def write_last(folder, base):
    """An adapter of the output layer: peft saves the weight that it changes as well."""
    own = load_file(base / "model.safetensors")["lm_head.weight"]
    write(folder, modules=MODULES)
    tensors = load_file(folder / "adapter_model.safetensors")
    name = "base_model.model.lm_head"
    tensors |= {f"{name}.lora_A.weight": torch.randn(RANK, 32) / 4, f"{name}.lora_B.weight": torch.randn(257, RANK) / 4}
    save_file(tensors | {f"{name}.base_layer.weight": own}, folder / "adapter_model.safetensors")
    return folder


async def test_an_adapter_of_the_output_layer_is_merged_and_beside_the_weights_it_says_so(folders, tmp_path):
    adapter = write_last(tmp_path / "last", folders[0])
    saved = load_file(adapter / "adapter_model.safetensors")
    weights = dict(AutoModelForCausalLM.from_pretrained(folders[0]).named_parameters())
    down, up = (saved[f"base_model.model.lm_head.lora_{part}.weight"] for part in "AB")
    expected = weights["lm_head.weight"] + ALPHA / RANK * up @ down
    read_lora(adapter).merge(weights)
    torch.testing.assert_close(weights["lm_head.weight"], expected)
    async with opened(folders[0], adapter=adapter) as backend:
        assert await answer(backend)
    async with opened(folders[0], adapters={"last": adapter}) as backend:
        with pytest.raises(
            SettingsError, match=r"changes lm_head.weight, which cannot be attached to .* unmerged\. Merge it: ad"
        ):
            await answer(backend, "last")


async def test_an_output_layer_that_is_the_input_vectors_as_well_is_left_alone_with_the_reason(folders, tmp_path):
    adapter = write_last(tmp_path / "last", folders[0])
    model = AutoModelForCausalLM.from_pretrained(folders[0])
    model.config.tie_word_embeddings = True
    model.tie_weights()
    tied = shutil.copytree(folders[0], tmp_path / "tied", ignore=shutil.ignore_patterns("*.safetensors"))
    model.save_pretrained(tied)
    async with opened(tied, adapter=adapter) as backend:
        with pytest.raises(SettingsError, match=r"lm_head.weight, which the model shares with its input vectors"):
            await answer(backend)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"peft_type": "IA3"}, "is of the type 'IA3', and only LoRA and DoRA are read"),
        ({"lora_bias": True}, "has biases of its own, which are not read here"),
    ],
)
def test_an_adapter_of_another_kind_is_refused_in_a_sentence(tmp_path, wrong, said):
    with pytest.raises(SettingsError, match=said):
        read_lora(write(tmp_path, **wrong))


def test_a_folder_without_an_adapter_is_refused_at_once(folders, tmp_path):
    with pytest.raises(SettingsError, match=r"There is no adapter in .*: it has no adapter_config.json"):
        LocalBackend(f"local:{folders[0]}", adapters={"own": tmp_path})


async def test_an_adapter_folder_is_a_model_where_it_names_its_own(folders, beside, tmp_path):
    async with opened(write(tmp_path, base_model_name_or_path=str(folders[0]))) as backend:
        assert text_of(await answer(backend)) == text_of(await answer(beside, "lora"))


async def test_a_row_that_has_a_length_and_no_direction_is_refused_merged_and_beside(tmp_path):
    model = save(tmp_path / "model", end=None)
    weights = load_file(model / "model.safetensors")
    weights["model.layers.0.mlp.down_proj.weight"][3] = 0
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    adapter = write(tmp_path / "dora", lengths=True)
    tensors = load_file(adapter / "adapter_model.safetensors")
    tensors["base_model.model.model.layers.0.mlp.down_proj.lora_B.weight"][3] = 0
    save_file(tensors, adapter / "adapter_model.safetensors")
    for options, asked in (({"adapter": adapter}, None), ({"adapters": {"own": adapter}}, "own")):
        async with opened(model, **options) as backend:
            with pytest.raises(SettingsError, match=r"damaged: .*down.* would hold NaN or an infinite number with it"):
                await answer(backend, asked)
