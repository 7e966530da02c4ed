"""Tiny models as GGUF files, laid out as llama.cpp's converter lays them out."""

import json

import gguf
import numpy as np
import torch
from tiny_models import SIZES, WITHOUT_HEAD_DIM
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

TEMPLATE = "{% for message in messages %}<begin>{{ message['content'] }}<end>{% endfor %}"


def _seeded(make):
    torch.manual_seed(5)
    return make()


def _gemma3():
    config = Gemma3TextConfig(**SIZES | {"num_hidden_layers": 7}, sliding_window=12, query_pre_attn_scalar=16)
    return Gemma3ForCausalLM(config)  # five layers in six see a window


MODELS = {
    "llama": lambda: _seeded(lambda: LlamaForCausalLM(LlamaConfig(**SIZES))),
    "qwen2": lambda: _seeded(lambda: Qwen2ForCausalLM(Qwen2Config(**WITHOUT_HEAD_DIM))),
    "qwen3": lambda: _seeded(lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES))),
    "gemma3": lambda: _seeded(_gemma3),
    "phi3": lambda: _seeded(lambda: Phi3ForCausalLM(Phi3Config(**WITHOUT_HEAD_DIM))),
    "llama tied": lambda: _seeded(lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True))),
}


def write_gguf(path, model, tokenizer, *, kind="F32", fields=(), tensors=(), leave_out=(), template=TEMPLATE):
    """Write a model. ``fields``: more of the head, or others; ``tensors``: more of them; ``leave_out``: names."""
    config = model.config
    name = {"gemma3_text": "gemma3"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, name)
    head = {
        "context_length": config.max_position_embeddings,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "embedding_length": config.hidden_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "rope.dimension_count": config.hidden_size // config.num_attention_heads,
        "rope.freq_base": 1e6 if name == "gemma3" else 1e4,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    if hasattr(config, "head_dim"):
        head |= {"attention.key_length": config.head_dim, "attention.value_length": config.head_dim}
    if name == "gemma3":
        head["attention.sliding_window"] = config.sliding_window
    head = {f"{name}.{key}": value for key, value in head.items()} | dict(fields)
    for key, value in head.items():
        put = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        (writer.add_string if isinstance(value, str) else put)(key, value)
    _write_tokenizer(writer, tokenizer, pads="tokenizer.ggml.padding_token_id" not in head)
    if template is not None:
        writer.add_chat_template(template)
    for key, value in [*_tensors(name, model), *tensors]:
        if key in leave_out:
            continue
        form = gguf.GGMLQuantizationType[kind if value.ndim > 1 and value.shape[-1] % 32 == 0 else "F32"]
        writer.add_tensor(key, gguf.quantize(value, form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer, tokenizer, *, pads):
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    ids = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
    inner = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3 if number in ids else 1 for number in range(len(words))])
    writer.add_token_merges([" ".join(pair) for pair in inner["merges"]])
    if pads:
        writer.add_pad_token_id(ids[0])
    writer.add_bos_token_id(ids[1])
    writer.add_eos_token_id(ids[2])


def _tensors(name, model):
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == name)
    table = gguf.get_tensor_name_map(number, model.config.num_hidden_layers)
    for full, weight in model.state_dict().items():
        if full == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        numbers = weight.float().numpy()
        if name == "llama" and (".q_proj" in full or ".k_proj" in full):
            numbers = _interleaved(numbers, model.config, "q_proj" in full)
        if name == "gemma3" and full.endswith("norm.weight"):
            numbers = numbers + 1
        stem, _, end = full.rpartition(".")
        yield f"{table.get_name(stem)}.{end}", np.ascontiguousarray(numbers)


def nextn(tensors, config, layer):
    """A layer for multi-token prediction as llama.cpp's converter writes it: fields and tensors for `write_gguf`."""
    named = {
        "fc": "nextn.eh_proj",
        "pre_fc_norm_embedding": "nextn.enorm",
        "pre_fc_norm_hidden": "nextn.hnorm",
        "norm": "nextn.shared_head_norm",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "o_proj": "attn_output",
        **{f"{each}_proj": f"attn_{each}" for each in "qkv"},
        **{f"{each}_proj": f"ffn_{each}" for each in ("gate", "up", "down")},
    }
    found = []
    for full, tensor in tensors.items():
        name, numbers = full.removesuffix(".weight").rpartition(".")[2], tensor.numpy()
        if name in ("q_proj", "k_proj"):
            numbers = _interleaved(numbers, config, name == "q_proj")
        found.append((f"blk.{layer}.{named[name]}.weight", np.ascontiguousarray(numbers)))
    return {"llama.block_count": layer + 1, "llama.nextn_predict_layers": 1}, found


def _interleaved(numbers, config, is_query):
    """The halves that rotate together, beside each other."""
    heads = config.num_attention_heads if is_query else config.num_key_value_heads
    return numbers.reshape(heads, 2, -1, numbers.shape[-1]).swapaxes(1, 2).reshape(numbers.shape)
