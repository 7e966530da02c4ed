"""The file of a [PAD] adapter: it lies beside the weights it was trained on, and is bound to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from stretto.local_engine.kernels.compiling.compiler import have_compiled
from stretto.local_engine.model.adapters.adapter_files import fingerprint, read_tensors, write_tensors
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.research.lexical import FILE
from stretto.local_engine.research.lexical.lexical_drafter import UNITS
from stretto.local_engine.research.lexical.pads import PadAdapter
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["attach", "read_adapter", "write_adapter"]


def write_adapter(path: Path, adapter: PadAdapter, base: str) -> None:
    """Keep an adapter, in bfloat16, with the `fingerprint` of the weights it was trained on."""
    tensors = {name: tensor.detach().bfloat16().contiguous() for name, tensor in adapter.tensors().items()}
    write_tensors(path, tensors, base)


def read_adapter(path: Path, base: str, model: str, dtype: torch.dtype, device: torch.device) -> PadAdapter:
    """Read an adapter for the weights with the fingerprint ``base``. Raises `SettingsError`."""
    texts = "" if model == "local:pocket" else " --texts FOLDER"
    where = "in a checkout of Stretto's source"
    command = f"python -m recipes.lexical.train --model {model}{texts}"
    if not path.is_file():
        raise SettingsError(
            f"{model} has no adapter for lexical unit decoding: {path} is missing. Train one {where}: {command}"
        )
    again = f"Train it again {where}: {command}"
    tensors, _ = read_tensors(path, base, model, purpose="lexical unit decoding", again=again)
    try:
        return PadAdapter.of({name: tensor.to(device, dtype) for name, tensor in tensors.items()})
    except KeyError as error:
        raise SettingsError(f"{path} is no adapter for lexical unit decoding: {error}. {again}") from error


def attach(model: LoadedModel) -> int:
    """Give the model's forward its adapter, once; the number of [PAD]s that it was trained for.

    Raises `SettingsError` where the model has none, it belongs to other weights, or the model cannot take one.
    """
    forward = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
    if not isinstance(forward, LlamaForward):
        raise SettingsError(
            f"Lexical unit decoding needs the engine's own forward, and {model.name} is run by that of transformers: "
            "it is not of the Llama family. Choose auto."
        )
    adapter = forward.adapter
    if not isinstance(adapter, PadAdapter):
        if model.folder is None:
            raise SettingsError(
                f"{model.name} has no adapter for lexical unit decoding: an adapter lies beside the weights in a "
                "folder. Save the model to one, train an adapter in a checkout of Stretto's source with python -m "
                "recipes.lexical.train --model local:./folder --texts FOLDER, and use that name."
            )
        path = model.folder / FILE
        adapter = read_adapter(path, fingerprint(model.folder), model.name, model.dtype, model.device)
        have_compiled([UNITS, *forward.parts_for(adapter)], wanted=model.compiled)
        forward.attach(adapter)
    return len(adapter.places)
