"""A small Llama for training: its weights stacked by layer, its forward in as few operations as torch allows.

A model of eight million weights is bound by the launches of operations, not by arithmetic. So matrices of one kind are
one tensor, which the optimiser changes in one go, and all batches have one shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, pad, rms_norm, scaled_dot_product_attention, silu

__all__ = ["KINDS", "Change", "Keys", "StackedLlama", "Weights", "rounded"]

KINDS = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
"""Kinds of matrices, and what they are called in a layer."""

_GROUP, _MOST = 32, 7  # of the numbers in four bits; see `stretto.local_engine.model.formats.differences`

Keys = list[tuple[Tensor, Tensor]]
"""Keys and values of some rows, by layer # [rows, heads, length, head size] each."""


class Weights(NamedTuple):
    """What a forward computes with, in its type; matrices by layer."""

    embed: Tensor  # [vocabulary, hidden]
    norms: Sequence[Tensor]  # two of each layer, and the last
    query_key_value: Sequence[Tensor]
    out: Sequence[Tensor]
    gate_up: Sequence[Tensor]
    down: Sequence[Tensor]


@dataclass(frozen=True)
class _Shape:
    layers: int
    heads: int
    groups: int  # heads of keys and values
    size: int  # of a head
    epsilon: float


class StackedLlama:
    """The weights of a folder as transformers writes it, which do not learn; see `Change`.

    Args:
        folder: of a Llama with tied embeddings, its weights in one file.
        device: a name of torch's.
        dtype: that it computes in.
    """

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        size = int(config.get("head_dim") or width // heads)
        self.shape = _Shape(
            int(config["num_hidden_layers"]), heads, int(config["num_key_value_heads"]), size, config["rms_norm_eps"]
        )
        self.device, self.dtype = device, dtype
        self.named = {name: value.float().to(device) for name, value in load_file(folder / "model.safetensors").items()}
        self.embed = self.named["model.embed_tokens.weight"]
        layers = range(self.shape.layers)
        self.matrices = {
            kind: torch.stack([self.named[f"model.layers.{layer}.{name}.weight"] for layer in layers])
            for kind, name in KINDS.items()
        }
        norms = ("input_layernorm", "post_attention_layernorm")
        self.norm_names = [f"model.layers.{layer}.{norm}.weight" for layer in layers for norm in norms]
        self.norm_names.append("model.norm.weight")
        self.norms = torch.stack([self.named[name] for name in self.norm_names])
        theta = float(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
        rates = theta ** (-torch.arange(0, size, 2, device=device) / size)
        angles = torch.arange(int(config["max_position_embeddings"]), device=device)[:, None] * rates
        angles = torch.cat((angles, angles), 1)
        self.rotary = angles.cos().to(dtype), angles.sin().to(dtype)

    def weights(self, embed: Tensor | None = None, norms: Tensor | None = None, **matrices: Tensor) -> Weights:
        """The weights in the type that is computed in, some of them replaced # as in `matrices`."""
        own = {**self.matrices, **matrices}
        dtype = self.dtype
        return Weights(
            (self.embed if embed is None else embed).to(dtype),
            (self.norms if norms is None else norms).to(dtype).unbind(),
            torch.cat((own["q"], own["k"], own["v"]), 1).to(dtype).unbind(),
            own["o"].to(dtype).unbind(),
            torch.cat((own["gate"], own["up"]), 1).to(dtype).unbind(),
            own["down"].to(dtype).unbind(),
        )

    def states(
        self, weights: Weights, tokens: Tensor, positions: Tensor, scores: Tensor, before: Keys | None = None
    ) -> tuple[Tensor, Keys]:
        """The last states of some rows # [rows, length, hidden], and their keys and values.

        Args:
            weights: to compute with.
            tokens: # [rows, length]
            positions: # [rows, length]
            scores: added to the attention scores, of the keys before and of the own ones # [rows, 1, length, keys]
            before: keys and values in front of these.
        """
        form, (rows, length) = self.shape, tokens.shape
        cosine, sine = (each[positions][:, None] for each in self.rotary)  # [rows, 1, length, size]
        both, half = form.heads + form.groups, form.size // 2
        kept: Keys = []
        hidden = embedding(tokens, weights.embed)
        for layer in range(form.layers):
            normed = rms_norm(hidden, hidden.shape[-1:], weights.norms[2 * layer], form.epsilon)
            mixed = linear(normed, weights.query_key_value[layer]).view(rows, length, -1, form.size).transpose(1, 2)
            turning, value = mixed[:, :both], mixed[:, both:]
            turned = torch.cat((-turning[..., half:], turning[..., :half]), -1)
            turning = turning * cosine + turned * sine
            query, key = turning[:, : form.heads], turning[:, form.heads :]
            kept.append((key, value))
            if before is not None:
                key, value = torch.cat((before[layer][0], key), 2), torch.cat((before[layer][1], value), 2)
            wide = form.heads // form.groups
            found = scaled_dot_product_attention(
                query, key.repeat_interleave(wide, 1), value.repeat_interleave(wide, 1), attn_mask=scores
            )
            hidden = hidden + linear(found.transpose(1, 2).flatten(2), weights.out[layer])
            normed = rms_norm(hidden, hidden.shape[-1:], weights.norms[2 * layer + 1], form.epsilon)
            gate, up = linear(normed, weights.gate_up[layer]).chunk(2, -1)
            hidden = hidden + linear(silu(gate) * up, weights.down[layer])
        return rms_norm(hidden, hidden.shape[-1:], weights.norms[-1], form.epsilon), kept


class Change(nn.Module):
    """What learns: a difference for each weight of a model, so small that it can be kept in four bits.

    Args:
        model: that it changes.
        kinds: of the matrices that are changed.
        layers: numbers of the changed layers.
        token: whose row of the embedding is changed, too.
    """

    def __init__(
        self, model: StackedLlama, *, kinds: Sequence[str], layers: Sequence[int], token: int | None = None
    ) -> None:
        super().__init__()
        self.model, self.layers, self.token = model, list(layers), token
        self.kinds = tuple(kinds)
        for kind in kinds:
            self.register_parameter(kind, nn.Parameter(torch.zeros_like(model.matrices[kind][self.layers])))
        self.norms = nn.Parameter(torch.zeros_like(model.norms))
        if token is not None:
            self.row = nn.Parameter(torch.zeros_like(model.embed[token]))
        self.rounding = False
        """Whether the differences are computed with as they are kept."""

    def start_from(self, named: Mapping[str, Tensor]) -> None:
        """Begin with the differences to these weights of the same model."""
        with torch.no_grad():
            for name, value in self.differences().items():
                value.copy_(named[name].to(value.device).float() - self.model.named[name])
            if self.token is not None:
                own = named["model.embed_tokens.weight"][self.token].to(self.row.device)
                self.row.copy_(own.float() - self.model.embed[self.token])

    def weights(self) -> Weights:
        """The changed weights; gradients go through rounding as if it were not there."""
        own = {}
        for kind in self.kinds:
            change = self._as_kept(getattr(self, kind))
            whole = self.model.matrices[kind]
            own[kind] = whole + change if len(self.layers) == len(whole) else whole.index_add(0, self._places, change)
        embed = None
        if self.token is not None:
            place = torch.tensor([self.token], device=self.row.device)
            embed = self.model.embed.index_add(0, place, self._as_kept(self.row)[None])
        return self.model.weights(embed, self.model.norms + self._as_kept(self.norms), **own)

    def _as_kept(self, change: Tensor) -> Tensor:
        return rounded(change) if self.rounding else change

    @property
    def _places(self) -> Tensor:
        return torch.tensor(self.layers, device=self.norms.device)

    def differences(self) -> dict[str, Tensor]:
        """The differences as they are, by the names of the weights; views, without the row of the embedding."""
        found = {
            f"model.layers.{layer}.{KINDS[kind]}.weight": getattr(self, kind).data[at]
            for kind in self.kinds
            for at, layer in enumerate(self.layers)
        }
        return found | dict(zip(self.model.norm_names, self.norms.data, strict=True))

    def kept(self) -> dict[str, Tensor]:
        """The differences as they are written, by the names of the weights; of the embedding its first rows."""
        found = {name: value.contiguous() for name, value in self.differences().items()}
        if self.token is not None:
            rows = torch.zeros_like(self.model.embed[: self.token + 1])
            rows[self.token] = self.row.data
            found["model.embed_tokens.weight"] = rows
        return found


def rounded(change: Tensor) -> Tensor:
    """Numbers as four bits hold them, groups of 32 with one scale; the gradient is that of the numbers themselves."""
    with torch.no_grad():
        flat = pad(change.flatten(), (0, -change.numel() % _GROUP))
        groups = flat.view(-1, _GROUP)
        scales = (groups.abs().amax(1, keepdim=True) / _MOST).clamp(min=1e-12)
        off = ((groups / scales).round() * scales - groups).flatten()[: change.numel()].view_as(change)
    return change + off
