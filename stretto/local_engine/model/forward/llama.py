"""A lean forward of the Llama family: Llama, Mistral, Qwen2, Qwen3, Phi-3 and Gemma 3.

In transformers' own modelling code, a step of a small model takes as much time between the operations as in them. This
forward does only what is needed: one product computes query, key and value, another the gate and the first feed-forward
matrix; queries and keys are rotated together. The weights are shared with the transformers model.

Touvron et al., arXiv:2302.13971 (Llama); Zhang and Sennrich, arXiv:1910.07467 (RMSNorm); Su et al., arXiv:2104.09864
(rotary positions); Shazeer, arXiv:2002.05202 (SwiGLU).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, gelu, rms_norm, silu

from stretto.local_engine.kernels.compiling import compiled_parts
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import are_ready
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.model.adapters.lora_deltas import Places, RowChanges, apply
from stretto.local_engine.model.adapters.row_adapter import Owned, RowAdapter
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.attention import Attention, unpack
from stretto.local_engine.model.forward.llama_family import family_of
from stretto.local_engine.model.forward.llama_weights import LlamaWeights
from stretto.local_engine.model.forward.products import Weight, product
from stretto.local_engine.model.forward.rows import LAST, Rows

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.compiled import CompiledModel
    from stretto.local_engine.model.quantised.quantisation import Quantisation


class LlamaForward:
    """Runs a model for which `is_llama_like` of `llama_family.py` is true; see ``forward.py``.

    Attributes:
        family: differences from other models.
        heads: query heads and key-value heads.
        head_width: head_dim, the size of one attention head.
        sizes: of vocabulary and residual stream, and the number of layers.
        epsilon: of the norms.
        compiled: the compiled forward; ``None`` while torch's operations run the model.
    """

    packs = True
    """Padding is left out everywhere except in torch's attention, so the cost of a forward depends on its real rows."""
    alone = False
    switch: int | None = None
    longest: int | None = None

    def __init__(self, model: Any, quantisation: Quantisation | None = None) -> None:
        config, inner = model.config, model.model
        self.heads: tuple[int, int] = (config.num_attention_heads, config.num_key_value_heads)
        self.head_width: int = inner.layers[0].self_attn.head_dim
        self.epsilon: float = config.rms_norm_eps
        self.sizes: tuple[int, int, int] = (*inner.embed_tokens.weight.shape, len(inner.layers))
        self.family = family_of(model)
        self.weights = LlamaWeights(model, self.family, quantisation)
        windows = {layer.window for layer in self.weights.layers}
        self._attention = Attention(self.heads[1], self.heads[0] // self.heads[1], windows)
        self.is_packed = False
        self.adapter: RowAdapter | None = None
        self._changes = RowChanges(self.sizes[1:])
        self._changes_compiled = False  # whether compiled code can run rows with adapters
        self._packing, self._keeping = threading.Lock(), threading.Lock()
        self.compiled: CompiledModel | None = None

    def parts(self) -> tuple[Part, ...]:
        """Return what `pack` needs compiled; nothing if torch's kernels are faster."""
        return self.weights.parts()

    def pack(self, model: Any = None) -> None:
        """Lay out the weights as the processor reads them, if possible (see ``products.py``).

        No gradient flows through packed weights. The parts returned by `parts` must be compiled.

        Args:
            model: of transformers, from which the weights were taken. Each of its layers loses its weights once packed,
                and it cannot run any more unless `unpack` follows. Without it, the weights stay where they are.
        """
        with self._packing:
            whole = self.weights.pack(model)
            self.compiled = self._compile() if whole and self.weights.quantisation is None else None
            self.is_packed = True
            if self.adapter is not None:
                self.attach(self.adapter)
            self.look_for_code()

    def run_whole(self) -> None:
        """Run the whole forward in compiled code, not only products with blocks. No step may be running."""
        with self._packing:
            self.compiled = self.compiled or self._compile()
            self.look_for_code()

    def step_back(self) -> str:
        """Run less in compiled code, because that is wrong here. No step may be running.

        Returns:
            what runs instead, as words; empty if nothing is left that could be wrong.
        """
        with self._packing:
            whole, self.compiled = self.compiled, None
            self.look_for_code()
            if whole is not None:
                return "torch runs all but its products"
            return "torch runs it" if self.weights.widen() else ""

    def unpack(self, model: Any) -> None:
        """Undo `pack`, and give the transformers model its weights back."""
        with self._packing:
            self.compiled, self.is_packed = None, False
            self.weights.unpack(model)

    def attach(self, adapter: RowAdapter) -> None:
        """Attach an adapter for blank rows, laid out like the model's own weights."""
        self.adapter = adapter
        if self.is_packed and (not self.weights.in_panels or are_ready(self.parts_for(adapter))):
            self.adapter = adapter.packed(panels=self.weights.in_panels)

    def attach_lora(self, name: str, places: Places) -> None:
        """Attach an unmerged adapter, for sequences that name it. Thread-safe."""
        with self._keeping:
            is_first = not self._changes
            self._changes = self._changes.with_adapter(name, places)  # a running step keeps the previous object
            if is_first:
                self.look_for_code()

    @property
    def lora_parts(self) -> tuple[Part, ...]:
        """What has to be compiled for unmerged adapters; nothing if compiled code will not run them."""
        return (compiled_parts.changed_forward(self.weights.kind),) if self.weights.runs_whole else ()

    def look_for_code(self) -> None:
        """Run rows with adapters in compiled code from now on, if that is ready. No such row may be running."""
        self._changes_compiled = self.compiled is not None and are_ready(self.lora_parts)

    def parts_for(self, adapter: RowAdapter) -> tuple[Part, ...]:
        """Return what has to be compiled for an adapter; nothing if compiled code does not run the model."""
        return adapter.parts(self.weights.kind) if self.weights.kind else ()

    def _compile(self) -> CompiledModel | None:
        """Create the compiled forward from the weights."""
        from stretto.local_engine.model.forward.compiled import CompiledModel  # noqa: PLC0415 - it imports numba

        vocabulary = self.weights.vocabulary
        if not isinstance(vocabulary, Panels):
            return None
        return CompiledModel(
            self.weights.layers,
            embedding=self.weights.embedding,
            norm=self.weights.norm.weight,
            vocabulary=vocabulary,
            heads=self.heads,
            family=self.family,
            epsilon=self.epsilon,
        )

    @property
    def dtype(self) -> torch.dtype:
        """The type of keys and values, and of everything between the products."""
        return torch.float32 if self.weights.in_panels else self.weights.dtype

    @property
    def is_exact(self) -> bool:
        """Whether the logits of a row have the same bits whatever other rows there are."""
        return self.compiled is not None

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        if self.compiled is not None and self.compiled.takes(rows, keep):
            takes, adapter = self._for_compiled_code(rows)
            if takes:
                return self.compiled(rows, cache, keep, adapter)
        states = self.states(rows, cache, keep)
        if rows.real is None:
            return self.read_out(states)
        batch, count = rows.tokens.shape
        if len(keep) < count:
            return self.read_out(unpack(states, rows.real, batch * count).view(batch, count, -1).index_select(1, keep))
        return unpack(self.read_out(states), rows.real, batch * count).view(batch, count, -1).index_select(1, keep)

    def _for_compiled_code(self, rows: Rows) -> tuple[bool, Owned | None]:
        """Return whether compiled code can run these rows, and their adapter."""
        if rows.adapters is not None:
            takes = self._changes_compiled and rows.blank is None
            return takes, self._changes.compiled(rows) if takes else None
        if rows.blank is None:
            return True, None
        adapter = None if self.adapter is None else self.adapter.compiled(rows, len(self.weights.layers))
        return adapter is not None, adapter

    def read_in(self, tokens: Tensor) -> Tensor:
        """Look up the input vectors of tokens # [...] -> [..., hidden]."""
        table = self.weights.embedding
        found = table.rows(tokens) if isinstance(table, Panels) else embedding(tokens, table)
        return found if self.family.scale == 1 else found * self.family.scale

    def read_out(self, states: Tensor) -> Tensor:
        """Turn final states # [..., hidden] into logits # [..., vocabulary]."""
        return product(states, self.weights.vocabulary)

    def states(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run the layers; return the normalised final states of the rows to ``keep`` # [batch, kept, hidden].

        If padding is left out, those of all real rows # [1, real, hidden].
        """
        cache.begin(rows, packed=rows.real is not None)
        real, tokens, positions = rows.real, rows.tokens, rows.positions
        if real is not None:  # concatenated into one sequence, except for attention
            tokens, positions = tokens.reshape(1, -1)[:, real], positions.reshape(1, -1)[:, real]
        (queries, stored), width = self.heads, self.head_width
        rotated = queries + stored
        adapter = self.adapter if rows.blank is not None else None
        # [batch, rows, hidden], or [1, real, hidden]
        state = self.read_in(tokens).to(self.dtype) if adapter is None else adapter.embed(rows, self.read_in)
        rotations = [self.rotation(positions, state.dtype, turn) for turn in range(len(self.family.rotations))]
        plan, changes = self._attention.plan(rows, state.dtype), self._changes.of(rows)

        def multiplied(number: int, name: str, read: Tensor, bias: Tensor | None = None) -> Tensor:
            weight: Weight = getattr(self.weights.layers[number], name)
            made = product(read, weight, None if changes else bias)
            if not changes:
                return made
            made = apply(changes, (number, name), read, made)
            return made if bias is None else made + bias

        for number, layer in enumerate(self.weights.layers):
            _hand_out(rows, number, state)
            normed = layer.norm(state)
            projected = multiplied(number, "query_key_value", normed, layer.query_key_value_bias)
            heads = projected.view(*tokens.shape, -1, width)  # [batch, rows, heads + 2 * num_kv_heads, head_dim]
            turning = heads[:, :, :rotated]  # queries and keys
            if layer.query_key_norm is not None:
                turning = (rms_norm(turning, (width,), None, self.epsilon) * layer.query_key_norm).to(state.dtype)
            cosine, sine = rotations[self.family.turns[number]]  # [batch, rows, 1, head_dim]
            turning = torch.addcmul(turning * cosine, turning.roll(width // 2, -1), sine)
            keys, values = cache.write(number, turning[:, :, queries:], heads[:, :, rotated:])
            mixed = self._attention.mix(turning[:, :, :queries], keys, values, plan, layer.window)
            added = multiplied(number, "output", mixed, layer.output_bias)
            state = state + (added if layer.output_norm is None else layer.output_norm(added))
            normed = layer.feed_forward_norm(state)
            gate, up = multiplied(number, "gate_up", normed).chunk(2, dim=-1)  # [batch, rows, intermediate]
            gated = gelu(gate, approximate="tanh") if self.family.gates_by_gelu else silu(gate)
            added = multiplied(number, "down", gated * up)
            state = state + (added if layer.down_norm is None else layer.down_norm(added))
            if adapter is not None:
                state = adapter.after_layer(number, state, normed, rows)
        if rows.states is not None and LAST in rows.states.layers:
            _hand_out(rows, LAST, self.weights.norm(state))
        if adapter is not None:
            return adapter.after_norm(self.weights.norm(state), rows).index_select(1, keep)
        if real is None and tokens.shape[1] > 1:
            state = state.index_select(1, keep)
        return self.weights.norm(state)

    def rotation(self, positions: Tensor, dtype: torch.dtype, turn: int = 0) -> tuple[Tensor, Tensor]:
        """Return cosine and sine; a head x is rotated as ``x * cosine + roll(x, head_dim / 2) * sine``."""
        frequencies, amplitude = self.family.rotations[turn]
        angles = positions[:, :, None, None] * frequencies  # [batch, rows, 1, head_dim / 2]
        cosine, sine = angles.cos() * amplitude, angles.sin() * amplitude
        return torch.cat((cosine, cosine), -1).to(dtype), torch.cat((-sine, sine), -1).to(dtype)


def _hand_out(rows: Rows, layer: int, states: Tensor) -> None:
    """Store the states of a layer if requested # [batch, rows, hidden], or without padding # [1, real, hidden]."""
    if rows.states is None or layer not in rows.states.layers:
        return
    if rows.real is not None:
        states = unpack(states, rows.real, rows.tokens.numel()).view(*rows.tokens.shape, -1)
    rows.states.found[layer] = states
