"""Layers of the Llama family in torch, of which heads have one or a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.kernels.block_kinds import GROUP
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.attention import Attention, Plan
from stretto.local_engine.model.forward.llama_layer import Layer, Norm
from stretto.local_engine.model.forward.products import Weight, product
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.config_values import wrong_value
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.local_engine.model.quantised.rounding import rounded_to
from stretto.values.errors import SettingsError

Part = tuple[Rows, KeyValueCache]
"""Rows of one sequence, and its key-value cache."""


def whole_number(
    config: Mapping[str, Any], field: str, where: str, *, least: int = 1, below: int = 2**31, usual: int | None = None
) -> int:
    """Return an integer of a head's ``config.json``, ``usual`` if it is missing. Raises `SettingsError`."""
    value = config.get(field)
    value = usual if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < below:
        problem = "is missing" if value is None else f"is {safe_repr(value)}"
        raise SettingsError(
            f"The head in {where} cannot be run: {field} {problem} in its config.json, and a whole number from {least} "
            f"to {below - 1} is needed."
        )
    return value


@dataclass(slots=True)
class Weights:
    """Tensors of a head by their names on disk.

    Attributes:
        tensors: tensors by name.
        where: folder or file that they are from, for errors.
        dtype: dtype that they are converted to.
        device: device that they are moved to.
        rounded: whether products run with weights rounded to 8 bits, in compiled code.
    """

    tensors: Mapping[str, Tensor]
    where: str
    dtype: torch.dtype
    device: torch.device
    rounded: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def get(self, name: str, *shape: int) -> Tensor:
        """Return a tensor of this shape; -1 fits any size. Raises `SettingsError` if it is missing or does not fit."""
        found = self.tensors.get(name)
        if found is None:
            raise SettingsError(f"{self.where} is no whole head: the weight {name} is missing.")
        if len(found.shape) != len(shape) or any(
            want not in (-1, own) for want, own in zip(shape, found.shape, strict=True)
        ):
            raise SettingsError(
                f"The head in {self.where} does not fit: its weight {name} has the shape {tuple(found.shape)} where "
                f"{tuple(shape)} is needed."
            )
        made = found.to(self.device, self.dtype).contiguous()
        if not made.isfinite().all():
            raise SettingsError(
                f"The head in {self.where} is damaged: its weight {name} holds NaN or an infinite number. Copy or "
                "download it again."
            )
        return made

    def find(self, name: str, *shape: int) -> Tensor | None:
        """Return the same as `get`, but ``None`` if it is missing."""
        return self.get(name, *shape) if name in self.tensors else None

    def matrix(self, name: str, *shape: int) -> Weight:
        """Return the weight of a product, in its fastest form."""
        return self.converted(self.get(name, *shape))

    def converted(self, weight: Tensor) -> Weight:
        """Convert the weight of a product to its fastest form."""
        if not self.rounded or weight.shape[1] % GROUP:
            return weight
        return Blocks.joined([rounded_to("int8", weight.float().numpy())])

    def norm(self, name: str, width: int, epsilon: float) -> Norm:
        """Return a norm with its weight."""
        return Norm(self.get(f"{name}.weight", width), epsilon)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a decoder.

    Attributes:
        hidden: width of the residual stream.
        heads: number of query heads.
        stored: number of key-value heads.
        width: width of one head.
        inner: width of the feed-forward.
        epsilon: epsilon of the norms.
        frequencies: frequencies of the rotary embedding # [width / 2]
        amplitude: amplitude of the rotary embedding.
    """

    hidden: int
    heads: int
    stored: int
    width: int
    inner: int
    epsilon: float
    frequencies: Tensor
    amplitude: float

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> Shape:
        """Read the sizes from the ``config.json`` of a head. Raises `SettingsError` if one is missing."""
        from transformers import LlamaConfig  # noqa: PLC0415 - only where a head is read
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding  # noqa: PLC0415 - as above

        hidden, heads, inner = (whole_number(config, field, where) for field in _SIZES)
        if (act := config.get("hidden_act", "silu")) != "silu":
            raise SettingsError(
                f"The head in {where} cannot be run: its activation is {act!r}, and only silu is known."
            )
        given = {key: config[key] for key in _OF_THE_ROTATION if config.get(key) is not None}
        if _LENGTH in given:
            whole_number(config, _LENGTH, where)
        width = whole_number(config, "head_dim", where, usual=hidden // heads)
        stored = whole_number(config, "num_key_value_heads", where, usual=heads)
        epsilon = config.get("rms_norm_eps", 1e-6)
        if not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
            raise SettingsError(
                f"The head in {where} cannot be run: rms_norm_eps is {safe_repr(epsilon)} in its config.json, and a "
                "small number is needed."
            )
        if heads % stored or width % 2:
            raise SettingsError(
                f"The head in {where} cannot be run: its config.json has num_attention_heads {heads}, "
                f"num_key_value_heads {stored} and head_dim {width}, which do not fit each other."
            )
        if wrong := wrong_value(given):
            raise SettingsError(f"The head in {where} cannot be run: {wrong}.")
        rotary = LlamaRotaryEmbedding(
            LlamaConfig(hidden_size=hidden, num_attention_heads=1, **{**given, "head_dim": width})
        )
        return cls(
            hidden=hidden,
            heads=heads,
            stored=stored,
            width=width,
            inner=inner,
            epsilon=float(epsilon),
            frequencies=rotary.inv_freq.float(),
            amplitude=float(rotary.attention_scaling),
        )


_SIZES = ("hidden_size", "num_attention_heads", "intermediate_size")
_LENGTH = "max_position_embeddings"
_OF_THE_ROTATION = ("rope_parameters", "rope_scaling", "rope_theta", _LENGTH)


class Decoder:
    """Layers that a head runs over its own key-value cache.

    Attributes:
        shape: sizes of all layers.
        layers: their weights.

    Args:
        weights: weights of the head.
        prefixes: prefix of the names of each layer's weights.
        shape: sizes of all layers.
        reads: width of the input of the first layer's attention; by default that of the hidden state.
        windows: attention window of each layer, in tokens; by default none.
        ahead: whether layers with a window see all rows that are filled together, not only earlier ones.
    """

    def __init__(
        self,
        weights: Weights,
        prefixes: Sequence[str],
        shape: Shape,
        *,
        reads: int | None = None,
        windows: Sequence[int | None] = (),
        ahead: bool = False,
    ) -> None:
        self.shape = shape
        self._frequencies = shape.frequencies.to(weights.device)
        self._groups, self._ahead = shape.heads // shape.stored, ahead
        self._windows = [*windows] or [None] * len(prefixes)
        self._attention = Attention(shape.stored, self._groups, {None})
        self.layers = [
            _layer(weights, prefix, shape, reads if reads is not None and number == 0 else shape.hidden)
            for number, prefix in enumerate(prefixes)
        ]

    def first_norm(self, state: Tensor) -> Tensor:
        """Apply the norm before the first layer's attention."""
        return self.layers[0].norm(state)

    def __call__(self, state: Tensor, parts: Sequence[Part], *, read: Tensor | None = None) -> Tensor:
        """Run the layers over rows of one or more sequences, with common matrix products.

        Args:
            state: the residual stream, sequence after sequence # [1, rows, hidden]
            parts: rows of each sequence, with their positions and what they see, and its cache.
            read: input of the first layer's attention instead of the normalised stream # [1, rows, reads]

        Returns:
            # [1, rows, hidden]
        """
        plans = [[self._attention.plan(rows, state.dtype)] * len(self.layers) for rows, _ in parts]
        return self._run(state, parts, plans, read)

    def filled(self, state: Tensor, rows: Rows, cache: KeyValueCache) -> Tensor:
        """Run the layers over rows that see each other, later ones included # [1, rows, hidden]."""
        masks = {window: self._block_mask(rows, window, state.dtype) for window in set(self._windows)}
        plans = [Plan(rows, state.dtype, {None: [masks[window]]}) for window in self._windows]
        return self._run(state, [(rows, cache)], [plans], None)

    def remember(self, read: Tensor, rows: Rows, cache: KeyValueCache) -> None:
        """Write the keys and values that every layer computes from the same states, without normalising them."""
        cache.begin(rows)
        shape, (cosine, sine) = self.shape, self._rotation(rows.positions, read.dtype)
        first, turned = shape.heads * shape.width, shape.heads + shape.stored
        for number, layer in enumerate(self.layers):
            projected = product(read, layer.query_key_value, layer.query_key_value_bias)[..., first:]
            heads = projected.reshape(*rows.tokens.shape, -1, shape.width)
            keys = heads[:, :, : shape.stored]
            if layer.query_key_norm is not None:
                keys = rms_norm(keys, (shape.width,), None, shape.epsilon) * layer.query_key_norm[shape.heads : turned]
            cache.write(number, _turned(keys, cosine, sine), heads[:, :, shape.stored :])

    def _run(
        self, state: Tensor, parts: Sequence[Part], plans: Sequence[Sequence[Plan]], read: Tensor | None
    ) -> Tensor:
        for rows, cache in parts:
            cache.begin(rows)
        positions = torch.cat([rows.positions for rows, _ in parts], 1)
        shape, (cosine, sine) = self.shape, self._rotation(positions, state.dtype)
        turned = shape.heads + shape.stored
        for number, layer in enumerate(self.layers):
            normed = layer.norm(state) if number or read is None else read
            projected = product(normed, layer.query_key_value, layer.query_key_value_bias)
            heads = projected.view(*positions.shape, -1, shape.width)
            turning = heads[:, :, :turned]
            if layer.query_key_norm is not None:
                turning = rms_norm(turning, (shape.width,), None, shape.epsilon) * layer.query_key_norm
            turning = _turned(turning, cosine, sine)
            mixed, start = list[Tensor](), 0
            for (rows, cache), own in zip(parts, plans, strict=True):
                some = slice(start, start + rows.tokens.shape[1])
                keys, values = cache.write(number, turning[:, some, shape.heads :], heads[:, some, turned:])
                mixed.append(self._attention.mix(turning[:, some, : shape.heads], keys, values, own[number], None))
                start = some.stop
            state = state + product(torch.cat(mixed, 1), layer.output, layer.output_bias)
            gate, up = product(layer.feed_forward_norm(state), layer.gate_up).chunk(2, dim=-1)
            state = state + product(silu(gate) * up, layer.down)
        return state

    def _block_mask(self, rows: Rows, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """Return the mask of rows filled together # [1, 1, groups * rows, kv_len]; ``None`` without a window."""
        if window is None:
            return None
        slots = torch.arange(rows.kv_len, device=rows.positions.device)
        apart = rows.positions[0][:, None] - slots
        hidden = (apart >= window) | (-apart >= window if self._ahead else apart < 0)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)
        return mask.repeat(self._groups, 1)[None, None]

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, as `LlamaForward.rotation` does."""
        angles = positions[:, :, None, None] * self._frequencies
        cosine, sine = angles.cos() * self.shape.amplitude, angles.sin() * self.shape.amplitude
        return torch.cat((cosine, cosine), -1).to(dtype), torch.cat((-sine, sine), -1).to(dtype)


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    return torch.addcmul(heads * cosine, heads.roll(heads.shape[-1] // 2, -1), sine)


def _layer(weights: Weights, prefix: str, shape: Shape, reads: int) -> Layer:
    """Return one layer, whose weights have the names of transformers."""
    counts = (shape.heads, shape.stored, shape.stored)
    joined = [
        weights.get(f"{prefix}self_attn.{name}_proj.weight", count * shape.width, reads)
        for name, count in zip("qkv", counts, strict=True)
    ]
    biases = [weights.find(f"{prefix}self_attn.{name}_proj.bias", -1) for name in "qkv"]
    norms = [weights.find(f"{prefix}self_attn.{name}_norm.weight", shape.width) for name in "qk"]
    feed = [weights.get(f"{prefix}mlp.{name}_proj.weight", shape.inner, shape.hidden) for name in ("gate", "up")]
    return Layer(
        norm=weights.norm(f"{prefix}input_layernorm", shape.hidden, shape.epsilon),
        query_key_value=weights.converted(torch.cat(joined)),
        query_key_value_bias=torch.cat([each for each in biases if each is not None]) if _all_there(biases) else None,
        query_key_norm=torch.cat(
            [each.expand(count, -1) for each, count in zip(norms, counts[:2], strict=True) if each is not None]
        )
        if _all_there(norms)
        else None,
        output=weights.matrix(f"{prefix}self_attn.o_proj.weight", shape.hidden, shape.heads * shape.width),
        output_bias=weights.find(f"{prefix}self_attn.o_proj.bias", shape.hidden),
        feed_forward_norm=weights.norm(f"{prefix}post_attention_layernorm", shape.hidden, shape.epsilon),
        gate_up=weights.converted(torch.cat(feed)),
        down=weights.matrix(f"{prefix}mlp.down_proj.weight", shape.hidden, shape.inner),
        window=None,
    )


def _all_there(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether none is missing."""
    return all(each is not None for each in tensors)
