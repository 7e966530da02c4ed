"""A lean training forward of the Llama architecture.

The parameters carry the names that :class:`transformers.LlamaForCausalLM` gives them, so a trained network is
exported by saving its state and read back by transformers without any conversion.  What is left out is everything
training does not need: key-value caches, attention masks (examples are padded on the right, and a causal row never
sees what follows it), and at positions that carry no loss the end of the last layer and the logits.

Architecture: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971; rotary
positions: Su et al., arXiv:2104.09864; grouped queries: Ainslie et al., arXiv:2305.13245; tied embeddings: Press and
Wolf, arXiv:1608.05859.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Attention", "Block", "Network", "NetworkConfig", "Packed"]

_GRAIN = 64
"""Numbers of rows are multiples of this: kernels are built once per shape, so shapes are few."""


@dataclass(frozen=True)
class NetworkConfig:
    """The sizes of a network; the defaults are those of the published pocket model."""

    vocabulary: int = 8192
    hidden: int = 256
    layers: int = 8
    heads: int = 4
    key_value_heads: int = 2
    intermediate: int = 768
    context: int = 2048
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-5

    @property
    def head_width(self) -> int:
        """The width of one attention head."""
        return self.hidden // self.heads

    def as_transformers(self, *, pad: int, begin: int, ends: list[int]) -> dict[str, Any]:
        """The same sizes as the content of a transformers ``config.json``."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.head_width,
            "hidden_act": "silu",
            "max_position_embeddings": self.context,
            "rms_norm_eps": self.norm_epsilon,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "rope_theta": self.rope_theta,
            "attention_bias": False,
            "mlp_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": True,
            "initializer_range": 0.02,
            "pad_token_id": pad,
            "bos_token_id": begin,
            "eos_token_id": ends,
            "dtype": "bfloat16",
            "use_cache": True,
        }

    def as_dict(self) -> dict[str, Any]:
        """The sizes as plain values, for a checkpoint."""
        return asdict(self)


