"""Unmerged adapters of the Llama family: which rows use which, in torch's operations and in compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.model.adapters.row_adapter import Owned
from stretto.local_engine.model.forward.rows import Rows

if TYPE_CHECKING:
    from stretto.local_engine.model.adapters.attached_lora import UnmergedLora

_PRODUCTS = ("query_key_value", "output", "gate_up", "down")
"""Products of a layer, in the order of compiled code."""

Places = Mapping[tuple[int, str], "UnmergedLora"]
"""What an adapter adds, by layer number and product name."""


def adapters_of(names: Iterable[str | None]) -> tuple[str | None, ...] | None:
    """Return the value of `Rows.adapters` for sequences with these adapters."""
    given = tuple(names)
    return given if any(name is not None for name in given) else None


@dataclass(frozen=True, slots=True)
class _Adapter:
    """What one adapter adds, in torch and as compiled code reads it.

    Attributes:
        places: what it adds.
        spans: see `CompiledChanges.table` # [layers, 4, 2]
        lines: see `CompiledChanges.changes` # [changes, 6]
        widest: maximum total rank of the changes of a product.
        arrays: whose addresses are in ``lines``.
    """

    places: Places
    spans: NDArray[np.int64]
    lines: NDArray[np.int64]
    widest: int
    arrays: tuple[NDArray[np.float32], ...]

    @classmethod
    def of(cls, places: Places, layers: int) -> _Adapter:
        spans, widest = np.zeros((layers, len(_PRODUCTS), 2), np.int64), 1
        lines, arrays = list[list[int]](), list[NDArray[np.float32]]()
        for (layer, name), unmerged in places.items():
            begin, own = len(lines), 0
            for change in unmerged.changes:
                parts = [_array(change.down), _array(change.up.T)]
                if change.factor is not None:
                    parts.append(_array(change.factor))
                addresses = [each.ctypes.data for each in parts] + [0] * (3 - len(parts))
                arrays += parts
                lines.append([len(change.down), change.first, change.last, *addresses])
                own += len(change.down)
            spans[layer, _PRODUCTS.index(name)] = begin, len(lines)
            widest = max(widest, own)
        return cls(places, spans, np.array(lines, np.int64).reshape(-1, 6), widest, tuple(arrays))


class RowChanges:
    """The adapters of a Llama-family forward, by name. Immutable: adding an adapter creates a new object.

    Args:
        sizes: the width of the residual stream, and the number of layers.
        adapters: by name.
    """

    def __init__(self, sizes: tuple[int, int], adapters: Mapping[str, _Adapter] = MappingProxyType({})) -> None:
        self._sizes, self._adapters = sizes, adapters
        if adapters:
            starts = np.cumsum([0, *(len(each.lines) for each in adapters.values())])
            spans = [each.spans + start for each, start in zip(adapters.values(), starts, strict=False)]
            self._table, self._lines = np.stack(spans), np.concatenate([each.lines for each in adapters.values()])
        self._numbers = {name: number for number, name in enumerate(adapters)}
        self._widest = max((each.widest for each in adapters.values()), default=1)

    def __bool__(self) -> bool:
        return bool(self._adapters)

    def with_adapter(self, name: str, places: Places) -> RowChanges:
        """Return a copy with one more adapter."""
        return RowChanges(self._sizes, {**self._adapters, name: _Adapter.of(places, self._sizes[1])})

    def of(self, rows: Rows) -> list[tuple[Places, Tensor | None]]:
        """Return which changes apply to which rows, for `apply`. Rows do not include padding where it is left out."""
        if rows.adapters is None:
            return []
        batch, count = rows.tokens.shape
        if len({*rows.adapters}) == 1:
            return [(self._adapters[name].places, None) for name in rows.adapters[:1] if name is not None]
        indices = torch.arange(batch * count, device=rows.tokens.device) if rows.real is None else rows.real
        sequences, found = indices // count, list[tuple[Places, Tensor | None]]()
        for name in dict.fromkeys(filter(None, rows.adapters)):
            own = torch.tensor([each == name for each in rows.adapters], device=sequences.device)
            found.append((self._adapters[name].places, own[sequences].nonzero()[:, 0]))
        return found

    def compiled(self, rows: Rows) -> Owned:
        """Return the input of `stretto.local_engine.kernels.changes` for rows of which at least one has an adapter."""
        from stretto.local_engine.kernels.changes import CompiledChanges  # noqa: PLC0415 - it imports numba

        assert rows.adapters is not None  # noqa: S101 - the caller has checked; for the type checker
        batch, count = rows.tokens.shape
        numbers = np.array([-1 if name is None else self._numbers[name] for name in rows.adapters])
        indices = np.arange(batch * count) if rows.real is None else rows.real.numpy()
        chosen = numbers[indices // count]
        narrow, made = (np.empty((len(chosen), width), np.float32) for width in (self._widest, self._sizes[0]))
        return Owned(CompiledChanges(self._table, self._lines, chosen, narrow, made), self)


def apply(found: Iterable[tuple[Places, Tensor | None]], place: tuple[int, str], read: Tensor, made: Tensor) -> Tensor:
    """Add the changes of some rows to a product without its bias # [batch, rows, outer].

    Args:
        found: see `RowChanges.of`.
        place: layer number and product name.
        read: the multiplied rows # [batch, rows, inner]
        made: the product.
    """
    for places, rows in found:
        change = places.get(place)
        if change is None:
            continue
        if rows is None:
            made = change(read, made)
        else:
            flat = made.flatten(0, 1)
            some = change(read.flatten(0, 1)[rows], flat[rows])
            made = flat.index_copy(0, rows, some).view_as(made)
    return made


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())
