"""A folder whose files do not fit together is refused with a sentence; nothing is filled in at random."""

import json

import pytest
import torch
from asking import PROMPTS, tokens
from safetensors.torch import load_file, save_file
from tiny_models import SIZES, build
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    SiglipVisionConfig,
)

from stretto.errors import MissingDependencyError, ModelNotFoundError, SettingsError
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.source import find_source


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
        "stretto.local_engine.model.weights.is_peft_available", lambda: False
    )  # as where it is not installed
    with pytest.raises(MissingDependencyError, match="pip install peft"):
        load(folder)


def test_a_model_of_pictures_and_text_without_an_end_of_its_own_loads_and_answers(saved, start):
    torch.manual_seed(5)
    text = Gemma3TextConfig(**SIZES, sliding_window=12)
    vision = SiglipVisionConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = Gemma3Config(text_config=text.to_dict(), vision_config=vision.to_dict(), mm_tokens_per_image=1)
    config.image_token_index = 399
    model = Gemma3ForConditionalGeneration(config).eval()
    assert not hasattr(config, "eos_token_id")
    loaded = load(saved(model))
    assert 2 in loaded.end_ids
    got = tokens(start(loaded).submit(Generation(PROMPTS[0], 20, decoding="token_recycling")))
    ids = torch.tensor([PROMPTS[0]])
    expected = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, eos_token_id=-1
    )
    assert got == expected[0, len(PROMPTS[0]) :].tolist()
