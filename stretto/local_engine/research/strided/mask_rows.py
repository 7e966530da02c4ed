"""The adapter of mask rows: a low-rank one of peft, which changes their products and no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG, read_lora_config
from stretto.local_engine.model.adapters.attached_lora import UnmergedLora, unmerged_products
from stretto.local_engine.model.adapters.lora import read_lora
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.strided import FOLDER, StridedOptions, own_masks
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["MaskRows", "attach"]

_USUAL = 4  # tokens of a step


@dataclass(frozen=True, slots=True)
class MaskRows:
    """What mask rows are computed with; see `stretto.local_engine.model.adapters.row_adapter.RowAdapter`.

    Attributes:
        mask: input vector of the mask token # [hidden]
        unmerged: what is added to a product of a layer, by the layer's number and the product's name.
        stride: tokens of a step that it was trained for.
    """

    mask: Tensor
    unmerged: Mapping[tuple[int, str], UnmergedLora]
    stride: int = _USUAL

    def embed(self, rows: Rows, read_in: Callable[[Tensor], Tensor]) -> Tensor:
        """Look up the input vectors of tokens and masks # [batch, rows, hidden]."""
        vectors = read_in(rows.tokens.clamp(min=0)).to(self.mask.dtype)
        return torch.where((rows.tokens < 0)[..., None], self.mask, vectors)

    def behind_product(self, number: int, name: str, read: Tensor, product: Tensor, rows: Rows) -> Tensor:
        """Change the products of masks # [batch, rows, outer]."""
        change = self.unmerged.get((number, name))
        if change is None or rows.blank is None:
            return product
        return torch.where(rows.blank[..., None], change(read, product), product)

    def behind_layer(self, number: int, state: Tensor, read: Tensor, rows: Rows) -> Tensor:  # noqa: ARG002 - protocol
        """Nothing is added behind a layer."""
        return state

    def behind_norm(self, state: Tensor, rows: Rows) -> Tensor:  # noqa: ARG002 - as above
        """Nothing is added behind the last one."""
        return state

    def packed(self, *, panels: bool) -> MaskRows:  # noqa: ARG002 - as above
        """The same: its matrices are narrow."""
        return self

    def parts(self, weights: str) -> tuple[Part, ...]:  # noqa: ARG002 - as above
        """Nothing is compiled for it."""
        return ()

    def compiled(self, rows: Rows, layers: int) -> None:
        """Compiled code does not know it: steps with masks are computed by torch's operations."""


def attach(model: LoadedModel, options: StridedOptions) -> int:
    """Give the model's forward the adapter beside its weights, once; the tokens of a step at most.

    Raises `SettingsError` where there is none, it does not fit, or the model cannot take one.
    """
    forward = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
    if not isinstance(forward, LlamaForward) or model.folder is None:
        raise SettingsError(
            f"Strided decoding needs a model of the Llama family in a folder, with an adapter in {FOLDER}/ beside its "
            f"weights, and {model.name} is none. Choose auto."
        )
    if not isinstance(forward.adapter, MaskRows):
        forward.attach(_read(model, forward, model.folder / FOLDER, options))
    assert isinstance(forward.adapter, MaskRows)  # noqa: S101 - for the type checker
    return options.stride or forward.adapter.stride


def _read(model: LoadedModel, forward: LlamaForward, folder: Path, options: StridedOptions) -> MaskRows:
    """Read an adapter, or nothing for a model that reads masks by itself. Raises `SettingsError`."""
    masks = None if (folder / LORA_CONFIG).is_file() else own_masks(folder.parent)
    if masks is not None:
        own = json.loads((folder.parent / "config.json").read_text(encoding="utf-8"))
        return MaskRows(_mask_vector(model, forward, options, own), {}, masks + 1)
    adapter = read_lora(folder)
    if any(change.magnitude is not None for change in adapter.changes.values()) or adapter.replaced:
        raise adapter.misfit("it does more than to add to products (DoRA, or whole parameters)")
    trained = read_lora_config(folder)
    masks = trained.get("block_size")
    stride = masks + 1 if isinstance(masks, int) and masks > 0 else _USUAL
    with torch.inference_mode():
        return MaskRows(_mask_vector(model, forward, options, trained), unmerged_products(forward, adapter), stride)


def _mask_vector(
    model: LoadedModel, forward: LlamaForward, options: StridedOptions, trained: Mapping[str, Any]
) -> Tensor:
    """The input vector of the mask token # [hidden]."""
    named = (options.mask, trained.get("mask_token_id"), getattr(model.tokenizer, "mask_token_id", None))
    mask = next((token for token in named if token is not None), None)
    if not isinstance(mask, int) or not 0 <= mask < model.vocabulary:
        raise SettingsError(
            f"Strided decoding needs a mask token of {model.name}, and mask={mask} is none. Name the one that the "
            'adapter was trained with: method_options={"strided": {"mask": 151669}}.'
        )
    with torch.inference_mode():
        return forward.read_in(torch.tensor([mask], device=model.device))[0].to(forward.dtype)
