"""Tiny models with random weights."""

from typing import Any

import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MptConfig,
    MptForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
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


ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
WITHOUT_HEAD_DIM = {key: value for key, value in SIZES.items() if key != "head_dim"}
SWITCH = 64
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0 + 0.1 * place for place in range(8)],
    "long_factor": [1.0 + 2.0 * place for place in range(8)],
    "original_max_position_embeddings": SWITCH,
}

ARCHITECTURES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{k: v for k, v in SIZES.items() if k != "head_dim"})),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)),
    "qwen3 moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2)
    ),
    "qwen3 sliding": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **SIZES,
            use_sliding_window=True,
            sliding_window=12,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        )
    ),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=12)),
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(
            **SIZES, sliding_window=12, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
        )
    ),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SIZES,
            sliding_window=12,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=10,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            },
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
    "phi3": lambda: Phi3ForCausalLM(Phi3Config(**WITHOUT_HEAD_DIM, sliding_window=12)),
    "phi3 longrope": lambda: Phi3ForCausalLM(
        Phi3Config(**WITHOUT_HEAD_DIM, rope_parameters=LONGROPE, original_max_position_embeddings=SWITCH)
    ),
    "gpt neo": lambda: GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_layers=2,
            num_heads=4,
            max_position_embeddings=WINDOW,
            attention_types=[[["global", "local"], 1]],
            window_size=24,
            initializer_range=0.2,
            **ENDS,
        )
    ),
    "mpt": lambda: MptForCausalLM(
        MptConfig(
            vocab_size=VOCABULARY, d_model=64, n_layers=2, n_heads=4, max_seq_len=WINDOW, initializer_range=0.2, **ENDS
        )
    ),
    "bloom": lambda: BloomForCausalLM(
        BloomConfig(vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4, initializer_range=0.2, **ENDS)
    ),
    "falcon alibi": lambda: FalconForCausalLM(
        FalconConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            alibi=True,
            initializer_range=0.2,
            **ENDS,
        )
    ),
    "llama4": lambda: Llama4ForCausalLM(
        Llama4TextConfig(
            **SIZES,
            intermediate_size_mlp=48,
            num_local_experts=2,
            attention_chunk_size=24,
            no_rope_layers=[1, 1, 0],
            floor_scale=32,
        )
    ),
    "dynamic ntk": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SIZES | {"max_position_embeddings": SWITCH},
            rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0},
        )
    ),
}
