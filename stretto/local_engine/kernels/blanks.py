"""Hooks of an adapter in a compiled forward: for blank rows, whose token is negative, and for products.

Without an adapter, ``None`` is passed, no row is blank, and none of this is compiled. An adapter is a NamedTuple of
arrays; its module implements these functions for its type with `numba.extending.overload`.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import overload

from stretto.local_engine.kernels.tiles import multiply_part


def read_in(adapter: Any, token: Any, target: Any) -> None:
    """Write the input vector of a negative token # [hidden]."""
    raise NotImplementedError


def behind_layer(adapter: Any, layer: Any, read: Any, state: Any, counter: Any, part: Any, parts: Any) -> None:
    """Add one part to the state of the blank rows after a layer.

    Args:
        adapter: see above.
        layer: its number.
        read: input of the layer's feed-forward # [count, hidden]
        state: the residual stream # [count, hidden]
        counter: address for `stretto.local_engine.kernels.vectors.barrier`; on return, all parts have arrived there.
        part: index of this part.
        parts: number of parts.
    """
    raise NotImplementedError


def behind_norm(adapter: Any, inputs: Any, state: Any, counter: Any, part: Any, parts: Any) -> None:
    """Add one part to the final state of the blank rows, after the last norm; see `behind_layer`."""
    raise NotImplementedError


def multiply(
    adapter: Any, like: Any, layer: Any, place: Any, rows: Any, weight: Any, result: Any, add: Any, counter: Any,
    part: Any, parts: Any,
) -> None:  # fmt: skip
    """Compute one part of a product of a layer; see `multiply_part`.

    Args:
        adapter: see above.
        like: see `multiply_part`.
        layer: its number.
        place: index of the product in the layer, see `stretto.local_engine.kernels.forward.Weights.products`.
        rows: float32 # [count, inner]
        weight: its address.
        result: # [count, outer]
        add: 1 to add to the result, 0 to replace it.
        counter: see `behind_layer`; the parts need not have arrived there on return.
        part: index of this part.
        parts: number of parts.
    """
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


@overload(multiply)
def _plain_product(adapter, like, layer, place, rows, weight, result, add, counter, part, parts):  # noqa: ARG001
    if isinstance(adapter, types.NoneType):
        return lambda adapter, like, layer, place, rows, weight, result, add, counter, part, parts: multiply_part(  # noqa: ARG005
            like, rows, weight, result, add, part, parts
        )
    return None
