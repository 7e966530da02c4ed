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
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 400
WINDOW = 256
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": WINDOW,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def build(architecture: str) -> Any:
    torch.manual_seed(5)
    match architecture:
        case "llama":
            return LlamaForCausalLM(LlamaConfig(**SIZES))
        case "qwen3":
            return Qwen3ForCausalLM(Qwen3Config(**SIZES))
        case "mistral":
            return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=12))
        case "gemma3":
            kinds = ["sliding_attention", "full_attention", "sliding_attention"]
            return Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, sliding_window=12, layer_types=kinds))
        case "gpt2":
            sizes = {"n_positions": WINDOW, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
            return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, **sizes))
    raise AssertionError(architecture)
