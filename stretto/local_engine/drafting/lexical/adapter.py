"""The file of a [PAD] adapter: it lies beside the weights it was trained on, and is bound to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from stretto.errors import SettingsError
from stretto.local_engine.drafting.lexical.warm_up import UNITS
from stretto.local_engine.kernels.compiler import have_compiled
from stretto.local_engine.model.adapter_files import LEXICAL_FILE, fingerprint
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.pads import PadAdapter

if TYPE_CHECKING:
    from stretto.local_engine.model.load import LoadedModel

__all__ = ["attach", "read_adapter", "write_adapter"]


def write_adapter(path: Path, adapter: PadAdapter, base: str) -> None:
    """Keep an adapter, in bfloat16, with the `fingerprint` of the weights it was trained on."""
    tensors = {name: tensor.detach().bfloat16().contiguous() for name, tensor in adapter.tensors().items()}
    new = path.with_suffix(".new")
    save_file(tensors, new, metadata={"format": "pt", "base": base})
    new.replace(path)


def read_adapter(path: Path, base: str, model: str, dtype: torch.dtype, device: torch.device) -> PadAdapter:
    """Read an adapter for the weights with the fingerprint ``base``. Raises `SettingsError`."""
    texts = "" if model == "local:pocket" else " --texts FOLDER"
    where = "in a checkout of Stretto's source"
    command = f"python -m recipes.lexical.train --model {model}{texts}"
    if not path.is_file():
        raise SettingsError(
            f"{model} has no adapter for lexical unit decoding: {path} is missing. Train one {where}: {command}"
        )
    try:
        with safe_open(path, framework="pt") as file:
            notes: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name).to(device, dtype) for name in file.keys()}  # noqa: SIM118 - no mapping
            adapter = PadAdapter.of(tensors)
    except (SafetensorError, KeyError) as error:
        raise SettingsError(
            f"{path} is no adapter for lexical unit decoding: {error}. Train one {where}: {command}"
        ) from error
    if notes.get("base") != base:
        raise SettingsError(
            f"{path} was trained on other weights of {model} (SHA-256 {notes.get('base', 'unknown')[:12]}) than those "
            f"in its folder ({base[:12]}). Train it again {where}: {command} --fresh"
        )
    return adapter


def attach(model: LoadedModel) -> PadAdapter:
    """Give the model's forward its adapter, once, and return it.

    Raises `SettingsError` where the model has none, it belongs to other weights, or the model cannot take one.
    """
    forward = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
    if not isinstance(forward, LlamaForward):
        raise SettingsError(
            f"Lexical unit decoding needs the engine's own forward, and {model.name} is run by that of transformers: "
            "it is not of the Llama family. Choose auto."
        )
    if forward.pads is None:
        if model.folder is None:
            raise SettingsError(
                f"{model.name} has no adapter for lexical unit decoding: an adapter lies beside the weights in a "
                "folder. Save the model to one, train an adapter in a checkout of Stretto's source with python -m "
                "recipes.lexical.train --model local:./folder --texts FOLDER, and use that name."
            )
        path = model.folder / LEXICAL_FILE
        adapter = read_adapter(path, fingerprint(model.folder), model.name, model.dtype, model.device)
        have_compiled([UNITS, *forward.parts_for(adapter)], wanted=model.compiled)
        return forward.attach(adapter)
    return forward.pads
