"""The network of EAGLE-3, and its training-time test.

Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test",
arXiv:2503.01840: one decoder layer reads the inputs of three of the model's layers, joined, and the input vector of
the next token. For the guesses after the first, it reads its own last state instead, as it will have to when it
drafts. So it is trained on its own errors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from recipes.heads.network import Head, Sizes, matrix, normed, shifted_by
from recipes.heads.target import Seen, Target

__all__ = ["Eagle"]


class Eagle(Head):
    """See the module. Shapes and names follow SafeAILab's files: see `exported`."""

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        config, hidden, inner = target.config, target.hidden, sizes.inner
        self.heads, self.stored = int(config.num_attention_heads), int(config.num_key_value_heads or 0)
        self.width = int(getattr(config, "head_dim", None) or hidden // self.heads)
        self.epsilon = float(getattr(config, "rms_norm_eps", 1e-6))
        rope = getattr(config, "rope_parameters", None) or {}
        self.theta = float(rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0)
        self.layers, self.context = target.layers, int(config.max_position_embeddings)
        self.joined = matrix(hidden, 3 * hidden)
        self.embedded_norm, self.state_norm = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))
        self.query = matrix(self.heads * self.width, 2 * hidden)
        self.key = matrix(self.stored * self.width, 2 * hidden)
        self.value = matrix(self.stored * self.width, 2 * hidden)
        self.output = matrix(hidden, self.heads * self.width, 0.5)
        self.inner_norm = nn.Parameter(torch.ones(hidden))
        self.gate, self.up = matrix(inner, hidden), matrix(inner, hidden)
        self.down = matrix(hidden, inner, 0.5)
        self.norm = nn.Parameter(0.2 * target.norm.float())  # or its first guesses would be wrong and certain

    def states(self, seen: Seen) -> list[Tensor]:
        """See `Head`."""
        state = linear(seen.lower, self.joined)
        found: list[Tensor] = []
        known: list[tuple[Tensor, Tensor]] = []  # keys and values of each guess
        for guess in range(self.sizes.depth):
            state = self._layer(shifted_by(seen.embedded, 1 + guess), state, known)
            found.append(normed(state, self.norm, self.epsilon))
        return found

    def _layer(self, embedded: Tensor, state: Tensor, known: list[tuple[Tensor, Tensor]]) -> Tensor:
        batch, tokens = state.shape[:2]
        read = torch.cat(
            (normed(embedded, self.embedded_norm, self.epsilon), normed(state, self.state_norm, self.epsilon)), -1
        )
        queries, keys, values = (
            linear(read, weight).view(batch, tokens, -1, self.width).transpose(1, 2)
            for weight in (self.query, self.key, self.value)
        )  # [batch, heads, tokens, head_dim]
        place = torch.arange(tokens, device=state.device) + len(known)
        known.append((self._rotated(keys, place), values))
        mixed = self._attend(self._rotated(queries, place), known)
        state = state.float() + linear(mixed.transpose(1, 2).reshape(batch, tokens, -1), self.output)
        inside = normed(state, self.inner_norm, self.epsilon)
        return state + linear(silu(linear(inside, self.gate)) * linear(inside, self.up), self.down)

    def _attend(self, queries: Tensor, known: list[tuple[Tensor, Tensor]]) -> Tensor:
        """A guess sees the text up to its own token, and the guesses at the same token before it."""
        batch, heads, tokens, width = queries.shape
        queries = queries.view(batch, self.stored, -1, tokens, width) * width**-0.5
        (keys, values), own = known[0], [(key[:, :, None], value[:, :, None]) for key, value in known[1:]]
        scores = (queries @ keys[:, :, None].mT).float()  # [batch, kv heads, group, tokens, tokens]
        hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=queries.device).triu_(1)
        scores = scores.masked_fill(hidden, -torch.inf)
        own_scores = [(queries * key).float().sum(-1, keepdim=True) for key, _ in own]
        weights = torch.cat((scores, *own_scores), -1).softmax(-1).to(values.dtype)
        mixed = weights[..., :tokens] @ values[:, :, None]
        for number, (_, value) in enumerate(own):
            mixed = mixed + weights[..., tokens + number, None] * value
        return mixed.view(batch, heads, tokens, width)

    def _rotated(self, heads: Tensor, place: Tensor) -> Tensor:
        half = self.width // 2
        frequencies = self.theta ** (-torch.arange(half, device=heads.device) / half)
        angles = torch.cat((place[:, None] * frequencies,) * 2, -1)  # [tokens, head_dim]
        first, second = heads.chunk(2, -1)
        return (heads * angles.cos() + torch.cat((-second, first), -1) * angles.sin()).to(heads.dtype)

    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """See `Head`: the files of SafeAILab's EAGLE-3."""
        names = {
            "fc": self.joined,
            "midlayer.input_layernorm": self.embedded_norm,
            "midlayer.hidden_norm": self.state_norm,
            "midlayer.self_attn.q_proj": self.query,
            "midlayer.self_attn.k_proj": self.key,
            "midlayer.self_attn.v_proj": self.value,
            "midlayer.self_attn.o_proj": self.output,
            "midlayer.post_attention_layernorm": self.inner_norm,
            "midlayer.mlp.gate_proj": self.gate,
            "midlayer.mlp.up_proj": self.up,
            "midlayer.mlp.down_proj": self.down,
            "norm": self.norm,
            "lm_head": self.unembedding,
        }
        config: dict[str, object] = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": self.joined.shape[0],
            "intermediate_size": self.sizes.inner,
            "num_hidden_layers": 1,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.stored,
            "head_dim": self.width,
            "rms_norm_eps": self.epsilon,
            "rope_theta": self.theta,
            "max_position_embeddings": self.context,
            "attention_bias": False,
            "tie_word_embeddings": False,
            "eagle_aux_hidden_state_layer_ids": [*self.layers],
        }
        return {f"{name}.weight": tensor.detach() for name, tensor in names.items()}, config
