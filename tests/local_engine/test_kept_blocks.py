"""Weights that are laid out once and mapped by later loadings."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from asking import tokens
from gguf_files import write_gguf
from tiny_models import SIZES
from transformers import LlamaConfig, LlamaForCausalLM

from stretto.backends.local import loading
from stretto.local import LocalBackend
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.adapters.lora import LoraAdapter, LoraDelta
from stretto.local_engine.model.loading.kept_data import key_of
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.model.quantised import blocks, kept_blocks
from stretto.local_engine.model.quantised.kept_blocks import START, finish, keep, mapped_blocks
from stretto.values.errors import BackendError

PROMPT = tuple((11 * place + 3) % 390 + 5 for place in range(20))
BLOCKS = np.arange(2**16, dtype=np.uint64).view(np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for weights, also of small models."""
    monkeypatch.delenv("STRETTO_KEPT_WEIGHTS_GB", raising=False)
    monkeypatch.setattr(kept_blocks, "_LEAST", 1)
    monkeypatch.setattr(kept_blocks, "_folder", lambda: tmp_path / "kept")
    yield tmp_path / "kept"
    finish()


def write(path, tokenizer, seed=5, **more):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SIZES | {"intermediate_size": 96} | more)).eval()
    return write_gguf(path, model, tokenizer, kind="Q4_0")


@pytest.fixture
def file(tmp_path, tokenizer):
    return write(tmp_path / "model.gguf", tokenizer)


@pytest.fixture
def answer(start):
    """Loads a model and lets it answer: how many bytes it has mapped, and what it says."""

    def answer(file):
        model = load_model(find_source(f"local:{file}"), compiled=True)
        finish()
        return model.forward.weights.mapped, tokens(start(model).submit(Generation(PROMPT, 12)))

    return answer


@pytest.mark.parametrize("tied", [False, True])
def test_a_later_loading_lays_nothing_out_and_its_model_says_the_same(tokenizer, folder, answer, monkeypatch, tied):
    file = write(folder.parent / "model.gguf", tokenizer, tie_word_embeddings=tied)
    mapped, first = answer(file)
    assert mapped == 0
    (kept,) = folder.iterdir()
    monkeypatch.setattr(blocks, "laid_out", None)
    assert answer(file) == (kept.stat().st_size - START, first)


@pytest.mark.thorough
def test_an_adapter_beside_mapped_weights_says_what_it_says_beside_others(folder, file, start):
    torch.manual_seed(7)
    shapes = LlamaForCausalLM(LlamaConfig(**SIZES | {"intermediate_size": 96})).named_parameters()
    changes = {
        name.removesuffix(".weight"): LoraDelta(torch.randn(3, each.shape[1]) / 2, torch.randn(each.shape[0], 3), None)
        for name, each in shapes
        if "_proj" in name
    }
    said = []
    for _ in range(2):
        model = load_model(find_source(f"local:{file}"), compiled=True)
        finish()
        engine = start(model)
        engine.attach_lora("own", LoraAdapter(file.parent, changes))
        told = [tokens(engine.submit(Generation(PROMPT, 12, adapter=name))) for name in (None, "own")]
        said.append((model.forward.weights.mapped > 0, told))
    assert [mapped for mapped, _ in said] == [False, True]
    (_, first), (_, later) = said
    assert first == later
    assert first[0] != first[1]


def test_the_file_is_one_of_safetensors(folder, answer, file):
    answer(file)
    (kept,) = folder.iterdir()
    from safetensors.numpy import load_file  # noqa: PLC0415 - only here

    held = load_file(kept)["blocks"]
    assert held.tobytes() == kept.read_bytes()[START:]


def truncated(data):
    return data[:-1]


