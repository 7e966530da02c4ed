"""A folder whose files do not fit together is refused with a sentence; nothing is filled in at random."""

import json
import re

import pytest
import torch
import transformers
from asking import PROMPTS, tokens
from safetensors.torch import load_file, save_file
from tiny_models import SIZES, build
from transformers import (
    AutoModelForImageTextToText,
    Gemma3Config,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlavaConfig,
    Mistral3Config,
    MistralConfig,
    PixtralVisionConfig,
    SiglipVisionConfig,
)

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import MissingDependencyError, ModelNotFoundError, SettingsError


@pytest.fixture
def saved(tmp_path, tokenizer):
    """Saves a model with the tokenizer, and lets its config.json be changed."""

    def save(model, **changes):
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return tmp_path

    return save


def load(folder, **options):
    return load_model(find_source(str(folder)), device="cpu", **({"dtype": "float32"} | options))


def test_a_config_with_more_layers_than_the_file_is_refused(saved, capfd):
    folder = saved(build("llama"), num_hidden_layers=5)
    capfd.readouterr()
    with pytest.raises(ModelNotFoundError, match=r"18 missing \(model\.layers\.3\.input_layernorm\.weight, .*config"):
        load(folder)
    assert capfd.readouterr().err == ""  # the error says it, without a table of transformers before it


def test_a_config_with_fewer_layers_than_the_file_is_refused(saved):
    folder = saved(build("llama"), num_hidden_layers=2)
    with pytest.raises(ModelNotFoundError, match=r"9 that the model does not have \(model\.layers\.2\."):
        load(folder)


@pytest.mark.parametrize("window", [-1, 0, 1])
@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_a_window_without_room_for_a_prompt_and_an_answer_is_refused(architecture, window, saved):
    folder = saved(build(architecture), max_position_embeddings=window)
    with pytest.raises(ModelNotFoundError, match=f"config.json has max_position_embeddings={window}, and a prompt"):
        load(folder)


def test_a_classifier_is_refused_and_named(saved):
    folder = saved(LlamaForSequenceClassification(LlamaConfig(**SIZES)))
    with pytest.raises(ModelNotFoundError, match=r"lm_head\.weight.*score\.weight.*LlamaForSequenceClassification"):
        load(folder)


def test_weights_of_another_size_are_named_with_both_sizes(saved):
    folder = saved(build("llama"), intermediate_size=64)
    with pytest.raises(ModelNotFoundError, match=r"9 of another size \(.*mlp\.down_proj\.weight is \[64, 48\], not"):
        load(folder)


def test_a_truncated_file_is_refused(saved):
    folder = saved(build("llama"))
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelNotFoundError, match="damaged or incomplete"):
        load(folder)


def test_tied_weights_and_saved_buffers_are_not_missed(saved):
    folder = saved(LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)))
    path = folder / "model.safetensors"
    held = load_file(path)
    assert "lm_head.weight" not in held
    held["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    save_file(held, path, {"format": "pt"})
    assert load(folder).vocabulary == SIZES["vocab_size"]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_a_type_that_torch_only_stores_is_refused(name, saved):
    with pytest.raises(SettingsError, match=f"dtype='{name}' cannot be used.*float32, bfloat16 or float16"):
        load(saved(build("llama")), dtype=name)


def test_an_adapter_beside_the_weights_is_refused_where_it_cannot_be_applied(saved, monkeypatch):
    folder = saved(build("llama"))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "x"}))
    monkeypatch.setattr(
        "stretto.local_engine.model.loading.weights.is_peft_available", lambda: False
    )  # as where it is not installed
    with pytest.raises(MissingDependencyError, match="pip install peft"):
        load(folder)


def test_an_adapter_without_its_own_weights_is_damaged(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "base"}')
    with pytest.raises(SettingsError, match=r"The adapter .* cannot be read: .*adapter_model.safetensors"):
        load(tmp_path)


def test_an_adapter_without_the_weights_is_known_as_one(tmp_path, monkeypatch):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "IA3", "base_model_name_or_path": "base"}')
    monkeypatch.setattr("stretto.local_engine.model.loading.weights.is_peft_available", lambda: False)
    with pytest.raises(MissingDependencyError, match="pip install peft"):
        load(tmp_path)


@pytest.mark.parametrize(
    "adapter", ['{"peft_type": "LORA"}', '{"base_model_name_or_path": null}', '{"base_model_name_or_path": 5}']
)
def test_an_adapter_that_names_no_base_is_refused(adapter, tmp_path, monkeypatch):
    (tmp_path / "adapter_config.json").write_text(adapter)
    monkeypatch.setattr("stretto.local_engine.model.loading.weights.is_peft_available", lambda: True)
    with pytest.raises(ModelNotFoundError, match=r"adapter_config\.json names no base_model_name_or_path"):
        load(tmp_path)


DAMAGED = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_by_name(name, text, saved):
    folder = saved(build("llama"))
    (folder / name).write_text(text)
    with pytest.raises(ModelNotFoundError, match=rf": {re.escape(name)} is damaged or incomplete \("):
        load(folder)


VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
PATCHES = {"image_size": 8, "patch_size": 4}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]


def gemma3():
    text = Gemma3TextConfig(**SIZES, sliding_window=12)
    config = Gemma3Config(
        text_config=text.to_dict(), vision_config=SiglipVisionConfig(**VISION).to_dict(), mm_tokens_per_image=1
    )
    config.image_token_index = 399
    return config


def llava():
    return LlavaConfig(
        text_config=MistralConfig(**SIZES), vision_config=SiglipVisionConfig(**VISION, **PATCHES), image_token_index=399
    )


def mistral3():
    vision = PixtralVisionConfig(**VISION, **PATCHES, head_dim=8)
    return Mistral3Config(vision_config=vision, text_config=MistralConfig(**SIZES), image_token_index=399)


def gemma4():
    """Its full layers have wider heads than the others."""
    own = {"sliding_window": 12, "global_head_dim": 32, "layer_types": MIXED, "num_kv_shared_layers": 0}
    per_layer = {"vocab_size_per_layer_input": SIZES["vocab_size"], "hidden_size_per_layer_input": 8}
    text = transformers.Gemma4TextConfig(**SIZES, **own, **per_layer)
    return transformers.Gemma4Config(text_config=text, vision_config=None, audio_config=None, image_token_id=399)


COMPOSITE = [gemma3, llava, mistral3, *([gemma4] if hasattr(transformers, "Gemma4Config") else [])]


@pytest.mark.parametrize("config", COMPOSITE)
def test_a_model_of_pictures_and_text_loads_and_answers_without_pictures(config, saved, start):
    torch.manual_seed(5)
    config = config()
    model = AutoModelForImageTextToText.from_config(config).eval()
    loaded = load(saved(model))
    assert 2 in loaded.ends
    assert loaded.cache_tokens > 0
    got = tokens(start(loaded).submit(Generation(PROMPTS[0], 20, decoding="lookahead")))
    ids = torch.tensor([PROMPTS[0]])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, eos_token_id=-1
    )
    assert got == expected[0, len(PROMPTS[0]) :].tolist()
