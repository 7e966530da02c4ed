"""[PAD] rows: tokens without text, at which a model predicts tokens beyond the next one.

The base model is not changed. Trained are an input vector for each position after the last known token, units parallel
to the feed-forward layers of the upper half, and a last layer that also reads the final state of the last known token,
which almost determines the next token. They act on [PAD] rows only; every other row is computed as without them.
Sun et al., "Lexical unit decoding", arXiv:2405.15208, where the whole model is trained; units parallel to the
feed-forward layer: He et al., arXiv:2110.04366.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding

from stretto.local_engine.kernels.compiling import compiled_parts
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import have_compiled
from stretto.local_engine.kernels.panels import Panels, held_as, kind_of
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.model.adapters.adapter_files import fingerprint, read_tensors, write_tensors
from stretto.local_engine.model.adapters.row_adapter import Owned
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.products import Layout, Weight, added_product, layout_for, packed, product
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.lexical import FILE
from stretto.local_engine.research.lexical.lexical_drafter import UNITS
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.research.lexical.compiled.pads import CompiledPads

_TRIAL = "stretto.local_engine.research.lexical.compiled.pads:trial"


@dataclass(frozen=True, slots=True)
class AnchoredRows(Rows):
    """Rows whose anchors are not given by their ancestry, as in training."""

    def anchored(self, states: Tensor) -> Tensor:
        """Return for each row the state of its anchor, the last known token before it # [batch, rows, hidden]."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PadLayer:
    """Units parallel to a layer, for [PAD] rows, with matrices as for `torch.nn.functional.linear`."""

    units_in: Weight  # [units, hidden]
    units_out: Weight  # [hidden, units]

    def __call__(self, state: Tensor, read: Tensor, rows: Rows) -> Tensor:
        """Add the units' output for ``read`` # [batch, rows, hidden] to the residual stream, at [PAD] rows."""
        units = product(read, self.units_in, rectified=True)  # [batch, rows, units]
        if rows.blank is not None:
            units = units * rows.blank[..., None].to(state.dtype)
        return added_product(units, self.units_out, state)

    def packed(self, layout: Layout | None) -> PadLayer:
        """Return a copy laid out for the processor; see `stretto.local_engine.model.forward.products`."""
        return PadLayer(packed(self.units_in, layout), packed(self.units_out, layout))