def half(data):
    return data[: len(data) // 2]


def with_a_flipped_bit(data):
    return data[:-5000] + bytes([data[-5000] ^ 1]) + data[-4999:]


def with_a_lost_page(data):
    return data[: 2 * START] + bytes(START) + data[3 * START :]


def of_another_head(data):
    return data[:START].replace(b'"U8"', b'"I8"') + data[START:]


def empty(_):
    return b""


DAMAGES = (truncated, half, with_a_flipped_bit, with_a_lost_page, of_another_head, empty)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(folder, damage):
    keep("a file", BLOCKS)
    finish()
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    assert np.frombuffer(mapped_blocks("a file", len(BLOCKS)), np.uint8, offset=START).tobytes() == BLOCKS.tobytes()
    assert damage(whole) != whole
    kept.write_bytes(damage(whole))
    assert mapped_blocks("a file", len(BLOCKS)) is None
    keep("a file", BLOCKS)
    finish()
    assert mapped_blocks("a file", len(BLOCKS)) is not None


def test_kept_weights_that_cannot_be_checked_are_not_taken_for_damaged_ones(folder, monkeypatch):
    keep("model", BLOCKS)
    finish()
    with monkeypatch.context() as patched:
        patched.setattr(kept_blocks, "range", fail, raising=False)
        assert mapped_blocks("model", len(BLOCKS)) is None
    assert mapped_blocks("model", len(BLOCKS)) is not None


def fail(*_):
    raise MemoryError


@pytest.mark.anyio
async def test_a_loading_that_fails_lets_go_of_kept_weights(folder, file, answer, monkeypatch):
    answer(file)
    begun = []
    monkeypatch.setattr(
        kept_blocks, "_Begun", lambda found, make=kept_blocks._Begun: begun.append(make(found)) or begun[-1]
    )
    monkeypatch.setattr(loading.LoadingOptions, "_load", fail)
    backend = LocalBackend(f"local:{file}", compiled=True)
    with pytest.raises((MemoryError, BackendError)):
        await backend.load_ahead()
    await backend.aclose()
    assert [each.ended.is_set() for each in begun] == [True]
    assert kept_blocks._begun == {}


def test_after_damage_weights_are_laid_out_and_kept_again(folder, answer, file):
    first = answer(file)
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(with_a_flipped_bit(whole))
    assert answer(file) == first
    assert kept.read_bytes() == whole


@pytest.mark.thorough
def test_nothing_is_said_where_no_folder_can_be_written_to_or_the_disk_is_full(
    folder, answer, file, monkeypatch, caplog
):
    folder.write_text("no folder")
    expected = answer(file)
    assert answer(file) == expected
    folder.unlink()
    monkeypatch.setattr(kept_blocks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert answer(file) == expected
    assert not [*folder.iterdir()]
    assert not caplog.records


def test_a_disk_that_fills_up_leaves_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_blocks.Path, "replace", full)
    keep("a file", BLOCKS)
    finish()
    assert not [*folder.iterdir()]


@pytest.mark.thorough
def test_a_changed_model_file_is_laid_out(tmp_path, tokenizer, folder, answer, file):
    before = answer(file)
    write(file, tokenizer, seed=6)
    mapped, changed = answer(file)
    assert (mapped, changed != before[1]) == (0, True)
    assert answer(file)[0] > 0
    assert len([*folder.iterdir()]) == 2


@pytest.mark.thorough
def test_what_is_written_to_mapped_weights_stays_in_the_model(folder, answer, file):
    _, first = answer(file)
    model = load_model(find_source(f"local:{file}"), compiled=True)
    assert model.forward.weights.mapped
    for part in model.forward.weights.vocabulary.parts:
        part.zero_()
    assert answer(file)[1] == first


def test_the_disk_that_weights_take_is_bounded_and_zero_keeps_nothing(folder, monkeypatch):
    size = len(BLOCKS) + START
    monkeypatch.setenv("STRETTO_KEPT_WEIGHTS_GB", "0")
    keep("first", BLOCKS)
    finish()
    assert not folder.exists()
    monkeypatch.setattr(kept_blocks, "_UNUSED_S", 2e9)
    monkeypatch.setenv("STRETTO_KEPT_WEIGHTS_GB", str(2.5 * size / 1e9))
    for number, name in enumerate(("first", "second", "third")):
        keep(name, BLOCKS)
        finish()
        if number < 2:
            os.utime(kept_blocks._place(name), (1e9 + number, 1e9 + number))
        if number == 1:
            assert mapped_blocks("first", len(BLOCKS)) is not None  # it is used now
    assert [mapped_blocks(name, len(BLOCKS)) is not None for name in ("first", "second", "third")] == [
        True,
        False,
        True,
    ]


def test_what_was_left_half_written_or_is_not_used_any_more_is_removed(folder):
    folder.mkdir()
    others = {"my.safetensors": 90 * 86_400, "download.new": 7200}  # somebody keeps files of his own there
    own = {"blocks-old.new": 7200, "blocks-young.new": 60, "blocks-unused.safetensors": 90 * 86_400}
    for name, age_s in (others | own).items():
        (folder / name).write_bytes(b"some")
        os.utime(folder / name, (kept_blocks.time.time() - age_s,) * 2)
    keep("a file", BLOCKS)
    finish()
    assert {path.name for path in folder.iterdir()} == {
        "blocks-young.new",
        kept_blocks._place("a file").name,
        *others,
    }


def test_what_was_left_half_written_is_removed_by_a_later_start_too(folder):
    keep("a file", BLOCKS)
    finish()
    old = folder / "blocks-old.new"
    old.write_bytes(b"some")
    os.utime(old, (kept_blocks.time.time() - 7200,) * 2)
    assert mapped_blocks("a file", len(BLOCKS)) is not None
    assert not old.exists()


def test_another_file_of_the_same_size_and_time_has_another_key(tmp_path):
    file, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    for each in (file, other):
        each.write_bytes(b"weights")
        os.utime(each, (1_000_000_000,) * 2)
    key = key_of(file)
    other.replace(file)
    assert file.stat().st_mtime == 1_000_000_000
    assert key_of(file) != key


PROGRAM = """
import logging, sys
from pathlib import Path
import numpy as np
from stretto.local_engine.model.quantised import kept_blocks
logging.basicConfig(level=logging.INFO)
kept_blocks._LEAST, kept_blocks._folder = 1, lambda: Path(sys.argv[1])
blocks, seen = np.arange(2**17, dtype=np.uint64).view(np.uint8), 0
while seen < 20:
    kept_blocks.keep("a file", blocks)
    found = kept_blocks.mapped_blocks("a file", len(blocks))
    if found is not None:
        assert found[kept_blocks.START:] == blocks.tobytes()
        seen += 1
kept_blocks.finish()
assert "torch" not in sys.modules
"""


@pytest.mark.thorough
def test_two_processes_never_see_a_file_that_is_half_written(tmp_path):
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "kept")], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [program.communicate()[1] for program in programs] == [b"", b""]
    assert [program.returncode for program in programs] == [0, 0]
    assert len([*(tmp_path / "kept").iterdir()]) == 1


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_file_whose_weights_are_kept_is_not_read_ahead(folder, file, monkeypatch):
    read, seen = loading.read_ahead, []
    monkeypatch.setattr(loading, "read_ahead", lambda name, places, end: seen.append(places) or read(name, places, end))
    for _ in range(2):
        backend = LocalBackend(f"local:{file}", compiled=True)
        await backend.load_ahead()
        await backend.aclose()
        finish()
    assert [file in places for places in seen] == [True, False]
