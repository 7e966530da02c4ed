"""Tiny models with random weights."""

from typing import Any

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 400
WINDOW = 256
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": WINDOW,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def build(architecture: str) -> Any:
    """The same weights each time it is asked for the same architecture; in half precision, as most are published."""
    torch.manual_seed(5)
    return ARCHITECTURES[architecture]().bfloat16().float()


ARCHITECTURES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in SIZES.items() if k != "head_dim"})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)),
    "qwen3 sliding": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **SIZES,
            use_sliding_window=True,
            sliding_window=12,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        )
    ),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=12)),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SIZES, sliding_window=12, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
        )
    ),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=WINDOW,
            n_embd=32,
            n_layer=2,
            n_head=4,
            initializer_range=0.3,
            bos_token_id=1,
            eos_token_id=2,
        )
    ),
}