@dataclass(frozen=True)
class Packed:
    """Sequences laid end to end, so that only attention ever works on padding.

    All indices are 1-D.  The last token is always padding, in a separate sequence: what is read from it is never
    used, and its gradient is zero.
    """

    tokens: Tensor  # [tokens]
    positions: Tensor  # [tokens], counted within each sequence
    spread: Tensor  # [sequences * length]: where in `tokens` each place of the padded form comes from
    gathered: Tensor  # [tokens]: where in the padded form each token is
    sequences: int
    length: int

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], *, grain: int = _GRAIN) -> Packed:
        """Pack ``sequences``; their number of tokens is filled up to a multiple of ``grain``."""
        longest = max(map(len, sequences))
        step = 16 if longest <= 128 else 32 if longest <= 256 else 64
        length = -(-longest // step) * step
        count = sum(map(len, sequences))
        padding = -(-(count + 1) // grain) * grain - count
        rows = [list(sequence) for sequence in sequences]
        rows += [[0] * min(length, padding - at) for at in range(0, padding, length)]
        rows += [[] for _ in range(-len(rows) % (8 if length <= 128 else 1))]
        last = count + padding - 1
        spread = torch.full((len(rows), length), last)
        positions, gathered, start = [], [], 0
        for number, row in enumerate(rows):
            spread[number, : len(row)] = torch.arange(start, start + len(row))
            positions.append(torch.arange(len(row)))
            gathered.append(torch.arange(len(row)) + number * length)
            start += len(row)
        return cls(
            torch.tensor([token for row in rows for token in row]),
            torch.cat(positions),
            spread.reshape(-1),
            torch.cat(gathered),
            len(rows),
            length,
        )

    def to(self, device: str) -> Packed:
        """The same on ``device``."""
        return Packed(
            self.tokens.to(device),
            self.positions.to(device),
            self.spread.to(device),
            self.gathered.to(device),
            self.sequences,
            self.length,
        )


class _Take(torch.autograd.Function):
    """``source[index]`` whose gradient is ``gradient[back]``: an index and its inverse, without any adding up."""

    @staticmethod
    def forward(context: Any, source: Tensor, index: Tensor, back: Tensor) -> Tensor:
        context.save_for_backward(back)
        return source.index_select(0, index)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (back,) = context.saved_tensors
        return gradient.index_select(0, back), None, None


def _take(source: Tensor, index: Tensor, back: Tensor) -> Tensor:
    return cast("Tensor", _Take.apply(source, index, back))  # type: ignore[no-untyped-call]  # torch leaves it untyped


class Norm(nn.Module):
    """Root-mean-square normalisation (Zhang and Sennrich, arXiv:1910.07467)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        """Scale each row of ``hidden`` to unit root mean square, then by the weight."""
        return functional.rms_norm(hidden, (hidden.shape[-1],), self.weight.to(hidden.dtype), self.epsilon)


class Attention(nn.Module):
    """Causal self-attention with rotary positions and grouped queries."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        width, shared = config.hidden, config.key_value_heads * config.head_width
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self, hidden: Tensor, cosine: Tensor, sine: Tensor, packed: Packed, wanted: Tensor | None = None
    ) -> Tensor:
        """Attend within each sequence of ``hidden``  # [tokens, hidden] -> [wanted or tokens, hidden]."""
        config = self.config
        query = _rotate(self.q_proj(hidden).view(-1, config.heads, config.head_width), cosine, sine)
        key = _rotate(self.k_proj(hidden).view(-1, config.key_value_heads, config.head_width), cosine, sine)
        value = self.v_proj(hidden).view(-1, config.key_value_heads, config.head_width)
        mixed = _attend(*(_padded(part, packed) for part in (query, key, value)))
        flat = mixed.transpose(1, 2).reshape(packed.sequences * packed.length, config.hidden)
        mixed = _take(flat, packed.gathered, packed.spread) if wanted is None else flat[packed.gathered[wanted]]
        return self.o_proj(mixed)  # type: ignore[no-any-return]


def _padded(heads: Tensor, packed: Packed) -> Tensor:
    """Bring ``heads``  # [tokens, heads, width]  to [sequences, heads, length, width]."""
    _, count, width = heads.shape
    taken = _take(heads.reshape(-1, count * width), packed.spread, packed.gathered)
    return taken.view(packed.sequences, packed.length, count, width).transpose(1, 2)


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of queries  # [sequences, heads, length, width]  to keys that several heads may share.

    On a CPU two matrix products, which are faster there than torch's fused kernel.  The profile that decided it:
    bfloat16, forward and backward, sequences of 64 to 1,024 tokens.
    """
    if query.device.type != "cpu":
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    _, heads, length, width = query.shape
    repeats = heads // key.shape[1]
    future = torch.full((length, length), -1e4, dtype=query.dtype).triu(1).repeat(repeats, 1)
    rows = query.reshape(-1, repeats * length, width)  # heads that share keys, one below the other
    keys, values = (part.reshape(-1, length, width) for part in (key, value))
    scores = torch.baddbmm(future, rows, keys.transpose(1, 2), alpha=width**-0.5)
    return torch.bmm(scores.softmax(-1), values).view(query.shape)


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-second, first), dim=-1) * sine


class FeedForward(nn.Module):
    """The gated feed-forward layer (Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the layer to each row."""
        return self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer: attention, then feed-forward, each on a normalised input and added to the stream."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = Norm(config.hidden, config.norm_epsilon)
        self.post_attention_layernorm = Norm(config.hidden, config.norm_epsilon)

    def forward(
        self, hidden: Tensor, cosine: Tensor, sine: Tensor, packed: Packed, wanted: Tensor | None = None
    ) -> Tensor:
        """Pass ``hidden``  # [tokens, hidden]  through the layer; all of it, or the ``wanted`` tokens."""
        mixed = self.self_attn(self.input_layernorm(hidden), cosine, sine, packed, wanted)
        hidden = mixed + (hidden if wanted is None else hidden[wanted])
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


class _Stem(nn.Module):
    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = Norm(config.hidden, config.norm_epsilon)


class Network(nn.Module):
    """The whole network, with the output matrix tied to the embedding."""

    def __init__(self, config: NetworkConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.model = _Stem(config)
        generator = torch.Generator().manual_seed(seed)
        residual = 0.02 / (2 * config.layers) ** 0.5
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.ndim == 2:
                    spread = residual if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.02
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
        angles = torch.outer(torch.arange(config.context).float(), _frequencies(config))
        angles = torch.cat((angles, angles), dim=-1)  # [context, head_width]
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def hidden(self, packed: Packed, dtype: torch.dtype, wanted: Tensor | None = None) -> Tensor:
        """The normalised last hidden states of all tokens, or of the ``wanted``  # [wanted or tokens, hidden]."""
        cosine = self.cosine[packed.positions].to(dtype).unsqueeze(1)  # type: ignore[index]  # [tokens, 1, head_width]
        sine = self.sine[packed.positions].to(dtype).unsqueeze(1)  # type: ignore[index]
        state = self.model.embed_tokens(packed.tokens).to(dtype)
        *layers, last = self.model.layers
        for layer in layers:
            state = layer(state, cosine, sine, packed)
        state = last(state, cosine, sine, packed, wanted)  # other tokens end with their last keys and values
        return self.model.norm(state)  # type: ignore[no-any-return]

    def losses(self, packed: Packed, targets: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The cross-entropy in nats of every token whose target is not negative, in reading order.

        ``targets``  # [tokens]  holds the token that should follow, or -1 where none is wanted.
        """
        learned = (targets >= 0).nonzero()[:, 0]
        wanted = torch.cat((learned, learned.new_zeros(-len(learned) % _GRAIN)))
        labels = torch.cat((targets[learned], targets.new_full((-len(learned) % _GRAIN,), -1)))
        logits = functional.linear(self.hidden(packed, dtype, wanted), self.model.embed_tokens.weight.to(dtype))
        losses = functional.cross_entropy(logits.float(), labels, ignore_index=-1, reduction="none")
        return losses[: len(learned)]

    def weights(self) -> Mapping[str, Tensor]:
        """The parameters by their transformers names."""
        return dict(self.state_dict())


def _frequencies(config: NetworkConfig) -> Tensor:
    width = config.head_width
    return torch.as_tensor(1.0 / config.rope_theta ** (torch.arange(0, width, 2).float() / width))
