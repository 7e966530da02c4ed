"""A lean training forward of the Llama architecture.

The parameters carry the names that :class:`transformers.LlamaForCausalLM` gives them, so a trained network is
exported by saving its state and read back by transformers without any conversion.  What is left out is everything
training does not need: key-value caches, attention masks (examples are padded on the right, and a causal row never
sees what follows it) and logits at positions that carry no loss.

Architecture: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971; rotary
positions: Su et al., arXiv:2104.09864; grouped queries: Ainslie et al., arXiv:2305.13245; tied embeddings: Press and
Wolf, arXiv:1608.05859.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Block", "Network", "NetworkConfig"]


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

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Attend within each sequence of ``hidden``  # [batch, rows, hidden]."""
        batch, rows, width = hidden.shape
        config = self.config
        query = self.q_proj(hidden).view(batch, rows, config.heads, config.head_width).transpose(1, 2)
        key = self.k_proj(hidden).view(batch, rows, config.key_value_heads, config.head_width).transpose(1, 2)
        value = self.v_proj(hidden).view(batch, rows, config.key_value_heads, config.head_width).transpose(1, 2)
        query, key = _rotate(query, cosine, sine), _rotate(key, cosine, sine)
        repeats = config.heads // config.key_value_heads
        key = key.repeat_interleave(repeats, dim=1)  # [batch, heads, rows, head_width]
        value = value.repeat_interleave(repeats, dim=1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, rows, width))  # type: ignore[no-any-return]


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

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Pass ``hidden``  # [batch, rows, hidden]  through the layer."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cosine, sine)
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

    def hidden(self, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        """The normalised last hidden states of ``tokens``  # [batch, rows] -> [batch, rows, hidden]."""
        rows = tokens.shape[1]
        cosine = self.cosine[:rows].to(dtype)  # type: ignore[index]
        sine = self.sine[:rows].to(dtype)  # type: ignore[index]
        state = self.model.embed_tokens(tokens).to(dtype)
        for layer in self.model.layers:
            state = layer(state, cosine, sine)
        return self.model.norm(state)  # type: ignore[no-any-return]

    def losses(self, tokens: Tensor, targets: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The cross-entropy in nats of every position whose target is not negative, in reading order.

        ``tokens`` and ``targets`` are [batch, rows]; ``targets`` holds the token that should follow, or -1 where none
        is wanted.
        """
        places = (targets.reshape(-1) >= 0).nonzero()[:, 0]
        count = len(places)
        places = torch.cat((places, places.new_zeros(-count % 256)))  # few shapes: kernels are built once per shape
        state = self.hidden(tokens, dtype).reshape(-1, self.config.hidden)[places]  # [wanted and padding, hidden]
        logits = functional.linear(state, self.model.embed_tokens.weight.to(dtype))
        wanted = targets.reshape(-1)[places[:count]]
        return functional.cross_entropy(logits[:count].float(), wanted, reduction="none")

    def weights(self) -> Mapping[str, Tensor]:
        """The parameters by their transformers names."""
        return dict(self.state_dict())


def _frequencies(config: NetworkConfig) -> Tensor:
    width = config.head_width
    return torch.as_tensor(1.0 / config.rope_theta ** (torch.arange(0, width, 2).float() / width))
