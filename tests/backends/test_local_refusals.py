"""Folders that cannot be loaded here: too large for the memory, or quantised in a way that lacks a package."""

import json
import os
import shutil
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file
from saved_models import opened, save, text_of
from test_local_adapters import answer

from stretto import BackendError, MissingDependencyError
from stretto.local_engine.model.loading import load
from stretto.local_engine.model.loading.fitting import _free_in_container, does_not_fit, weights_of
from stretto.local_engine.model.loading.source import find_source

pytestmark = pytest.mark.anyio

PETABYTE = [2**25, 2**23]  # weights, of a head without a body


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"), end=None)


async def test_a_model_that_cannot_fit_is_refused_before_it_is_read(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "large")
    head = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": PETABYTE, "data_offsets": [0, 2**49]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    async with opened(folder) as backend:
        with pytest.raises(BackendError) as refused:
            await answer(backend)
    assert "does not fit into the memory of cpu: its 2.8e+05 billion weights take 1.1e+06 GB" in str(refused.value)
    assert "billion weights would fit." in str(refused.value)


async def test_a_folder_that_is_rounded_and_a_file_that_cannot_fit_are_refused_too(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "large")
    head = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": PETABYTE, "data_offsets": [0, 2**49]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    file = tmp_path / "large.gguf"
    file.write_bytes(b"GGUF")
    os.truncate(file, 2**43)  # without its blocks
    for place, options, said in ((folder, {"quantize": "int4"}, "5.6e+05 GB in bfloat16"), (file, {}, "8.8e+03 GB")):
        async with opened(place, **options) as backend:
            with pytest.raises(BackendError, match=r"does not fit into the memory of cpu") as refused:
                await answer(backend)
        assert said in str(refused.value)


def test_what_would_fit_is_said():
    said = str(does_not_fit("local:some", 10**8, torch.float32, torch.device("cpu")))
    assert "its 0.1 billion weights take 0.4 GB in float32" in said
    assert said.endswith("dtype='bfloat16' takes 0.2 GB.")
    assert "4 bits takes about 60 MB" in str(does_not_fit("local:some", 10**8, torch.bfloat16, torch.device("cpu")))


def test_the_limit_of_a_container_counts_without_files_that_give_way(tmp_path):
    assert _free_in_container(tmp_path) == 2**62
    for name, text in {"max": "max", "current": "400", "stat": "anon 100\ninactive_file 300"}.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    assert _free_in_container(tmp_path) == 2**62
    (tmp_path / "memory.max").write_text("1000\n")
    assert _free_in_container(tmp_path) == 900


def test_the_weights_of_a_folder_are_counted_by_the_heads_of_its_files(model):
    tensors = load_file(model / "model.safetensors")
    assert weights_of(find_source(f"local:{model}")) == sum(tensor.numel() for tensor in tensors.values())


@pytest.mark.thorough
async def test_memory_that_runs_out_while_loading_is_one_error_and_the_next_try_loads(model, monkeypatch):
    read, failures = load.read_model, [torch.OutOfMemoryError("no"), MemoryError()]

    def fails(*given, **options):
        if failures:
            raise failures.pop()
        return read(*given, **options)

    monkeypatch.setattr(load, "read_model", fails)
    async with opened(model) as backend:
        for _ in range(2):
            with pytest.raises(BackendError, match=r"does not fit into the memory of cpu: .* dtype='bfloat16' takes"):
                await answer(backend)
        assert text_of(await answer(backend))


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("gptq", "gptqmodel"),
        ("awq", "gptqmodel"),
        ("compressed-tensors", "compressed-tensors"),
        ("bitsandbytes", "bitsandbytes"),
        ("torchao", "torchao"),
    ],
)
async def test_quantised_weights_without_their_package_are_one_sentence_with_the_command(
    model, tmp_path, kind, package
):
    if find_spec(package.replace("-", "_")) is not None:
        pytest.skip(f"{package} is installed")
    folder = shutil.copytree(model, tmp_path / kind)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": kind, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    async with opened(folder) as backend:
        with pytest.raises(
            MissingDependencyError,
            match=rf"quantised \({kind}\), and running them needs .*Run: pip install .*{package}\. Or give",
        ):
            await answer(backend)
