"""Linear layers of transformers' own code that add what the thread wants them to add."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from stretto.local_engine.model.beside import Beside

__all__ = ["changing", "listen"]

_here = threading.local()


@contextmanager
def changing(changes: Mapping[str, Beside]) -> Iterator[None]:
    """Let the linear layers with these names be changed in this thread."""
    _here.changes = changes
    try:
        yield
    finally:
        _here.changes = {}


def listen(module: Any, name: str) -> None:
    """Let a linear layer look for its change, once however many adapters there are."""
    if getattr(module, "stretto_listens", False):
        return
    module.stretto_listens = True

    def changed(own: Any, given: tuple[Tensor, ...], product: Tensor) -> Tensor:
        change: Beside | None = getattr(_here, "changes", {}).get(name)
        if change is None:
            return product
        if own.bias is None:
            return change(given[0], product)
        with_bias: Tensor = change(given[0], product - own.bias) + own.bias
        return with_bias

    module.register_forward_hook(changed)
