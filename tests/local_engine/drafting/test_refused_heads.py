"""Heads that do not fit, are damaged or are not there: refused in one sentence where named, else left out."""

import math
from dataclasses import replace

import pytest
import torch
from head_folders import HIDDEN, WORDS, dflash, eagle3, medusa, peagle, write
from reading_heads import FREE, HEADS, head_of

from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.drafting.catalogue import DRAFTERS, METHODS, DraftEquipment
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.model.forward.rows import LAST
from stretto.values.errors import SettingsError


def told(make, **fields):
    """A head with other fields, those of its layers among them."""
    tensors, config = make()
    layers = config.get("transformer_layer_config", {})
    inner = {name: value for name, value in fields.items() if name in layers}
    config |= {name: value for name, value in fields.items() if name not in layers}
    return tensors, config | ({"transformer_layer_config": {**layers, **inner}} if layers else {})


SETTINGS = {
    "no mask": (told(peagle, mask_token_id=None), "mask_token_id is missing in its config.json"),
    "a mask beyond": (
        told(peagle, mask_token_id=400),
        "mask_token_id is 400 in its config.json, and a whole number from 0 to",
    ),
    "layers in words": (
        told(eagle3, eagle_aux_hidden_state_layer_ids="abc"),
        "eagle_aux_hidden_state_layer_ids is 'abc' in its config.json, and a list of whole numbers is needed",
    ),
    "a layer in words": (told(eagle3, eagle_aux_hidden_state_layer_ids=[0, "1", 2]), "and a list of whole numbers"),
    "size in words": (
        told(eagle3, hidden_size="wide"),
        "hidden_size is 'wide' in its config.json, and a whole number from 1",
    ),
    "heads": (told(eagle3, num_key_value_heads=3), "num_attention_heads 4, num_key_value_heads 3 and head_dim 16"),
    "epsilon": (told(eagle3, rms_norm_eps=math.nan), "rms_norm_eps is nan in its config.json"),
    "layers": (told(eagle3, num_hidden_layers=True), "num_hidden_layers is True in its config.json"),
    "medusa": (told(medusa, medusa_num_heads="x"), "medusa_num_heads is 'x' in its config.json"),
    "medusa's blocks": (told(medusa, medusa_num_layers=0), "medusa_num_layers is 0 in its config.json"),
    "dflash's mask": (told(dflash, mask_token_id=5000), "mask_token_id is 5000 in its config.json"),
    "dflash's mask below": (told(dflash, mask_token_id=-3), "mask_token_id is -3 in its config.json"),
    "no block": (told(dflash, block_size=0), "block_size is 0 in its config.json, and a whole number from 2"),
    "a block that foresees nothing": (told(dflash, block_size=1), "block_size is 1 in its config.json"),
    "block in words": (told(dflash, block_size="4"), "block_size is '4' in its config.json"),
    "dflash's layers": (
        told(dflash, aux_hidden_state_layer_ids=7),
        "aux_hidden_state_layer_ids is 7 in its config.json",
    ),
    "kinds of layers": (
        told(dflash, layer_types=["full_attention"]),
        "layer_types is ['full_attention'] in its config",
    ),
    "window": (told(dflash, sliding_window="6"), "sliding_window is '6' in its config.json"),
    "another model's layers": (told(dflash, num_target_layers=36), "made for a model of 36 layers (num_target_layers)"),
    "another model's tokens": (
        told(dflash, vocab_size=320),
        "made for a model of 320 tokens (vocab_size), and this one has",
    ),
    "rotation's base": (told(eagle3, rope_theta="x"), "rope_theta is 'x' in its config.json, and a positive number is"),
    "rotation": (
        told(dflash, rope_scaling={"rope_type": "spiral", "factor": 2}),
        "rope_scaling.rope_type is 'spiral' in its config.json, and one of default, linear, ",
    ),
    "rotation's factor": (
        told(eagle3, rope_scaling={"type": "linear", "factor": -2.0}),
        "rope_scaling.factor is -2.0 in its config.json, and a positive number",
    ),
    "rotation's factors": (
        told(peagle, rope_scaling={"type": "yarn"}),
        "rope_scaling.factor is missing in its config.json, and a rotation of the kind yarn needs it",
    ),
    "rotation in words": (told(eagle3, rope_parameters="x"), "rope_parameters is 'x' in its config.json, and a JSON"),
    "length in a list": (
        told(eagle3, max_position_embeddings=[1]),
        "max_position_embeddings is [1] in its config.json, and a whole number from 1",
    ),
    "many heads": (
        told(eagle3, num_attention_heads=10**9),
        "does not fit: its weight layers.0.self_attn.q_proj.weight",
    ),
    "methods in words": (
        told(peagle, speculators_config={"proposal_methods": 3}, para_depths="x"),
        "speculative_tokens is 'x' in its config.json",
    ),
    "length in words": (told(eagle3, max_position_embeddings="x"), "max_position_embeddings is 'x' in its config.json"),
    "another window in words": (
        told(dflash, model_type="muse_glimmer_assistant", sliding_window="6", speculators_model_type=None),
        "sliding_window is '6' in its config.json, and a whole number from 1",
    ),
    "markov": (told(lambda: dflash(markov=8), markov_rank="8"), "markov_rank is '8' in its config.json"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_setting_that_cannot_be_used_is_named(kind, tmp_path, loaded):
    made, said = SETTINGS[kind]
    with pytest.raises(SettingsError) as refused:
        head_of(write(tmp_path, *made), loaded("llama"))
    assert said in str(refused.value)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_with_nan_in_a_weight_is_refused(kind, tmp_path, loaded):
    tensors, config = HEADS[kind]()
    name = max(name for name, tensor in tensors.items() if tensor.is_floating_point() and "weight" in name)
    tensors[name].flatten()[3] = math.nan
    with pytest.raises(SettingsError, match=f"is damaged: its weight {name} holds NaN"):
        head_of(write(tmp_path, tensors, config), loaded("llama"))


def broken(kind):
    tensors, config = eagle3(words=WORDS)
    if kind == "hidden":
        tensors["fc.weight"] = torch.zeros(HIDDEN, 3 * 48)
    elif kind == "layers":
        config["eagle_aux_hidden_state_layer_ids"] = [0, 1, 7]
    elif kind == "tokens":
        tensors["d2t"] = tensors["d2t"] + 9
    elif kind == "weight":
        del tensors["norm.weight"]
    elif kind == "kind":
        config["speculators_model_type"] = "jetspec"
    elif kind == "gemma":
        tensors, config = {"x.weight": torch.zeros(2, 2)}, {"model_type": "gemma4_assistant"}
    else:
        tensors, config = {"x.weight": torch.zeros(2, 2)}, {"architectures": ["OtherForCausalLM"]}
    return tensors, config


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("hidden", "it reads states of 144 numbers, and those of the model have 64"),
        ("layers", "it reads 3 layers of the numbers 0, 1, 7, and the model has 3"),
        ("tokens", "it drafts the token 408, and those of the model are below 400"),
        ("weight", "is no whole head: the weight norm.weight is missing"),
        ("kind", "is of the kind jetspec, which is not known. Known are EAGLE-3, P-EAGLE, DFlash, DSpark, Medusa"),
        ("gemma", "is an assistant of Gemma 4, and local:llama is none"),
        ("nothing", "('OtherForCausalLM') are no head that is known"),
    ],
)
def test_a_head_that_does_not_fit_is_refused_in_one_sentence(kind, words, tmp_path, loaded):
    with pytest.raises(SettingsError) as refused:
        head_of(write(tmp_path, *broken(kind)), loaded("llama"))
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_folder_that_is_not_there_and_one_without_weights_are_told_before_anything_is_loaded(tmp_path):
    with pytest.raises(SettingsError, match="There is no folder"):
        LocalBackend("local:pocket", head=tmp_path / "missing")
    with pytest.raises(SettingsError, match="holds no head"):
        LocalBackend("local:pocket", head=tmp_path)
    with pytest.raises(SettingsError, match=r"There is no head. Name the folder of one as head="):
        LocalBackend("local:pocket", decoding="head")


def test_one_beside_the_weights_is_found_and_one_that_does_not_fit_is_left_out(tmp_path, loaded, caplog):
    (tmp_path / "config.json").write_text("{}")
    model = replace(loaded("llama"), folder=tmp_path)
    folder = write(tmp_path / "head", *medusa())
    assert DRAFTERS["auto"](DraftEquipment(cost=FREE, model=model)).wants_states == (LAST,)
    write(folder, *broken("kind"))
    equipment = DraftEquipment(cost=FREE, model=model)
    assert not hasattr(DRAFTERS["auto"](equipment), "wants_states")
    assert "drafts without the head next to its weights" in caplog.text
    with pytest.raises(SettingsError, match="jetspec"):
        DRAFTERS["head"](equipment)


def test_one_beside_the_weights_is_left_alone_where_an_adapter_changes_them(tmp_path, loaded):
    (tmp_path / "config.json").write_text("{}")
    write(tmp_path / "head", *medusa())
    model = replace(loaded("llama"), folder=tmp_path, changed=True)
    assert not hasattr(DRAFTERS["auto"](DraftEquipment(cost=FREE, model=model)), "wants_states")
    with pytest.raises(SettingsError, match="has no head"):
        DRAFTERS["head"](DraftEquipment(cost=FREE, model=model))


def damage(folder, what):
    if what == "config":
        (folder / "config.json").write_text("{nope")
    elif what == "sizes":
        (folder / "config.json").write_text('{"dflash_config": "odd"}')
    else:
        (folder / "model.safetensors").unlink()
        (folder / "old.bin").write_bytes(b"")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("config", "cannot be read: its config.json is damaged"),
        ("sizes", "no head that is known"),
        ("weights", "cannot be read: a file ends too early"),
    ],
)
def test_auto_goes_on_without_a_head_beside_the_weights_that_is_damaged(what, said, tmp_path, loaded, caplog):
    (tmp_path / "config.json").write_text("{}")
    damage(write(tmp_path / "head", *medusa()), what)
    equipment = DraftEquipment(cost=FREE, model=replace(loaded("llama"), folder=tmp_path))
    assert not hasattr(DRAFTERS["auto"](equipment), "wants_states")
    assert said in caplog.text
    with pytest.raises(SettingsError, match=said):
        DRAFTERS["head"](equipment)
    lack = METHODS["head"].missing(tmp_path, None)
    assert said in lack if what == "config" else not lack


@pytest.mark.parametrize("config", ["{nope", '{"text_config": "odd"}'])
def test_that_a_model_is_damaged_is_left_to_its_loading(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    assert find_head(tmp_path, None) is None
