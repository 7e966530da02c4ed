"""Reads a head from its folder, and refuses in one sentence what does not fit its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.errors import SettingsError
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.drafting.heads.dflash import DFlash
from stretto.local_engine.drafting.heads.eagle3 import Eagle3
from stretto.local_engine.drafting.heads.files import HeadFolder
from stretto.local_engine.drafting.heads.gemma import KINDS, GemmaAssistant
from stretto.local_engine.drafting.heads.head import Head
from stretto.local_engine.drafting.heads.medusa import Medusa
from stretto.local_engine.drafting.heads.mtp import Mtp, names_of
from stretto.local_engine.drafting.heads.nextn import tensors_of
from stretto.local_engine.drafting.heads.own_layer import OwnLayer, knows_its_own
from stretto.local_engine.drafting.heads.peagle import PEagle
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.extra_layers import is_extra
from stretto.local_engine.model.forward import TransformersForward

if TYPE_CHECKING:
    from stretto.local_engine.model.load import LoadedModel

__all__ = ["load_head"]

_KNOWN = (
    "Known are EAGLE-3, P-EAGLE, DFlash, DSpark, Medusa, layers for multi-token prediction (MTP) and assistants of "
    "Gemma 4."
)

_Make = Callable[[Weights, Mapping[str, Any], Target], Head]


def load_head(folder: HeadFolder, model: LoadedModel, *, rounded: bool = False) -> Head:
    """Read a head for a model; ``rounded`` to 8 bits, for compiled code.

    Raises `SettingsError` for one of another kind, and for one that does not fit.
    """
    target = Target.of(model)
    forward: Any = getattr(model.forward, "plain", model.forward)
    if folder.own and isinstance(forward, TransformersForward) and knows_its_own(forward.model):
        return OwnLayer(forward.model, str(folder.path), target)
    if folder.config.get("model_type") in KINDS:
        if not isinstance(forward, TransformersForward):
            raise SettingsError(
                f"The head in {str(folder.path)!r} is an assistant of Gemma 4, and {model.name} is none."
            )
        return GemmaAssistant(forward.model, folder.path, target)
    tensors = {_bare(name): tensor for name, tensor in _read(folder).items()}
    kind, make = _kind(folder, tensors, target)
    weights = Weights(tensors, str(folder.path), target.dtype, target.device, rounded=rounded)
    try:
        return make(weights, _flat(folder.config), target)
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"The {kind} head in {str(folder.path)!r} cannot be read ({type(error).__name__}: {error})."
        ) from error


def _kind(folder: HeadFolder, tensors: Mapping[str, Tensor], target: Target) -> tuple[str, _Make]:
    config = _flat(folder.config)
    named = config.get("speculators_model_type")
    if isinstance(named, str) and named in _SPECULATORS:
        return named, _SPECULATORS[named]
    if named is not None:
        raise SettingsError(f"The head in {str(folder.path)!r} is of the kind {named}, which is not known. {_KNOWN}")
    if any(name.startswith("layers.0.hidden_norm") for name in tensors) and "fc.weight" in tensors:
        return "eagle3", Eagle3
    if "medusa_num_heads" in config:
        return "medusa", Medusa
    if "block_size" in config and "hidden_norm.weight" in tensors:
        return "dflash", _published_dflash
    if names_of(tensors, target.layers) is not None:
        return "mtp", Mtp
    called = ", ".join(map(str, config.get("architectures") or ())) or "no architecture is named"
    raise SettingsError(f"The weights in {str(folder.path)!r} ({called}) are no head that is known. {_KNOWN}")


def _published_dflash(weights: Weights, config: Mapping[str, Any], target: Target) -> DFlash:
    """DFlash as its authors publish it, and as transformers does, whose windows are one token wider and see ahead."""
    if config.get("model_type") == "muse_glimmer_assistant":
        config = {**config, "sliding_window": config["sliding_window"] + 1, "sliding_window_non_causal": True}
    return DFlash(weights, config, target, shifted=True)


_SPECULATORS: Mapping[str, _Make] = {"dflash": DFlash, "dspark": DFlash, "eagle3": Eagle3, "mtp": Mtp, "peagle": PEagle}


def _flat(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sizes of the layers and the flags of the head side by side."""
    flat = dict(config)
    for name in ("dflash_config", "transformer_layer_config"):
        inner = config.get(name)
        flat |= inner if isinstance(inner, dict) else {}
    return flat


def _bare(name: str) -> str:
    """The name of a weight without what publishers put in front of it."""
    name = name.removeprefix("model.").removeprefix("language_model.").removeprefix("medusa_head.")
    for given, own in _RENAMED.items():
        if name.startswith(given):
            return own + name.removeprefix(given)
    return name


_RENAMED = {
    "midlayer.": "layers.0.",
    "encoder.fc.": "fc.",
    "encoder.output_norm_enc.": "hidden_norm.",
}


def _read(folder: HeadFolder) -> dict[str, Tensor]:
    """The tensors of a head. Files of torch are read as tensors only: nothing in them is run."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - not there without the extra `local`

    path, found = folder.path, dict[str, Tensor]()
    if path.is_file():
        return tensors_of(path)
    try:
        for file in sorted(path.glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                names = [name for name in opened.keys() if not folder.own or is_extra(name, folder.config)]  # noqa: SIM118
                found |= {name: opened.get_tensor(name) for name in names}
        for file in sorted([*path.glob("*.bin"), *path.glob("*.pt")]) if not found else ():
            found |= torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise SettingsError(f"The head in {str(path)!r} cannot be read: {error}") from error
    except EOFError as error:
        raise SettingsError(f"The head in {str(path)!r} cannot be read: a file ends too early.") from error
    except Exception as error:  # what torch raises for a file that holds more than tensors
        raise SettingsError(
            f"The head in {str(path)!r} is not read: {type(error).__name__}. Its file holds more than tensors, which "
            "could run code. Save it as safetensors."
        ) from error
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
