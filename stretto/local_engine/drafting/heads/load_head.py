"""Loading of a head from its folder, with an error for what does not fit its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.foundation.arguments import safe_repr
from stretto.local_engine import research_registry
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.drafting.heads.eagle3 import Eagle3
from stretto.local_engine.drafting.heads.files import HeadFolder
from stretto.local_engine.drafting.heads.head import Head
from stretto.local_engine.drafting.heads.mtp import Mtp, OwnLayer, knows_its_own, names_of
from stretto.local_engine.drafting.heads.nextn import tensors_of
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.misfits import is_extra
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

_PADDING = 20  # vocabularies are padded by less than one part in this many

_Make = Callable[[Weights, Mapping[str, Any], Target], Head]


def load_head(folder: HeadFolder, model: LoadedModel, *, rounded: bool = False) -> Head:
    """Load a head for a model; ``rounded`` to 8 bits, for compiled code.

    Raises `SettingsError` for an unknown kind, and for a head that does not fit.
    """
    target = Target.of(model)
    forward: Any = getattr(model.forward, "plain", model.forward)
    if folder.own and isinstance(forward, TransformersForward) and knows_its_own(forward.model):
        return OwnLayer(forward.model, str(folder.path), target)
    for others in research_registry.heads():
        if (head := others.whole(folder, model, target)) is not None:
            return head
    tensors = {_bare(name): tensor for name, tensor in _read(folder).items()}
    kind, make = _kind(folder, tensors, target)
    _check_target(folder, target)
    weights = Weights(tensors, str(folder.path), target.dtype, target.device, rounded=rounded)
    try:
        return make(weights, _flat(folder.config), target)
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"The {kind} head in {str(folder.path)!r} cannot be read ({type(error).__name__}: {error})."
        ) from error


def _check_target(folder: HeadFolder, target: Target) -> None:
    """Raise `SettingsError` for a head that was made for a model of other sizes, by its configuration."""
    config = _flat(folder.config)
    layers, tokens = config.get("num_target_layers"), config.get("vocab_size")
    if isinstance(layers, int) and layers != target.layers:
        raise SettingsError(
            f"The head in {str(folder.path)!r} does not fit {target.name}: it was made for a model of {layers} layers "
            f"(num_target_layers), and this one has {target.layers}."
        )
    if isinstance(tokens, int) and abs(tokens - target.vocabulary) * _PADDING > target.vocabulary:
        raise SettingsError(
            f"The head in {str(folder.path)!r} does not fit {target.name}: it was made for a model of {tokens} tokens "
            f"(vocab_size), and this one has {target.vocabulary}."
        )


def _kind(folder: HeadFolder, tensors: Mapping[str, Tensor], target: Target) -> tuple[str, _Make]:
    config, others = _flat(folder.config), research_registry.heads()
    named, known = config.get("speculators_model_type"), dict(_SPECULATORS)
    for each in others:
        known |= each.speculators
    if isinstance(named, str) and named in known:
        return named, known[named]
    if named is not None:
        raise SettingsError(f"The head in {str(folder.path)!r} is of the kind {named}, which is not known. {_known()}")
    if any(name.startswith("layers.0.hidden_norm") for name in tensors) and "fc.weight" in tensors:
        return "eagle3", Eagle3
    for each in others:
        if (found := each.kind(config, tensors.keys())) is not None:
            return found
    if names_of(tensors, target.layers) is not None:
        return "mtp", Mtp
    architectures = config.get("architectures")
    called = (
        safe_repr(architectures[0]) if isinstance(architectures, list) and architectures else "no architecture is named"
    )
    raise SettingsError(f"The weights in {str(folder.path)!r} ({called}) are no head that is known. {_known()}")


def _known() -> str:
    others = [name for each in research_registry.heads() for name in each.known]
    return f"Known are {', '.join(['EAGLE-3', *others])} and layers for multi-token prediction (MTP)."


_SPECULATORS: Mapping[str, _Make] = {"eagle3": Eagle3, "mtp": Mtp}


def _flat(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with the sizes of the layers and the flags of the head at the same level."""
    flat = dict(config)
    for name in ("dflash_config", "transformer_layer_config"):
        inner = config.get(name)
        flat |= inner if isinstance(inner, dict) else {}
    return flat


def _bare(name: str) -> str:
    """Return the name of a weight without publishers' prefixes."""
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
    """Return the tensors of a head. Torch's files are read as tensors only, without running code in them."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - not installed without the extra `local`

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
    except Exception as error:  # torch's error for a file with more than tensors
        raise SettingsError(
            f"The head in {str(path)!r} is not read: {type(error).__name__}. Its file holds more than tensors, which "
            "could run code. Save it as safetensors."
        ) from error
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
