"""A lean forward of the Llama family: Llama, Mistral, Qwen2 and Qwen3.

A step of a small model in transformers' own modelling code takes as much time between the operations as in them. This
forward does only what is needed: one product gives query, key and value, another the gate and the first feed-forward
matrix; queries and keys are rotated together. The weights are shared with the transformers model.

Touvron et al., arXiv:2302.13971 (Llama); Zhang and Sennrich, arXiv:1910.07467 (RMSNorm); Su et al., arXiv:2104.09864
(rotary positions); Shazeer, arXiv:2002.05202 (SwiGLU).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, rms_norm, silu

from stretto.errors import SettingsError
from stretto.foundation.late_executor import LateExecutor
from stretto.local_engine.kernels import parts
from stretto.local_engine.kernels.compiler import are_ready
from stretto.local_engine.kernels.panels import Panels, held_as, kind_of
from stretto.local_engine.kernels.parts import Part
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.model.attention import Attention, unpack
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.changes import Places, RowChanges, apply
from stretto.local_engine.model.layer_states import LAST
from stretto.local_engine.model.llama_layer import Layer, Norm, let_go, own, take, take_back
from stretto.local_engine.model.memory import Freed
from stretto.local_engine.model.products import Weight, layout_for, packed, product, unpacked
from stretto.local_engine.model.row_adapter import RowAdapter
from stretto.local_engine.model.rows import Rows

if TYPE_CHECKING:
    from stretto.local_engine.model.compiled import CompiledModel
    from stretto.local_engine.model.quantised.quantisation import Quantisation

__all__ = ["LlamaForward", "is_llama_like"]

_FAMILY = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
_IN_PANELS = (torch.float32, torch.bfloat16, torch.float16)
_SMALL = 2**26  # weights up to which a step on a CPU is spent between its products
_PRODUCTS = ("_proj", "lm_head")
_FIXED_ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})


def is_llama_like(model: Any) -> bool:
    """Whether `LlamaForward` can run this transformers model."""
    config = model.config
    return (
        type(model).__module__.startswith("transformers.models.")
        and type(model).__name__ in _FAMILY
        and config.hidden_act == "silu"
        and not getattr(config, "mlp_bias", False)
        and getattr(model.model.rotary_emb, "rope_type", None) in _FIXED_ROTATIONS
        and set(getattr(config, "layer_types", None) or ()) <= {"full_attention", "sliding_attention"}
        and _is_dense(model)
    )


def _is_dense(model: Any) -> bool:
    """Whether all products are of plain weights: no quantised ones, no adapters around them."""
    products = [module for name, module in model.named_modules() if name.endswith(_PRODUCTS)]
    return bool(products) and all(
        type(module) is torch.nn.Linear
        and type(module.weight) is torch.nn.Parameter
        and type(module.weight.data) is Tensor
        and module.weight.is_floating_point()
        and module.weight.dtype == model.dtype
        for module in products
    )


class LlamaForward:
    """Runs a model for which `is_llama_like` holds; see `stretto.local_engine.model.forward.Forward`."""

    packs = True
    """Padding is left out everywhere except in torch's attention, so a forward costs by its real rows."""
    alone = False
    switch: int | None = None
    longest: int | None = None

    def __init__(self, model: Any, quantisation: Quantisation | None = None) -> None:
        config, inner = model.config, model.model
        self.quantisation = quantisation
        self._heads = config.num_attention_heads
        self._stored = config.num_key_value_heads
        self._width = inner.layers[0].self_attn.head_dim
        self.epsilon: float = config.rms_norm_eps
        own((inner.embed_tokens.weight, inner.norm.weight, model.lm_head.weight))
        embedding: Tensor = inner.embed_tokens.weight.data
        self._weights_dtype, self._device = embedding.dtype, embedding.device
        self._sizes = (*embedding.shape, len(inner.layers))
        self._is_tied = model.lm_head.weight is inner.embed_tokens.weight
        self._embedding: Weight = embedding
        self._norm = Norm(inner.norm.weight.data, self.epsilon)
        self._vocabulary: Weight = model.lm_head.weight.data
        self._frequencies: Tensor = inner.rotary_emb.inv_freq.float()  # [head_dim / 2]
        self._amplitude: float = inner.rotary_emb.attention_scaling
        kinds = getattr(config, "layer_types", None)
        window = getattr(config, "sliding_window", None)
        self._layers: list[Layer] = []
        freed = Freed()
        for number, layer in enumerate(inner.layers):
            slides = kinds is None or kinds[number] == "sliding_attention"
            self._layers.append(take(layer, window if slides else None, self.heads, self.epsilon))
            freed.add(self._layers[-1].nbytes)
        windows = {layer.window for layer in self._layers}
        self._attention = Attention(self._stored, self._heads // self._stored, windows)
        self.is_packed, self._in_panels = False, False
        self.adapter: RowAdapter | None = None
        self._changes = RowChanges({}, self._sizes[1:])
        self._changes_compiled = False  # whether compiled code can run rows with adapters
        self._packing = threading.Lock()
        self._compiled: CompiledModel | None = None
        self._held: torch.dtype | None = None  # see `held_as`
        self._kind, self._runs_whole = "", False  # see `kind_of`, and whether compiled code will run all of it

    def parts(self) -> tuple[Part, ...]:
        """What `pack` needs compiled; nothing where torch's kernels are faster."""
        if self.quantisation is not None:
            self._kind, self._runs_whole = parts.BLOCKS, True
            return parts.product(self._kind), parts.forward(self._kind)
        weights = self._dense()
        if not self._better_in_panels(weights):
            return ()
        self._held = held_as(weights)
        self._kind = kind_of(weights, self._held)
        self._runs_whole = self._fill_panels(weights[1:])
        return parts.product(self._kind), *((parts.forward(self._kind),) if self._runs_whole else ())

    def pack(self, model: Any = None) -> None:
        """Lay the weights out as the processor reads them, where it can (see `stretto.local_engine.model.products`).

        No gradient flows through packed weights. What `parts` says has to be compiled.

        Args:
            model: of transformers, from which the weights were taken. It is let go of them, each layer when it is
                packed, and cannot run any more unless `unpack` follows. Without it, they stay where they are.
        """
        with self._packing:
            if self.quantisation is not None and model is not None:
                self._pack_blocks(model, self.quantisation)
            else:
                self._pack(model)

    def _pack(self, model: Any) -> None:
        weights = self._dense()
        self._in_panels, fill = self._better_in_panels(weights), self._fill_panels(weights[1:])
        layout = None
        if self._in_panels:
            layout = layout_for(weights, dtype=self._held)
            self._kind = kind_of(weights, layout.dtype)
            self._norm = self._norm.as_type(torch.float32)
        del weights

        def pack_layer(number: int) -> None:
            layer = self._layers[number] if layout is None else self._layers[number].as_type(torch.float32)
            self._layers[number] = layer.packed(layout)
            if model is not None:
                let_go(model.model.layers[number])
                freed.add(layer.nbytes)

        freed = Freed()
        with LateExecutor(torch.get_num_threads()) as pool:  # torch lays a weight out with one thread
            for _ in pool.map(pack_layer, range(len(self._layers))):
                pass
        self._vocabulary = packed(self._vocabulary, layout)
        if self._is_tied and isinstance(self._vocabulary, Panels):
            self._embedding = self._vocabulary
        if model is not None:
            for module in (model.lm_head, model.model.embed_tokens):
                freed.add(module.weight.nbytes)
                module.weight.data = module.weight.data.new_empty(0)
        self._end_packing(whole=self._in_panels and fill)

    def _pack_blocks(self, model: Any, quantisation: Quantisation) -> None:
        """Hold the weights in few bits, a layer at a time, and let the model go of them."""
        from stretto.local_engine.model.quantised.quantisation import (  # noqa: PLC0415 - only where it is wanted
            arena_for,
            blocks_of,
            blocks_of_layer,
        )

        arena = arena_for(quantisation, model)
        self._in_panels, self._norm, freed = True, self._norm.as_type(torch.float32), Freed()

        def pack_layer(number: int) -> None:
            layer, of_model = self._layers[number].as_type(torch.float32), model.model.layers[number]
            blocks: dict[str, Any] = {**blocks_of_layer(quantisation, of_model, arena)}
            self._layers[number] = replace(layer, **blocks)
            let_go(of_model)
            freed.add(layer.nbytes)

        with LateExecutor(torch.get_num_threads()) as pool:  # each is laid out by one thread
            for _ in pool.map(pack_layer, range(len(self._layers))):
                pass
        last, first = model.lm_head, model.model.embed_tokens
        self._vocabulary = self._embedding = blocks_of(quantisation, [last], arena, vectors=True)
        if not self._is_tied:
            self._embedding = blocks_of(quantisation, [first], arena, vectors=True)
        for module in (last, first):
            module.weight.data = module.weight.data.new_empty(0)
        self._end_packing(whole=True)

    def _end_packing(self, *, whole: bool) -> None:
        self._compiled = self._compile() if whole else None
        self.is_packed = True
        if self.adapter is not None:
            self.attach(self.adapter)
        self.look_for_code()

    def unpack(self, model: Any) -> None:
        """Undo `pack`, and let the transformers model have its weights again."""
        with self._packing:
            self._unpack(model)

    def _unpack(self, model: Any) -> None:
        dtype = self._weights_dtype
        self._compiled, self.is_packed, self._in_panels = None, False, False
        for number, layer in enumerate(self._layers):
            self._layers[number] = layer.unpacked(dtype).as_type(dtype)
            take_back(model.model.layers[number], self._layers[number])
        self._norm = self._norm.as_type(dtype)
        self._vocabulary = unpacked(self._vocabulary, dtype)
        self._embedding = self._vocabulary if self._is_tied else unpacked(self._embedding, dtype).to(dtype)
        model.lm_head.weight.data, model.model.embed_tokens.weight.data = self._vocabulary, self._embedding

    def _dense(self) -> list[Tensor]:
        """The weights of all products as they are before they are packed, that of the vocabulary first."""
        every = [self._vocabulary, *(weight for layer in self._layers for weight in layer.products.values())]
        return [weight for weight in every if isinstance(weight, Tensor)]

    def _fill_panels(self, weights: Sequence[Tensor]) -> bool:
        """Whether compiled code can run the whole forward: nothing of its layers is wider than the model is."""
        return self._width % PANEL == 0 and not any(weight.shape[0] % PANEL for weight in weights)

    def _better_in_panels(self, weights: Sequence[Tensor]) -> bool:
        """Whether compiled code, which reads panels, is faster than torch's kernels.

        In half precision it has to run the whole model. Where the processor multiplies matrices of bfloat16 (AMX),
        torch's kernels read prompts of a large model much faster.
        """
        if self._device.type != "cpu" or self._weights_dtype not in _IN_PANELS:
            return False
        if self._weights_dtype == torch.float32:
            return True
        if self._width % PANEL or any(weight.shape[0] % PANEL for weight in weights):
            return False
        large = sum(weight.numel() for weight in weights) > _SMALL
        return not (large and self._weights_dtype == torch.bfloat16 and torch.cpu._is_amx_tile_supported())

    def attach(self, adapter: RowAdapter) -> None:
        """Take an adapter for blank rows, laid out as the model's own weights are.

        Raises `SettingsError` where it has one of another kind: blank rows are read by one adapter.
        """
        if self.adapter is not None and type(self.adapter) is not type(adapter):
            raise SettingsError(
                "Two decoding methods that each have an adapter for their own blank rows cannot be used with the same "
                "loaded model. Load the model again for the other one."
            )
        self.adapter = adapter
        if self.is_packed and (not self._in_panels or are_ready(self.parts_for(adapter))):
            self.adapter = adapter.packed(panels=self._in_panels)

    def keep_beside(self, name: str, places: Places) -> None:
        """Keep an adapter beside the weights, for sequences that name it. From any thread."""
        is_first = not self._changes.adapters
        self._changes = self._changes.with_adapter(name, places)
        if is_first:
            self.look_for_code()

    @property
    def parts_beside(self) -> tuple[Part, ...]:
        """What has to be compiled for adapters beside the weights; nothing where compiled code is not to run them."""
        return (parts.changed_forward(self._kind),) if self._runs_whole else ()

    def look_for_code(self) -> None:
        """Run rows with adapters in compiled code from now on, where that is ready. No such row may be running."""
        self._changes_compiled = self._compiled is not None and are_ready(self.parts_beside)

    def parts_for(self, adapter: RowAdapter) -> tuple[Part, ...]:
        """What has to be compiled for an adapter; nothing where compiled code does not run the model."""
        return adapter.parts(self._kind) if self._kind else ()

    def _compile(self) -> CompiledModel | None:
        """Hand the weights to compiled code."""
        from stretto.local_engine.model.compiled import CompiledModel  # noqa: PLC0415 - it imports numba
        from stretto.local_engine.model.compiled import Layer as CompiledLayer  # noqa: PLC0415

        vocabulary, layers = self._vocabulary, []
        for layer in self._layers:
            panels = {name: weight for name, weight in layer.products.items() if isinstance(weight, Panels)}
            layers.append(
                CompiledLayer(
                    norm=layer.norm.weight,
                    query_key_value_bias=layer.query_key_value_bias,
                    query_key_norm=layer.query_key_norm,
                    output_bias=layer.output_bias,
                    feed_forward_norm=layer.feed_forward_norm.weight,
                    window=layer.window,
                    **panels,
                )
            )
        if not isinstance(vocabulary, Panels):
            return None
        return CompiledModel(
            layers,
            embedding=self._embedding,
            norm=self._norm.weight,
            vocabulary=vocabulary,
            heads=self.heads,
            frequencies=self._frequencies,
            amplitude=self._amplitude,
            epsilon=self.epsilon,
        )

    @property
    def dtype(self) -> torch.dtype:
        """The type of keys and values, and of everything between the products."""
        return torch.float32 if self._in_panels else self._weights_dtype

    @property
    def is_exact(self) -> bool:
        """Whether the logits of a row have the same bits whatever other rows there are."""
        return self._compiled is not None

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers, for code that runs them with another attention: `stretto.local_engine.long_context.decoder`."""
        return self._layers

    @property
    def vocabulary(self) -> Weight:
        """The weight of the last product # [vocabulary, hidden]."""
        return self._vocabulary

    @property
    def compiled(self) -> CompiledModel | None:
        """What runs it; ``None`` where torch's operations do."""
        return self._compiled

    @property
    def norm(self) -> Norm:
        """The norm behind the last layer."""
        return self._norm

    @property
    def head_width(self) -> int:
        """head_dim: the size of one attention head."""
        return int(self._width)

    @property
    def frequencies(self) -> Tensor:
        """Frequencies of the rotation, in radians per position # [head_dim / 2]."""
        return self._frequencies

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Sizes of vocabulary and residual stream, and the number of layers."""
        return self._sizes

    @property
    def heads(self) -> tuple[int, int]:
        """Query heads and key-value heads."""
        return self._heads, self._stored

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `stretto.local_engine.model.forward.Forward`."""
        if self._compiled is not None and self._compiled.takes(rows, keep):
            takes, adapter = self._for_compiled_code(rows)
            if takes:
                return self._compiled(rows, cache, keep, adapter)
        states = self.states(rows, cache, keep)
        if rows.real is None:
            return self.read_out(states)
        batch, count = rows.tokens.shape
        if len(keep) < count:
            return self.read_out(unpack(states, rows.real, batch * count).view(batch, count, -1).index_select(1, keep))
        return unpack(self.read_out(states), rows.real, batch * count).view(batch, count, -1).index_select(1, keep)

    def _for_compiled_code(self, rows: Rows) -> tuple[bool, Any]:
        """Whether it can run these rows, and what it is given for that (see `stretto.local_engine.kernels.blanks`)."""
        if rows.adapters is not None:
            takes = self._changes_compiled and rows.blank is None
            return takes, self._changes.compiled(rows) if takes else None
        if rows.blank is None:
            return True, None
        adapter = None if self.adapter is None else self.adapter.compiled(rows, len(self._layers))
        return adapter is not None, adapter

    def read_in(self, tokens: Tensor) -> Tensor:
        """Look up the input vectors of tokens # [...] -> [..., hidden]."""
        table = self._embedding
        return table.rows(tokens) if isinstance(table, Panels) else embedding(tokens, table)

    def read_out(self, states: Tensor) -> Tensor:
        """Turn final states # [..., hidden] into logits # [..., vocabulary]."""
        return product(states, self._vocabulary)

    def states(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run the layers; the normalised final states of the rows to ``keep`` # [batch, kept, hidden].

        Where padding is left out, those of all real rows # [1, real, hidden].
        """
        cache.begin(rows, packed=rows.real is not None)
        real, tokens, positions = rows.real, rows.tokens, rows.positions
        if real is not None:  # concatenated into one sequence, except for attention
            tokens, positions = tokens.reshape(1, -1)[:, real], positions.reshape(1, -1)[:, real]
        width, rotated = self._width, self._heads + self._stored
        adapter = self.adapter if rows.blank is not None else None
        # [batch, rows, hidden], or [1, real, hidden]
        state = self.read_in(tokens).to(self.dtype) if adapter is None else adapter.embed(rows, self.read_in)
        cosine, sine = self.rotation(positions, state.dtype)  # [batch, rows, 1, head_dim]
        plan, changes = self._attention.plan(rows, state.dtype), self._changes.of(rows)

        def multiplied(number: int, name: str, read: Tensor, bias: Tensor | None = None) -> Tensor:
            weight: Weight = getattr(self._layers[number], name)
            made = product(read, weight, None if changes else bias)
            if changes:
                made = apply(changes, (number, name), read, made)
                made = made if bias is None else made + bias
            return made if adapter is None else adapter.behind_product(number, name, read, made, rows)

        for number, layer in enumerate(self._layers):
            _hand_out(rows, number, state)
            normed = layer.norm(state)
            projected = multiplied(number, "query_key_value", normed, layer.query_key_value_bias)
            heads = projected.view(*tokens.shape, -1, width)  # [batch, rows, heads + 2 * num_kv_heads, head_dim]
            turning = heads[:, :, :rotated]  # queries and keys
            if layer.query_key_norm is not None:
                turning = rms_norm(turning, (width,), None, self.epsilon) * layer.query_key_norm
            turning = torch.addcmul(turning * cosine, turning.roll(width // 2, -1), sine)
            keys, values = cache.write(number, turning[:, :, self._heads :], heads[:, :, rotated:])
            mixed = self._attention.mix(turning[:, :, : self._heads], keys, values, plan, layer.window)
            state = state + multiplied(number, "output", mixed, layer.output_bias)
            normed = layer.feed_forward_norm(state)
            gate, up = multiplied(number, "gate_up", normed).chunk(2, dim=-1)  # [batch, rows, intermediate]
            state = state + multiplied(number, "down", silu(gate) * up)
            if adapter is not None:
                state = adapter.behind_layer(number, state, normed, rows)
        if rows.states is not None and LAST in rows.states.layers:
            _hand_out(rows, LAST, self._norm(state))
        if adapter is not None:
            return adapter.behind_norm(self._norm(state), rows).index_select(1, keep)
        if real is None and tokens.shape[1] > 1:
            state = state.index_select(1, keep)
        return self._norm(state)

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosine and sine; a head x is rotated as ``x * cosine + roll(x, head_dim / 2) * sine``."""
        angles = positions[:, :, None, None] * self._frequencies  # [batch, rows, 1, head_dim / 2]
        cosine, sine = angles.cos() * self._amplitude, angles.sin() * self._amplitude
        return torch.cat((cosine, cosine), -1).to(dtype), torch.cat((-sine, sine), -1).to(dtype)


def _hand_out(rows: Rows, layer: int, states: Tensor) -> None:
    """Give the states of a layer to who wants them # [batch, rows, hidden], or without padding # [1, real, hidden]."""
    if rows.states is None or layer not in rows.states.layers:
        return
    if rows.real is not None:
        states = unpack(states, rows.real, rows.tokens.numel()).view(*rows.tokens.shape, -1)
    rows.states.found[layer] = states
