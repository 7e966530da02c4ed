"""The memory layout of a Llama model's weights: that of torch, or packed as the processor reads them fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.foundation.threads import LateExecutor
from stretto.local_engine.kernels.compiling import compiled_parts
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.panels import Panels, held_as, kind_of
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.model.forward.llama_family import norm_weight
from stretto.local_engine.model.forward.llama_layer import Layer, Norm, let_go, own, take, take_back
from stretto.local_engine.model.forward.products import Weight, layout_for, packed, unpacked
from stretto.local_engine.model.loading.memory import Freed

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.llama_family import Family
    from stretto.local_engine.model.quantised.blocks import Blocks
    from stretto.local_engine.model.quantised.quantisation import Quantisation

_IN_PANELS = (torch.float32, torch.bfloat16, torch.float16)
_SMALL = 2**26  # up to this many weights, a step on a CPU is mostly spent between its products


class LlamaWeights:
    """The weights of a Llama model of transformers; those with the same inputs are joined.

    Attributes:
        embedding: input vectors # [vocabulary, hidden]
        layers: in their order.
        norm: after the last layer.
        vocabulary: of the last product # [vocabulary, hidden]
        dtype: in which the model was loaded.
        in_panels: whether they are laid out for compiled code.
        is_widened: whether torch computes the products with blocks.
        quantisation: layout of low-bit blocks, if the model has any.
        kind: of the panels, see `stretto.local_engine.kernels.panels.kind_of`; empty before `parts` and without panels.
        runs_whole: whether compiled code will run the whole forward.
        mapped: bytes of a mapped file in memory, which the system would count as free.
    """

    def __init__(self, model: Any, family: Family, quantisation: Quantisation | None) -> None:
        config, inner = model.config, model.model
        heads, epsilon = (config.num_attention_heads, config.num_key_value_heads), config.rms_norm_eps
        self.quantisation = quantisation
        self._width: int = inner.layers[0].self_attn.head_dim
        own((inner.embed_tokens.weight, inner.norm.weight, model.lm_head.weight))
        embedding: Tensor = inner.embed_tokens.weight.data
        self.dtype, self._device = embedding.dtype, embedding.device
        self._is_tied = model.lm_head.weight is inner.embed_tokens.weight
        self.embedding: Weight = embedding
        self.norm = Norm(norm_weight(inner.norm), epsilon)
        self.vocabulary: Weight = model.lm_head.weight.data
        self.layers: list[Layer] = []
        freed = Freed()
        for layer, window in zip(inner.layers, family.windows, strict=True):
            self.layers.append(take(layer, window, heads, epsilon))
            freed.add(self.layers[-1].nbytes)
        self.in_panels = self.is_widened = False
        self.kind, self.runs_whole, self.mapped = "", False, 0
        self._panel_dtype: torch.dtype | None = None  # see `held_as`

    def parts(self) -> tuple[Part, ...]:
        """Return what `pack` needs compiled; nothing if torch's kernels are faster."""
        if self.quantisation is not None:
            self.kind, self.runs_whole = compiled_parts.BLOCKS, True
            return compiled_parts.product(self.kind), compiled_parts.forward(self.kind)
        weights = self._dense()
        if not self._better_in_panels(weights):
            return ()
        self._panel_dtype = held_as(weights)
        self.kind = kind_of(weights, self._panel_dtype)
        self.runs_whole = self._fill_panels(weights[1:])
        return compiled_parts.product(self.kind), *((compiled_parts.forward(self.kind),) if self.runs_whole else ())

    def pack(self, model: Any) -> bool:
        """Pack the weights, and free each layer of ``model`` afterwards, unless it is ``None``.

        Returns whether compiled code can run the whole forward now.
        """
        if self.quantisation is not None and model is not None:
            self._pack_blocks(model, self.quantisation)
            return True
        weights = self._dense()
        self.in_panels, fill = self._better_in_panels(weights), self._fill_panels(weights[1:])
        layout = None
        if self.in_panels:
            layout = layout_for(weights, dtype=self._panel_dtype)
            self.kind = kind_of(weights, layout.dtype)
            self.norm = self.norm.as_type(torch.float32)
        del weights

        def pack_layer(number: int) -> None:
            layer = self.layers[number] if layout is None else self.layers[number].as_type(torch.float32)
            self.layers[number] = layer.packed(layout)
            if model is not None:
                let_go(model.model.layers[number])
                freed.add(layer.nbytes)

        freed = Freed()
        with LateExecutor(torch.get_num_threads()) as pool:  # torch uses one thread to lay out a weight
            for _ in pool.map(pack_layer, range(len(self.layers))):
                pass
        self.vocabulary = packed(self.vocabulary, layout)
        if self._is_tied and isinstance(self.vocabulary, Panels):
            self.embedding = self.vocabulary
        if model is not None:
            for module in (model.lm_head, model.model.embed_tokens):
                freed.add(module.weight.nbytes)
                module.weight.data = module.weight.data.new_empty(0)
        return self.in_panels and fill

    def _pack_blocks(self, model: Any, quantisation: Quantisation) -> None:
        """Store the weights in few bits, layer by layer, and free those of the model."""
        from stretto.local_engine.model.quantised.quantisation import Room  # noqa: PLC0415 - only if it is needed

        room = Room(quantisation, model)
        self.in_panels, self.norm, freed = True, self.norm.as_type(torch.float32), Freed()

        def pack_layer(number: int) -> None:
            layer, of_model = self.layers[number].as_type(torch.float32), model.model.layers[number]
            blocks: dict[str, Any] = {**room.blocks_of_layer(of_model)}
            self.layers[number] = replace(layer, **blocks)
            let_go(of_model)
            freed.add(layer.nbytes)

        def pack_table(module: Any) -> Blocks:
            table = room.blocks_of([module], vectors=True)
            module.weight.data = module.weight.data.new_empty(0)
            return table

        last, first = model.lm_head, model.model.embed_tokens
        with LateExecutor(torch.get_num_threads()) as pool:  # each is laid out by one thread
            tables = [pool.submit(pack_table, each) for each in ([last] if self._is_tied else [last, first])]
            for _ in pool.map(pack_layer, range(len(self.layers))):
                pass
            self.vocabulary, self.embedding = tables[0].result(), tables[-1].result()
        for module in (last, first):
            module.weight.data = module.weight.data.new_empty(0)
        self.mapped = room.mapped
        room.keep()

    def widen(self) -> bool:
        """Let torch compute the products with blocks from now on. Returns False if it does already."""
        if not isinstance(self.vocabulary, Panels) or self.is_widened:
            return False
        self.is_widened = True
        for number, layer in enumerate(self.layers):
            products: dict[str, Any] = {name: _widened(weight) for name, weight in layer.products.items()}
            self.layers[number] = replace(layer, **products)
        self.vocabulary = _widened(self.vocabulary)
        return True

    def unpack(self, model: Any) -> None:
        """Undo `pack`, and give the transformers model its weights back."""
        self.in_panels = False
        for number, layer in enumerate(self.layers):
            self.layers[number] = layer.unpacked(self.dtype).as_type(self.dtype)
            take_back(model.model.layers[number], self.layers[number])
        self.norm = self.norm.as_type(self.dtype)
        self.vocabulary = unpacked(self.vocabulary, self.dtype)
        self.embedding = self.vocabulary if self._is_tied else unpacked(self.embedding, self.dtype).to(self.dtype)
        model.lm_head.weight.data, model.model.embed_tokens.weight.data = self.vocabulary, self.embedding

    def _dense(self) -> list[Tensor]:
        """Return the weights of all products before packing, that of the vocabulary first."""
        every = [self.vocabulary, *(weight for layer in self.layers for weight in layer.products.values())]
        return [weight for weight in every if isinstance(weight, Tensor)]

    def _fill_panels(self, weights: Sequence[Tensor]) -> bool:
        """Return whether compiled code can run the whole forward: no layer output needs padding to whole panels."""
        return self._width % PANEL == 0 and not any(weight.shape[0] % PANEL for weight in weights)

    def _better_in_panels(self, weights: Sequence[Tensor]) -> bool:
        """Return whether compiled code, which reads panels, is faster than torch's kernels.

        In half precision it has to run the whole model. If the processor multiplies matrices of bfloat16 (AMX), torch's
        kernels read prompts of a large model much faster.
        """
        if self._device.type != "cpu" or self.dtype not in _IN_PANELS:
            return False
        if self.dtype == torch.float32:
            return True
        if self._width % PANEL or any(weight.shape[0] % PANEL for weight in weights):
            return False
        large = sum(weight.numel() for weight in weights) > _SMALL
        return not (large and self.dtype == torch.bfloat16 and torch.cpu._is_amx_tile_supported())


def _widened(weight: Weight) -> Weight:
    from stretto.local_engine.model.quantised.blocks import Blocks  # noqa: PLC0415 - only if it is needed

    return weight.widened() if isinstance(weight, Blocks) else weight
