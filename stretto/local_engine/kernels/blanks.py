"""What an adapter does with blank rows in a compiled forward: those whose token is negative.

Without an adapter, ``None`` is passed for it, no row is blank, and nothing of this is compiled. An adapter is a
NamedTuple of arrays; its module gives these functions an implementation for its type, by `numba.extending.overload`.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

__all__ = ["behind_layer", "behind_norm", "read_in"]


def read_in(adapter: Any, token: Any, target: Any) -> None:
    """Write the input vector of a negative token # [hidden]."""
    raise NotImplementedError


def behind_layer(adapter: Any, layer: Any, read: Any, state: Any, counter: Any, part: Any, parts: Any) -> None:
    """Add one part to the state of the blank rows behind a layer.

    Args:
        adapter: see above.
        layer: its number.
        read: what the layer's feed-forward has read # [count, hidden]
        state: the residual stream # [count, hidden]
        counter: address for `stretto.local_engine.kernels.vectors.barrier`; on return, all parts have arrived there.
        part: this one.
        parts: their number.
    """
    raise NotImplementedError


def behind_norm(adapter: Any, inputs: Any, state: Any, counter: Any, part: Any, parts: Any) -> None:
    """Add one part to the final state of the blank rows, behind the last norm; see `behind_layer`."""
    raise NotImplementedError


@overload(read_in)
def _nothing_read(adapter, token, target):  # noqa: ARG001 - numba calls all of these by name
    if isinstance(adapter, types.NoneType):
        return lambda adapter, token, target: None  # noqa: ARG005
    return None


@overload(behind_layer)
def _nothing_behind_layer(adapter, layer, read, state, counter, part, parts):  # noqa: ARG001
    if isinstance(adapter, types.NoneType):
        return lambda adapter, layer, read, state, counter, part, parts: None  # noqa: ARG005
    return None


@overload(behind_norm)
def _nothing_behind_norm(adapter, inputs, state, counter, part, parts):  # noqa: ARG001
    if isinstance(adapter, types.NoneType):
        return lambda adapter, inputs, state, counter, part, parts: None  # noqa: ARG005
    return None
