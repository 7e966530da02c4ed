"""What reads blank rows: rows without a token, of which a draft may have some (see `DraftTree.tokens`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.model.forward.rows import Rows

__all__ = ["Owned", "RowAdapter"]


@dataclass(frozen=True, slots=True)
class Owned:
    """What compiled code is given of an adapter. It holds addresses, and another thread may take the adapter away.

    So who runs compiled code with ``given`` keeps this until that has ended.

    Attributes:
        given: see `stretto.local_engine.kernels.blanks`.
        owner: of the memory at the addresses.
    """

    given: Any
    owner: object


class RowAdapter(Protocol):
    """Lets a model predict something at blank rows. Every other row is computed as without it."""

    def embed(self, rows: Rows, read_in: Callable[[Tensor], Tensor]) -> Tensor:
        """Look up the input vectors of all rows, those of tokens by ``read_in`` # [batch, rows, hidden]."""
        ...

    def behind_layer(self, number: int, state: Tensor, read: Tensor, rows: Rows) -> Tensor:
        """The residual stream behind a layer, whose feed-forward has read ``read`` # [batch, rows, hidden]."""
        ...

    def behind_norm(self, state: Tensor, rows: Rows) -> Tensor:
        """The final states, behind the last norm # [batch, rows, hidden]."""
        ...

    def packed(self, *, panels: bool) -> RowAdapter:
        """The same with its matrices laid out for the processor, in panels or as torch does."""
        ...

    def parts(self, weights: str) -> tuple[Part, ...]:
        """What has to be compiled for it, with a model whose weights are of this kind."""
        ...

    def compiled(self, rows: Rows, layers: int) -> Owned | None:
        """Itself for compiled code; ``None`` where compiled code cannot run these rows.

        Raises `IndexError` for a blank row that it does not know.
        """
        ...
