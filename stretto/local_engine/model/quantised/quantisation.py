"""Turns the weights of a model into blocks: as stored in a GGUF file, or rounded while the model is loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Generic, Protocol, TypeVar

import torch

from stretto.local_engine.kernels.arena import Arena
from stretto.local_engine.kernels.block_kinds import GROUP, BlockKind, block_kind
from stretto.local_engine.kernels.block_layout import Numbers
from stretto.local_engine.kernels.compiling import compiled_parts
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.forward.llama_layer import multiplied
from stretto.local_engine.model.quantised.blocks import Blocks, UnreadWeight, shape_of
from stretto.local_engine.model.quantised.kept_blocks import START, keep, mapped_blocks
from stretto.local_engine.model.quantised.rounding import WIDTHS, rounded_to

PRODUCTS = ("_proj.weight", "lm_head.weight", "embed_tokens.weight")
"""Suffixes of the names of weights that are stored in blocks."""

IN_BLOCKS = (compiled_parts.product(compiled_parts.BLOCKS),)
"""What has to be compiled before a model can run."""

_LINE = 64  # bytes of the processor's cache lines

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Quantisation(Protocol):
    """Provides the weights of a transformers model as low-bit numbers.

    Attributes:
        key: identifies these numbers for caching between loadings; empty if nothing is cached.
    """

    key: str

    def kind(self, module: Any, *, vectors: bool) -> BlockKind:
        """Return the format of a module's weight."""
        ...

    def reading(self, module: Any, *, vectors: bool) -> UnreadWeight:
        """Return a module's weight; ``vectors``: whether its lines are input or output vectors of tokens."""
        ...


class Rounding:
    """Rounds weights in memory.

    Args:
        how: ``int8`` or ``int4``. Vectors of tokens keep 8 bits, which is more accurate and costs little.
    """

    key = ""

    def __init__(self, how: str) -> None:
        self._how = how

    def kind(self, module: Any, *, vectors: bool) -> BlockKind:  # noqa: ARG002 - all have the same format
        return block_kind(WIDTHS["int8" if vectors else self._how])

    def reading(self, module: Any, *, vectors: bool) -> UnreadWeight:
        how, weight = "int8" if vectors else self._how, module.weight.data.detach()
        return UnreadWeight(
            block_kind(WIDTHS[how]), weight.shape, lambda lines: rounded_to(how, weight[lines].float().numpy())
        )


def rounding(how: str, model: Any, name: str) -> Rounding | None:
    """Return the rounding for a model; ``None``, with one warning, if compiled code cannot run it."""
    if is_llama_like(model) and fill_blocks(model):
        return Rounding(how)
    _log.warning(
        "%s is not kept quantised in memory: compiled code does not run %s of these sizes", name, type(model).__name__
    )
    return None


class StoredBlocks(Generic[T]):
    """Reads weights of a GGUF file as they are stored.

    Args:
        tensors: of the file, by transformers' names of the weights.
        kind: returns the format of a tensor.
        read: opens a tensor, and returns a function that reads some of its lines.
        key: see `Quantisation`.
    """

    def __init__(
        self,
        tensors: Mapping[str, T],
        kind: Callable[[T], BlockKind],
        read: Callable[[T], Callable[[slice], Numbers]],
        key: str,
    ) -> None:
        self._tensors, self._kind, self._read, self.key = tensors, kind, read, key
        self._modules: dict[Any, T] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def belong_to(self, model: Any) -> None:
        """Find the modules of a model."""
        tied = self._tensors["model.embed_tokens.weight"]
        self._modules = {
            module: self._tensors.get(f"{name}.weight", tied)
            for name, module in model.named_modules()
            if f"{name}.weight".endswith(PRODUCTS)
        }

    def kind(self, module: Any, *, vectors: bool) -> BlockKind:  # noqa: ARG002 - the file determines each format
        return self._kind(self._modules[module])

    def reading(self, module: Any, *, vectors: bool) -> UnreadWeight:
        return UnreadWeight(self.kind(module, vectors=vectors), module.weight.shape, self._read(self._modules[module]))


class Room:
    """Memory for all blocks of a model, in one piece: mapped from an earlier loading, or still to be filled.

    Attributes:
        mapped: bytes that are mapped.
    """

    def __init__(self, quantisation: Quantisation, model: Any) -> None:
        tables = {each.weight: each for each in (model.model.embed_tokens, model.lm_head)}  # the last, if they are tied
        every = [(each, False) for layer in model.model.layers for each in _flat(multiplied(layer))]
        every += [(each, True) for each in tables.values()]
        shapes = [shape_of(quantisation.kind(each, vectors=vectors), each.weight.shape) for each, vectors in every]
        ends = [*accumulate(-(-prod(shape) // _LINE) * _LINE for shape in shapes)]
        self._quantisation, size = quantisation, ends[-1]
        found = mapped_blocks(quantisation.key, size) if quantisation.key else None
        self.mapped = 0 if found is None else size
        self._memory = _memory(size) if found is None else torch.frombuffer(found, dtype=torch.uint8, offset=START)
        self._places = {
            each: self._memory[begin : begin + prod(shape)].view(shape)
            for (each, _), shape, begin in zip(every, shapes, [0, *ends[:-1]], strict=True)
        }

    def blocks_of(self, modules: Sequence[Any], *, vectors: bool = False) -> Blocks:
        """Return the weights of some modules, one below the other; see `Blocks.read`."""
        places, quantisation = [self._places[each] for each in modules], self._quantisation
        if self.mapped:
            kinds = [quantisation.kind(each, vectors=vectors) for each in modules]
            return Blocks.of_parts([*zip(kinds, (each.weight.shape for each in modules), strict=True)], places)
        return Blocks.read([quantisation.reading(each, vectors=vectors) for each in modules], places)

    def blocks_of_layer(self, layer: Any) -> Mapping[str, Blocks]:
        """Return a layer's products; see `stretto.local_engine.model.forward.llama_layer.Layer.products`."""
        return {name: self.blocks_of(modules) for name, modules in multiplied(layer).items()}

    def keep(self) -> None:
        """Cache the blocks for later loadings."""
        if self._quantisation.key and not self.mapped:
            keep(self._quantisation.key, self._memory.numpy())


def _memory(size: int) -> torch.Tensor:
    try:
        return Arena(size, 1).allocate((size,), torch.uint8)
    except OSError:  # torch reports whether there is no more memory
        return torch.empty(size, dtype=torch.uint8)


def fill_blocks(model: Any) -> bool:
    """Return whether the products of a Llama-family model fit into blocks: their sizes must be whole groups."""
    config = model.config
    width = model.model.layers[0].self_attn.head_dim
    sizes = [module.weight.shape for layer in model.model.layers for module in _flat(multiplied(layer))]
    return (
        width % PANEL == 0
        and config.hidden_size % GROUP == 0
        and all(outer % PANEL == 0 and inner % GROUP == 0 for outer, inner in sizes)
    )


def _flat(products: Mapping[str, Iterable[Any]]) -> list[Any]:
    return [module for modules in products.values() for module in modules]


def hollow_weight(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a weight of that shape without memory, in place of one that is stored elsewhere."""
    return torch.zeros((), dtype=dtype).expand(*shape)
