"""Runs transformers' own modelling code with our cache, and on a GPU with our attention (``gpu_attention.py``).

Importing transformers' modelling code takes longer than importing torch, so this module is imported only where needed.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.gpu_attention import HALF, attend
from stretto.local_engine.model.forward.rotary import Rotary
from stretto.local_engine.model.forward.rows import LAST, Rows, keys_and_values

if TYPE_CHECKING:
    from stretto.local_engine.model.adapters.attached_lora import UnmergedLora


_KINDS = frozenset({"full_attention", "sliding_attention"})
_CHUNKED = "chunked_attention"


class TransformersForward:
    """Any decoder-only model of transformers, with our cache inside.

    Most models take a four-dimensional mask, so this class creates one for each kind of layer; batches and draft trees
    are expressed by the mask. A model that adds something else to the attention scores (a bias by position, a window
    fixed when the model was built) is right only with the mask it creates itself, which is for one sequence with
    consecutive rows. That is what ``alone`` is for.

    Raises `ValueError` for models whose layers keep a state other than keys and values.

    Args:
        model: of transformers.
        alone: run one sequence after the other, with the model's own mask; drafts must be chains.
    """

    def __init__(self, model: Any, *, alone: bool = False) -> None:
        self.model = model
        _attend_in(model)
        self.alone = alone
        self.packs = self.is_exact = False
        self._unmerged: dict[str, Mapping[str, UnmergedLora]] = {}
        self._keeping = threading.Lock()
        config = model.config.get_text_config(decoder=True)
        self._kinds = tuple(sorted(set(getattr(config, "layer_types", None) or ())))
        others = [kind for kind in self._kinds if kind not in _KINDS | {_CHUNKED}]
        if others:
            raise ValueError(f"layers of the kind {others[0]!r} keep a state other than keys and values")
        if _CHUNKED in self._kinds and not alone:
            raise ValueError("layers that attend within chunks are run with the model's own mask only")
        self._window: int | None = getattr(config, "sliding_window", None)
        if self._kinds == ("full_attention",):
            self._window = None
        self._rotary = Rotary(model, config)
        self.switch, self.longest = self._rotary.switch, self._rotary.longest
        takes = inspect.signature(model.forward).parameters
        self._takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
        self._takes = frozenset(takes)

    def attach_lora(self, name: str, changes: Mapping[str, UnmergedLora]) -> None:
        """Attach an unmerged adapter, by the names of the modules that it changes. Thread-safe."""
        with self._keeping:
            for module in changes:
                listen(self.model.get_submodule(module), module)
            self._unmerged[name] = changes

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `Forward`. Sequences with different adapters run one after the other."""
        sides = self._rotary.sides(rows)
        adapters = rows.adapters or (None,) * len(sides)
        if not self.alone and len({*zip(sides, adapters, strict=True)}) == 1:
            cache.begin(rows)
            with self._as_wanted(sides[0], adapters[0]):
                return self._run(rows, cache, keep)
        parts: list[Tensor | None] = []
        for sequence, (side, adapter) in enumerate(zip(sides, adapters, strict=True)):
            own, chosen = rows.of(sequence)
            if not len(chosen):
                parts.append(None)
                continue
            cache.begin(own, sequence=sequence)
            wanted = torch.isin(chosen, keep).nonzero()[:, 0]
            with self._as_wanted(side, adapter):
                logits = self._run(own, cache, wanted)[0]  # [wanted, vocabulary]
            _collect(rows, own, sequence, chosen)
            part = logits.new_zeros(rows.tokens.shape[1], logits.shape[-1])
            part[chosen[wanted]] = logits
            parts.append(part[keep])
        blank = torch.zeros_like(next(part for part in parts if part is not None))
        return torch.stack([blank if part is None else part for part in parts])

    def _as_wanted(self, side: bool, adapter: str | None) -> ExitStack:
        """Set the rotary factors, and let an adapter change the products."""
        stack = ExitStack()
        stack.enter_context(self._rotary.on(side))
        if adapter is not None:
            stack.enter_context(changing(self._unmerged[adapter]))
        return stack

    def _run(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        output = self.model(input_ids=rows.tokens, **self._inputs(rows, cache, keep))
        logits: Tensor = output.logits
        if rows.states is not None:
            last = len(output.hidden_states) - 1
            rows.states.found |= {
                layer: output.hidden_states[last if layer == LAST else layer]
                for layer in rows.states.layers
                if layer >= LAST
            }
        return logits if logits.shape[1] == len(keep) else logits[:, keep]

    def _inputs(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> dict[str, Any]:
        """Return the arguments of the model other than the tokens."""
        options: dict[str, Any] = {"position_ids": rows.positions, "logits_to_keep": keep}
        if not self.alone:
            options["attention_mask"] = self._mask(rows)
        if self.alone or not self._takes_any:
            options = {name: value for name, value in options.items() if name in self._takes}
        if rows.states is not None:
            options["output_hidden_states"] = True
        return options | {"past_key_values": CacheAdapter(cache, rows), "use_cache": True}

    def _mask(self, rows: Rows) -> Tensor | dict[str, Tensor]:
        dtype = self.model.dtype
        if len(self._kinds) > 1:
            return {"full_attention": rows.mask(dtype), "sliding_attention": rows.mask(dtype, self._window)}
        return rows.mask(dtype, self._window)


def _collect(rows: Rows, own: Rows, sequence: int, chosen: Tensor) -> None:
    """Copy the hidden states of one sequence, which ran alone, to those of all."""
    if rows.states is None or own.states is None:
        return
    for layer, states in own.states.found.items():
        if layer not in rows.states.found:
            rows.states.found[layer] = states.new_zeros(*rows.tokens.shape, states.shape[-1])
        rows.states.found[layer][sequence, chosen] = states[0]


class CacheAdapter(Cache):
    """Our cache with the interface of transformers' caches."""

    def __init__(self, cache: KeyValueCache, rows: Rows) -> None:
        super().__init__(layers=[])
        self._cache, self._states = cache, rows.states
        self._before = rows.kv_len - rows.tokens.shape[1]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write to the slots of the current rows; return the keys and values of all slots in use."""
        if self._states is not None and (wanted := keys_and_values(layer_idx)) in self._states.layers:
            both = (each.transpose(1, 2).flatten(2) for each in (key_states, value_states))
            self._states.found[wanted] = torch.cat([*both], -1)
        keys, values = self._cache.write(layer_idx, key_states.transpose(1, 2), value_states.transpose(1, 2))
        return keys.transpose(1, 2), values.transpose(1, 2)  # [batch, num_kv_heads, kv_len, head_dim]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 - all layers contain the same tokens
        """Return the number of tokens before the current rows."""
        return self._before

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002 - as above
        """Return the number of slots that the current rows see, and the first of them."""
        return self._before + query_length, 0


_here = threading.local()


@contextmanager
def changing(changes: Mapping[str, UnmergedLora]) -> Iterator[None]:
    """Apply changes to the linear layers with these names, in this thread."""
    _here.changes = changes
    try:
        yield
    finally:
        _here.changes = {}


def listen(module: Any, name: str) -> None:
    """Make a linear layer look up its change; registers one hook, however many adapters there are."""
    if getattr(module, "stretto_listens", False):
        return
    module.stretto_listens = True

    def changed(own: Any, given: tuple[Tensor, ...], product: Tensor) -> Tensor:
        change: UnmergedLora | None = getattr(_here, "changes", {}).get(name)
        if change is None:
            return product
        if own.bias is None:
            return change(given[0], product)
        with_bias: Tensor = change(given[0], product - own.bias) + own.bias
        return with_bias

    module.register_forward_hook(changed)


_NAME = "stretto_sdpa"


def _attend_in(model: Any) -> None:
    """Make a transformers model use our `attend`, if it uses torch's attention in half precision on a GPU.

    Older modelling code, which does not look up the implementation by name, is left alone.
    """
    named = model.config._attn_implementation == "sdpa" and getattr(model, "_supports_attention_backend", False)
    if model.device.type != "cuda" or model.dtype not in HALF or not named:
        return
    AttentionInterface.register(_NAME, _redirected)
    AttentionMaskInterface.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model.set_attn_implementation(_NAME)


class _Redirecting(TorchFunctionMode):
    """Replaces torch's attention with ours, in this thread only."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        return _attend(*args, **given) if function is scaled_dot_product_attention else function(*args, **given)


def _redirected(module: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, None]:
    with _Redirecting():
        found: tuple[Tensor, None] = sdpa_attention_forward(module, *args, **kwargs)
    return found


def _attend(  # noqa: PLR0917 - torch's signature
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - nothing is trained here
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: ARG001 - the shapes show it
) -> Tensor:
    """Attend with the arguments of torch's `scaled_dot_product_attention`."""
    if key.shape[1] != query.shape[1]:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
    return attend(query, key, value, attn_mask, causal=is_causal, scale=scale)
