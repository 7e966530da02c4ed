"""The protocol of adapters for blank rows: rows of a draft without a token (see `DraftTree.tokens`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.model.forward.rows import Rows


@dataclass(frozen=True, slots=True)
class Owned:
    """The input of compiled code for an adapter. It contains addresses, and another thread can remove the adapter.

    So callers that run compiled code with ``given`` must keep this object until that has ended.

    Attributes:
        given: see `stretto.local_engine.kernels.blanks`.
        owner: of the memory at the addresses.
    """

    given: Any
    owner: object


class RowAdapter(Protocol):
    """Lets a model predict something at blank rows. Every other row is computed as without it."""

    def embed(self, rows: Rows, read_in: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the input vectors of all rows, with ``read_in`` for those of tokens # [batch, rows, hidden]."""
        ...

    def after_layer(self, number: int, state: Tensor, read: Tensor, rows: Rows) -> Tensor:
        """Return the residual stream after a layer whose feed-forward read ``read`` # [batch, rows, hidden]."""
        ...

    def after_norm(self, state: Tensor, rows: Rows) -> Tensor:
        """Return the final states, after the last norm # [batch, rows, hidden]."""
        ...

    def packed(self, *, panels: bool) -> RowAdapter:
        """Return a copy with its matrices laid out for the processor, in panels or as torch does."""
        ...

    def parts(self, weights: str) -> tuple[Part, ...]:
        """Return what has to be compiled for it, with a model whose weights are of this kind."""
        ...

    def compiled(self, rows: Rows, layers: int) -> Owned | None:
        """Return the adapter for compiled code; ``None`` if compiled code cannot run these rows.

        Raises `IndexError` for an unknown blank row.
        """
        ...