@dataclass(frozen=True, slots=True)
class PadAdapter:
    """All trained parts for [PAD] rows; see `stretto.local_engine.model.adapters.row_adapter.RowAdapter`.

    The [PAD] number i after the last known token has the token id ``-1 - i``. No model can choose it, so it is never
    committed.

    Attributes:
        places: input vector of each [PAD] in turn; k - 1 of them for k tokens at once # [places, hidden]
        layers: units by the number of the base model's layer.
        last: units after the last layer; they read final states of a row and its anchor # [batch, rows, 2 * hidden]
        _known: cached form for compiled code; ``None`` if that cannot run it.
    """

    places: Tensor
    layers: Mapping[int, PadLayer]
    last: PadLayer
    _known: list[CompiledPads | None] = field(default_factory=list, repr=False, compare=False)

    def embed(self, rows: Rows, read_in: Callable[[Tensor], Tensor]) -> Tensor:
        """Look up the input vectors of tokens and [PAD]s # [batch, rows, hidden]."""
        own = embedding((-1 - rows.tokens).clamp(min=0), self.places)
        return torch.where((rows.tokens < 0)[..., None], own, read_in(rows.tokens.clamp(min=0)))

    def after_layer(self, number: int, state: Tensor, read: Tensor, rows: Rows) -> Tensor:
        """Add a layer's units to the residual stream # [batch, rows, hidden]."""
        return self.layers[number](state, read, rows) if number in self.layers else state

    def after_norm(self, state: Tensor, rows: Rows) -> Tensor:
        """Add the last units to the final states # [batch, rows, hidden]."""
        return self.last(state, torch.cat((state, _anchored(state, rows)), -1), rows)

    def packed(self, *, panels: bool) -> PadAdapter:
        """Return a copy whose matrices are laid out for the processor, in panels or as torch does."""
        layout = None
        if panels:
            layout = layout_for(self.dense())
        layers = {number: layer.packed(layout) for number, layer in self.layers.items()}
        return PadAdapter(self.places.float() if panels else self.places, layers, self.last.packed(layout))

    def parts(self, weights: str) -> tuple[Part, ...]:
        """Return the parts to compile for it, with a model whose weights are of this kind."""
        dense = self.dense()
        kind = kind_of(dense, held_as(dense))
        return compiled_parts.product(kind), Part(f"forward-{weights}-pads-{kind}", _TRIAL, (weights, kind))

    def compiled(self, rows: Rows, layers: int) -> Owned | None:
        """Return it for the compiled forward; ``None`` if not all matrices are full panels of one type.

        Raises `IndexError` for an unknown [PAD].
        """
        if rows.blank is None or rows.real is not None:
            return None
        if not self._known:
            self._known.append(self._compiled(layers))
        known = self._known[0]
        if known is None:
            return None
        if rows.tokens.min() < -len(self.places):
            raise IndexError(f"a [PAD] is none of the adapter's {len(self.places)}")
        count, hidden = rows.tokens.numel(), self.places.shape[1]
        pads = known._replace(
            padded=np.ascontiguousarray(rows.blank.numpy()).reshape(-1),
            added=np.empty((count, hidden), np.float32),
            units=np.empty(count * int(known.layers[:, 2].max()), np.float32),
        )
        return Owned(pads, self)

    def _compiled(self, layers: int) -> CompiledPads | None:
        from stretto.local_engine.research.lexical.compiled.pads import CompiledPads  # noqa: PLC0415 - numba

        table: list[list[int]] = []
        likes: dict[np.dtype[Any], NDArray[np.generic]] = {}
        for layer in (*(self.layers.get(number) for number in range(layers)), self.last):
            if layer is None:
                table.append([0, 0, 0])
                continue
            first, second = layer.units_in, layer.units_out
            if not (isinstance(first, Panels) and isinstance(second, Panels)) or first.outer % PANEL:
                return None
            likes |= {each.like.dtype: each.like for each in (first, second)}
            table.append([first.address, second.address, first.outer])
        if len(likes) != 1:
            return None
        (like,), nothing = likes.values(), np.empty(0, np.float32)
        return CompiledPads(
            like, self.places.numpy(), np.array(table, np.int64), np.empty(0, np.bool_), nothing[None], nothing
        )

    def dense(self) -> list[Tensor]:
        return [part for name, part in self.tensors().items() if name != "places"]

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        named: dict[str, Weight] = {
            "places": self.places,
            "last.units_in": self.last.units_in,
            "last.units_out": self.last.units_out,
        }
        for number, layer in self.layers.items():
            named |= {f"layers.{number}.units_in": layer.units_in, f"layers.{number}.units_out": layer.units_out}
        return {name: part if isinstance(part, Tensor) else part.dense() for name, part in named.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> PadAdapter:
        """Make an adapter from the result of `tensors`."""
        numbers = sorted(int(name.split(".")[1]) for name in tensors if name.startswith("layers.") and "_in" in name)

        def layer(prefix: str) -> PadLayer:
            return PadLayer(tensors[f"{prefix}.units_in"], tensors[f"{prefix}.units_out"])

        return cls(tensors["places"], {number: layer(f"layers.{number}") for number in numbers}, layer("last"))


def _anchored(states: Tensor, rows: Rows) -> Tensor:
    """Return for each row the state of its anchor: the nearest ancestor, or the row itself, that is not a [PAD].

    Args:
        states: states of all rows # [batch, rows, hidden]
        rows: the rows.
    """
    if isinstance(rows, AnchoredRows):
        return rows.anchored(states)
    if rows.ancestry is None or rows.blank is None:
        return states
    numbers = torch.arange(1, states.shape[1] + 1, device=states.device)
    nearest = (rows.ancestry & ~rows.blank[:, None]) * numbers  # [batch, rows, rows]
    return states.take_along_dim(nearest.argmax(-1)[..., None], 1)


def write_adapter(path: Path, adapter: PadAdapter, base: str) -> None:
    """Write an adapter, in bfloat16, with the `fingerprint` of the weights it was trained on."""
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
    """Attach the adapter to the model's forward, once, and return the number of [PAD]s it was trained for.

    Raises `SettingsError` if the model has none, it belongs to other weights, or the model cannot take one.
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
                f"{model.name} has no adapter for lexical unit decoding: an adapter is next to the weights in a "
                "folder. Save the model to one, train an adapter in a checkout of Stretto's source with python -m "
                "recipes.lexical.train --model local:./folder --texts FOLDER, and use that name."
            )
        path = model.folder / FILE
        adapter = read_adapter(path, fingerprint(model.folder), model.name, model.dtype, model.device)
        have_compiled([UNITS, *forward.parts_for(adapter)], wanted=model.compiled)
        forward.attach(adapter)
    return len(adapter.places)
