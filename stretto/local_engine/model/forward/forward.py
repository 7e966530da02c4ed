"""The protocol of a forward of the model over some rows."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows


class Forward(Protocol):
    """Scores rows and writes their keys and values."""

    @property
    def packs(self) -> bool:
        """Whether it leaves out padding, so that the cost of a step depends on its real rows."""
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
        """Length above which texts are read again from the first token on; see ``rotary.py``."""
        ...

    @property
    def longest(self) -> int | None:
        """Maximum tokens of a text, if that is less than the context window."""
        ...

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run the model over ``rows``.

        Args:
            rows: tokens and positions # [batch, rows]; if they request hidden states of layers, these are returned
                there, see `Rows.states`.
            cache: keys and values before these rows; those of the rows are written to it.
            keep: rows whose logits are wanted, the same for each sequence # [kept]

        Returns:
            logits # [batch, kept, vocabulary]
        """
        ...
