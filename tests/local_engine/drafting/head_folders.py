"""Heads with random weights for the tiny models, in the formats in which they are published."""

import json

import torch
from safetensors.torch import save_file
from tiny_models import SIZES, VOCABULARY

HIDDEN, HEADS, STORED, WIDTH, INNER = 64, 4, 2, 16, 48
LAYERS = (0, 1, 2)
WORDS = torch.arange(5, VOCABULARY, 2)
LAYER_CONFIG = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": STORED,
    "head_dim": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 256,
    "vocab_size": VOCABULARY,
}


def drawn(*shape):
    return torch.randn(shape) * 0.2


def around_one(width):
    return 1 + 0.3 * torch.randn(width)


def layer(prefix, *, reads=HIDDEN, head_norms=False):
    tensors = {
        f"{prefix}input_layernorm.weight": around_one(HIDDEN),
        f"{prefix}post_attention_layernorm.weight": around_one(HIDDEN),
        f"{prefix}self_attn.q_proj.weight": drawn(HEADS * WIDTH, reads),
        f"{prefix}self_attn.k_proj.weight": drawn(STORED * WIDTH, reads),
        f"{prefix}self_attn.v_proj.weight": drawn(STORED * WIDTH, reads),
        f"{prefix}self_attn.o_proj.weight": drawn(HIDDEN, HEADS * WIDTH),
        f"{prefix}mlp.gate_proj.weight": drawn(INNER, HIDDEN),
        f"{prefix}mlp.up_proj.weight": drawn(INNER, HIDDEN),
        f"{prefix}mlp.down_proj.weight": drawn(HIDDEN, INNER),
    }
    if head_norms:
        tensors |= {f"{prefix}self_attn.{name}_norm.weight": around_one(WIDTH) for name in "qk"}
    return tensors


def eagle3(*, flags=(), head_norms=False, words=None):
    """Tensors by their names in a folder of speculators, and its ``config.json``."""
    torch.manual_seed(11)
    tensors = layer("layers.0.", reads=2 * HIDDEN, head_norms=head_norms)
    tensors |= {
        "fc.weight": drawn(HIDDEN, 3 * HIDDEN),
        "layers.0.hidden_norm.weight": around_one(HIDDEN),
        "norm.weight": around_one(HIDDEN),
        "lm_head.weight": drawn(VOCABULARY if words is None else len(words), HIDDEN),
    }
    if words is not None:
        tensors |= {"d2t": words - torch.arange(len(words)), "t2d": torch.isin(torch.arange(VOCABULARY), words)}
    if "norm_before_fc" in flags:
        tensors["input_norm.weight"] = around_one(3 * HIDDEN)
    if "fc_norm" in flags:
        tensors |= {f"fc_norms.{number}.weight": around_one(HIDDEN) for number in range(3)}
    config = {
        "speculators_model_type": "eagle3",
        "eagle_aux_hidden_state_layer_ids": list(LAYERS),
        "transformer_layer_config": LAYER_CONFIG,
        **dict.fromkeys(flags, True),
    }
    return tensors, config


def peagle(*, words=None, foresees=4, **own):
    """The same of P-EAGLE, which knows what stands for a row without a token and without states."""
    tensors, config = eagle3(words=words)
    torch.manual_seed(15)
    tensors["mask_hidden"] = drawn(1, 1, 3 * HIDDEN)
    proposed = [{"proposal_type": "greedy", "speculative_tokens": foresees}]
    config |= {"speculators_model_type": "peagle", "speculators_config": {"proposal_methods": proposed}}
    return tensors, config | {"mask_token_id": 3} | own


def medusa(*, blocks=1, words=None, heads=3):
    """Tensors and ``config.json`` of Medusa's heads."""
    torch.manual_seed(12)
    tensors = {}
    for head in range(heads):
        for block in range(blocks):
            tensors[f"{head}.{block}.linear.weight"] = drawn(HIDDEN, HIDDEN)
            tensors[f"{head}.{block}.linear.bias"] = drawn(HIDDEN)
        tensors[f"{head}.{blocks}.weight"] = drawn(VOCABULARY if words is None else len(words), HIDDEN)
    if words is not None:
        tensors["d2t"] = words - torch.arange(len(words))
    return tensors, {"medusa_num_heads": heads, "medusa_num_layers": blocks}


def dflash(
    kinds=("full_attention", "sliding_attention"),
    *,
    block=4,
    markov=0,
    kind="vanilla",
    words=None,
    sure=False,
    anchor=True,
):
    """Tensors by their names in a folder of speculators, and its ``config.json``; with ``markov``, of DSpark."""
    torch.manual_seed(13)
    tensors = {}
    for number in range(len(kinds)):
        tensors |= layer(f"layers.{number}.", head_norms=True)
    tensors |= {
        "fc.weight": drawn(HIDDEN, 2 * HIDDEN),
        "hidden_norm.weight": around_one(HIDDEN),
        "norm.weight": around_one(HIDDEN),
    }
    if words is not None:
        tensors |= {"lm_head.weight": drawn(len(words), HIDDEN), "d2t": words - torch.arange(len(words))}
    if markov:
        count = VOCABULARY if words is None else len(words)
        tensors |= {
            "markov_head.markov_w1.weight": drawn(VOCABULARY, markov),
            "markov_head.markov_w2.weight": 5 * drawn(count, markov),
        }
        if kind == "gated":
            tensors["markov_head.gate_proj.weight"] = drawn(markov, HIDDEN + markov)
            tensors["markov_head.gate_proj.bias"] = drawn(markov)
        if kind == "rnn":
            tensors["markov_head.joint_proj.weight"] = drawn(3 * markov, 2 * markov + HIDDEN)
            tensors["markov_head.joint_proj.bias"] = drawn(3 * markov)
    if sure:
        tensors["confidence_head.proj.weight"] = drawn(1, HIDDEN + markov)
        tensors["confidence_head.proj.bias"] = drawn(1)
    config = {
        "speculators_model_type": "dspark" if markov else "dflash",
        "enable_confidence_head": sure,
        "confidence_head_with_markov": sure,
        "aux_hidden_state_layer_ids": [1, 2],
        "block_size": block,
        "mask_token_id": 3,
        "sample_from_anchor": bool(markov) and anchor,
        "markov_rank": markov,
        "markov_head_type": kind,
        "transformer_layer_config": {
            **LAYER_CONFIG,
            "num_hidden_layers": len(kinds),
            "layer_types": list(kinds),
            "sliding_window": 6,
        },
    }
    return tensors, config


def mtp():
    """Tensors of a layer for multi-token prediction, as they lie in a model's folder, and what its config says."""
    torch.manual_seed(14)
    tensors = {
        "mtp.fc.weight": drawn(HIDDEN, 2 * HIDDEN),
        "mtp.pre_fc_norm_embedding.weight": around_one(HIDDEN),
        "mtp.pre_fc_norm_hidden.weight": around_one(HIDDEN),
        "mtp.norm.weight": around_one(HIDDEN),
        **layer("mtp.layers.0."),
    }
    return tensors, {**SIZES, **LAYER_CONFIG, "num_hidden_layers": 3, "num_nextn_predict_layers": 1}


def write(folder, tensors, config):
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder
