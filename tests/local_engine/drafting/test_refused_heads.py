"""Heads that do not fit, are damaged or are not there: refused in one sentence where named, else left out."""

from dataclasses import replace

import pytest
import torch
from head_folders import HIDDEN, WORDS, eagle3, medusa, peagle, write
from reading_heads import FREE, head_of

from stretto.backends.local.backend import LocalBackend
from stretto.errors import SettingsError
from stretto.local_engine.drafting.catalogue import METHODS, DraftEquipment, make_drafter
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.model.layer_states import LAST


def test_peagle_that_does_not_tell_its_mask_is_refused(tmp_path, loaded):
    with pytest.raises(SettingsError, match="does not tell mask_token_id"):
        head_of(write(tmp_path, *peagle(mask_token_id=None)), loaded("llama"))


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
        ("nothing", "(OtherForCausalLM) are no head that is known"),
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
    assert make_drafter("auto", DraftEquipment(cost=FREE, model=model)).wants_states == (LAST,)
    write(folder, *broken("kind"))
    equipment = DraftEquipment(cost=FREE, model=model)
    assert not hasattr(make_drafter("auto", equipment), "wants_states")
    assert "drafts without the head beside its weights" in caplog.text
    with pytest.raises(SettingsError, match="jetspec"):
        make_drafter("head", equipment)


def test_one_beside_the_weights_is_left_alone_where_an_adapter_changes_them(tmp_path, loaded):
    (tmp_path / "config.json").write_text("{}")
    write(tmp_path / "head", *medusa())
    model = replace(loaded("llama"), folder=tmp_path, changed=True)
    assert not hasattr(make_drafter("auto", DraftEquipment(cost=FREE, model=model)), "wants_states")
    with pytest.raises(SettingsError, match="has no head"):
        make_drafter("head", DraftEquipment(cost=FREE, model=model))


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
    assert not hasattr(make_drafter("auto", equipment), "wants_states")
    assert said in caplog.text
    with pytest.raises(SettingsError, match=said):
        make_drafter("head", equipment)
    lack = METHODS["head"].missing(tmp_path, None)
    assert said in lack if what == "config" else not lack


@pytest.mark.parametrize("config", ["{nope", '{"text_config": "odd"}'])
def test_that_a_model_is_damaged_is_left_to_its_loading(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    assert find_head(tmp_path, None) is None
