"""Recognition of these heads in a folder; see `stretto.local_engine.research_registry.HeadReaders`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from stretto.local_engine.drafting.heads.decoder import Weights, whole_number
from stretto.local_engine.drafting.heads.files import HeadFolder
from stretto.local_engine.drafting.heads.head import Head
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.research.rare_heads.dflash import DFlash
from stretto.local_engine.research.rare_heads.gemma_assistant import KINDS, GemmaAssistant
from stretto.local_engine.research.rare_heads.medusa import Medusa
from stretto.local_engine.research.rare_heads.peagle import PEagle
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

MakeHead = Callable[[Weights, Mapping[str, Any], Target], Head]

known = ("P-EAGLE", "DFlash", "DSpark", "Medusa", "assistants of Gemma 4")

speculators: Mapping[str, MakeHead] = {"dflash": DFlash, "dspark": DFlash, "peagle": PEagle}


def whole(folder: HeadFolder, model: LoadedModel, target: Target) -> Head | None:
    """See `HeadReaders`."""
    if folder.config.get("model_type") not in KINDS:
        return None
    forward = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
    if not isinstance(forward, TransformersForward):
        raise SettingsError(f"The head in {str(folder.path)!r} is an assistant of Gemma 4, and {model.name} is none.")
    return GemmaAssistant(forward.model, folder, target)


def kind(config: Mapping[str, Any], names: Collection[str]) -> tuple[str, MakeHead] | None:
    """See `HeadReaders`."""
    if "medusa_num_heads" in config:
        return "medusa", Medusa
    if "block_size" in config and "hidden_norm.weight" in names:
        return "dflash", _published_dflash
    return None


def _published_dflash(weights: Weights, config: Mapping[str, Any], target: Target) -> DFlash:
    """Make a DFlash head of its authors, or of transformers, whose windows are one token wider and see ahead."""
    if config.get("model_type") == "muse_glimmer_assistant":
        window = whole_number(config, "sliding_window", weights.where)
        config = {**config, "sliding_window": window + 1, "sliding_window_non_causal": True}
    return DFlash(weights, config, target, shifted=True)
