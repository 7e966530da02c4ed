"""One forward of the model over some rows: the protocol."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows

__all__ = ["Forward"]


class Forward(Protocol):
    """Scores rows and writes their keys and values."""

    @property
    def packs(self) -> bool:
        """Whether it leaves padding out, so that a step costs by its real rows."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether the logits of a row have the same bits whatever other rows there are."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it runs one sequence after the other, and drafts must be chains."""
        ...

    @property
    def switch(self) -> int | None:
        """Texts longer than this are read again from the first token on; see ``rotary.py``."""
        ...

    @property
    def longest(self) -> int | None:
        """Tokens of a text at most, where they are fewer than the context window holds."""
        ...

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run the model over ``rows``.

        Args:
            rows: tokens and positions # [batch, rows]; where they name layers, their hidden states are handed out,
                see `Rows.states`.
            cache: keys and values before these rows; theirs are written to it.
            keep: rows whose logits are wanted, the same of each sequence # [kept]

        Returns:
            logits # [batch, kept, vocabulary]
        """
        ...
