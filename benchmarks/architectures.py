"""Which architectures of transformers the local engine runs, and whether its answers are those of ``generate``.

    python benchmarks/architectures.py --update-docs

Small models with random weights, in float32. Their windows are 24 tokens and their rotary factors switch at 64, where
the architecture has such, and the texts of 9 to 122 tokens lie on both sides. Each model answers four prompts by four
decoding methods, one after the other and as one batch. With random weights logits are close to each other, so a single
wrong score shows.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.load import LoadedModel, prepare
from stretto.local_engine.pocket import pocket_folder
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import StrettoError

__all__ = ["ARCHITECTURES", "Row", "examine", "table"]

_PAGE = Path(__file__).resolve().with_name("results") / "architectures.md"
_BEGIN, _END = "<!-- architectures -->", "<!-- end of architectures -->"
_METHODS = ("autoregressive", "lookahead", "suffix")
_LENGTH = 32
_WINDOW, _SWITCH = 24, 64
_VOCABULARY = 400

_SIZES: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_HEADS = {"head_dim": 16}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0 + 0.1 * place for place in range(8)],
    "long_factor": [1.0 + 2.0 * place for place in range(8)],
    "original_max_position_embeddings": _SWITCH,
}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
_SECTIONS = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
_SLIDING = {"sliding_window": _WINDOW}
_MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_LAYERED_VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}


def _composite(text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    """A configuration of pictures and text; the models get no pictures."""
    return {"text_config": _SIZES | text, "vision_config": vision, "tie_word_embeddings": False}


ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("llama", _HEADS),
    "Llama, dynamic NTK": ("llama", {"rope_parameters": _DYNAMIC}),
    "Llama, LongRoPE": ("llama", {"rope_parameters": _LONGROPE}),
    "Llama 4": (
        "llama4_text",
        _HEADS | _LOCAL_EXPERTS | {"intermediate_size_mlp": 48, "attention_chunk_size": _WINDOW},
    ),
    "Mistral, sliding window": ("mistral", _HEADS | _SLIDING),
    "Ministral 3": ("ministral3", _HEADS | _SLIDING),
    "Mixtral": ("mixtral", _HEADS | _LOCAL_EXPERTS),
    "Qwen2": ("qwen2", {}),
    "Qwen2 MoE": ("qwen2_moe", _EXPERTS | {"shared_expert_intermediate_size": 32}),
    "Qwen3": ("qwen3", _HEADS),
    "Qwen3 MoE": ("qwen3_moe", _HEADS | _EXPERTS),
    "Qwen3-Next": ("qwen3_next", _HEADS | _EXPERTS),
    "Gemma": ("gemma", _HEADS),
    "Gemma 2": ("gemma2", _HEADS | _SLIDING),
    "Gemma 3": ("gemma3_text", _HEADS | _SLIDING),
    "Gemma 3n": (
        "gemma3n_text",
        _HEADS
        | _SLIDING
        | _MIXED
        | {
            "num_kv_shared_layers": 0,
            "vocab_size_per_layer_input": _VOCABULARY,
            "hidden_size_per_layer_input": 16,
            "activation_sparsity_pattern": [0.0, 0.0, 0.0],
            "laurel_rank": 8,
        },
    ),
    "Gemma 4": (
        "gemma4_text",
        _HEADS
        | _SLIDING
        | _MIXED
        | {
            "global_head_dim": 32,
            "num_kv_shared_layers": 0,
            "vocab_size_per_layer_input": _VOCABULARY,
            "hidden_size_per_layer_input": 16,
        },
    ),
    "Phi": ("phi", {}),
    "Phi-3": ("phi3", {}),
    "Phi-3, sliding window": ("phi3", _SLIDING),
    "Phi-3, LongRoPE": ("phi3", {"rope_parameters": _LONGROPE, "original_max_position_embeddings": _SWITCH}),
    "GPT-2": ("gpt2", {"n_positions": 256}),
    "GPT-Neo, window": (
        "gpt_neo",
        {"num_hidden_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": _WINDOW},
    ),
    "GPT-J": ("gptj", {"rotary_dim": 8, "n_positions": 256, "n_inner": 48}),
    "GPT-NeoX": ("gpt_neox", {}),
    "GPT-OSS": ("gpt_oss", _HEADS | _SLIDING | _LOCAL_EXPERTS),
    "MPT": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 256}),
    "Bloom": ("bloom", {"n_layer": 2, "n_head": 4}),
    "Falcon": ("falcon", {"alibi": False, "num_kv_heads": 2}),
    "Falcon, alibi": ("falcon", {"alibi": True}),
    "OPT": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 64}),
    "StarCoder2, window": ("starcoder2", _SLIDING),
    "OLMo": ("olmo", {}),
    "OLMo 2": ("olmo2", {}),
    "OLMo 3": ("olmo3", _SLIDING),
    "OLMoE": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "SmolLM3": ("smollm3", {}),
    "SmolLM3, layers without positions": ("smollm3", {"no_rope_layers": [1, 1, 0]}),
    "Granite": ("granite", {}),
    "Granite MoE": ("granitemoe", _LOCAL_EXPERTS),
    "Apertus": ("apertus", _HEADS),
    "Arcee": ("arcee", _HEADS),
    "Cohere": ("cohere", {}),
    "Cohere 2": ("cohere2", _HEADS | _SLIDING),
    "ERNIE 4.5": ("ernie4_5", _HEADS),
    "GLM-4": ("glm4", _HEADS),
    "GLM-4 MoE": (
        "glm4_moe",
        _HEADS
        | {
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
        },
    ),
    "Helium": ("helium", _HEADS),
    "Hunyuan": ("hunyuan_v1_dense", _HEADS),
    "Nemotron": ("nemotron", _HEADS),
    "Seed-OSS": ("seed_oss", _HEADS),
    "StableLM": ("stablelm", {}),
    "DeepSeek-V3": (
        "deepseek_v3",
        _LATENT
        | {
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 2,
            "topk_group": 1,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
        },
    ),
    "EXAONE 4": ("exaone4", _HEADS | _SLIDING),
    "Llama 4 with pictures": (
        "llama4",
        _composite(
            _HEADS | _LOCAL_EXPERTS | {"intermediate_size_mlp": 48, "attention_chunk_size": _WINDOW},
            _VISION | {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32},
        ),
    ),
    "Mistral 3": ("mistral3", _composite({"model_type": "mistral"} | _HEADS, {"model_type": "pixtral"} | _VISION)),
    "Gemma 3 with pictures": ("gemma3", _composite(_HEADS | _SLIDING, _VISION)),
    "Qwen2.5-VL": ("qwen2_5_vl", _composite({"rope_parameters": _SECTIONS}, _LAYERED_VISION | {"out_hidden_size": 64})),
    "Qwen3-VL": (
        "qwen3_vl",
        _composite(_HEADS | {"rope_parameters": _SECTIONS}, _LAYERED_VISION | {"out_hidden_size": 64}),
    ),
    "LLaVA": ("llava", _composite({"model_type": "llama"}, {"model_type": "siglip_vision_model"} | _VISION)),
    "PaliGemma": ("paligemma", _composite({"model_type": "gemma"} | _HEADS, _VISION)),
    "Llama 3.2 Vision": ("mllama", _composite({"cross_attention_layers": [1]}, _VISION)),
    "Mamba": ("mamba", {"num_hidden_layers": 2}),
    "RWKV": ("rwkv", {"attention_hidden_size": 64}),
}

_UNCACHED = frozenset({"Llama, LongRoPE"})
"""Phi-3 reads a text anew where its factors switch. Llama's ``generate`` goes on with keys of both sets, and so says
something else with a cache than without; the engine says the latter."""


@dataclass(frozen=True)
class Row:
    """What came of one architecture.

    Attributes:
        name: of the architecture.
        way: how it is run, or why it is not.
        solo: answers asked for alone that are those of ``generate``, of how many; ``None`` where it is refused.
        batch: the same for answers of one batch.
    """

    name: str
    way: str
    solo: tuple[int, int] | None = None
    batch: tuple[int, int] | None = None

    @property
    def equal(self) -> bool:
        """Whether no answer differs; a refused model gives none."""
        return all(right == asked for right, asked in (self.solo or (0, 0), self.batch or (0, 0)))


def examine(name: str, tokenizer: Any) -> Row:
    """Build a small model of an architecture and compare the engine's answers with those of ``generate``."""
    kind, own = ARCHITECTURES[name]
    torch.manual_seed(5)
    composite = "text_config" in own
    config = AutoConfig.for_model(kind, **own if composite else _SIZES | own)
    made: Any = AutoModelForImageTextToText if composite else AutoModelForCausalLM
    model = made.from_config(config).eval()
    try:
        ready = prepare(f"local:{kind}", model, tokenizer)
    except StrettoError as error:
        return Row(name, f"refused: {str(error).partition(': ')[2].partition('. ')[0]}")
    texts = [_prompt(length, number) for number, length in enumerate((20, 90, 47, 9))]
    texts = [text for text in texts if len(text) + _LENGTH <= ready.context_window]
    expected = [_generated(model, text, cached=name not in _UNCACHED) for text in texts]
    engine = Engine(ready, prefix_cache_bytes=0)
    try:
        solo = batch = 0
        for method in _METHODS:
            for text, answer in zip(texts, expected, strict=True):
                solo += _answers(engine, [text], method) == [answer]
            together = _answers(engine, texts, method)
            batch += sum(own == answer for own, answer in zip(together, expected, strict=True))
    finally:
        engine.close()
    asked = len(texts) * len(_METHODS)
    return Row(name, _way(ready), (solo, asked), (batch, asked))


def _way(ready: LoadedModel) -> str:
    if isinstance(ready.forward, LlamaForward):
        return "lean"
    return "one at a time" if ready.runs_alone else "general"


def _prompt(length: int, first: int) -> tuple[int, ...]:
    return tuple((number * number * 7 + number * 3 + first) % 390 + 5 for number in range(length))


def _generated(model: Any, text: Sequence[int], *, cached: bool) -> list[int]:
    ids = torch.tensor([text])
    options = {"max_new_tokens": _LENGTH, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    options["use_cache"] = cached
    with torch.inference_mode():
        generated = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    answer: list[int] = generated[0, len(text) :].tolist()
    return answer


def _answers(engine: Engine, texts: Sequence[tuple[int, ...]], method: str) -> list[list[int]]:
    with engine.announced():
        handles = [engine.submit(Generation(text, _LENGTH, decoding=method)) for text in texts]
    for handle in handles:
        for event in handle:
            error = getattr(event, "error", None)
            if error is not None:
                logging.getLogger(__name__).warning("%s", error)
    return [handle.sequence.generated for handle in handles]


def table(rows: Sequence[Row]) -> str:
    """Lay the results out as Markdown."""
    lines = ["| architecture | how | equal, alone | equal, in a batch |", "|---|---|---:|---:|"]
    for row in rows:
        counts = ["" if pair is None else f"{pair[0]}/{pair[1]}" for pair in (row.solo, row.batch)]
        lines.append(f"| {row.name} | {row.way} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines)


def main() -> None:
    """Examine all architectures, or those named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="architectures to examine; all of them by default")
    parser.add_argument("--update-docs", action="store_true", help="write benchmarks/results/architectures.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # not typed there
    logging.getLogger("stretto").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
    rows = []
    for name in options.names or ARCHITECTURES:
        rows.append(examine(name, tokenizer))
        print(f"{rows[-1].name}: {rows[-1].way} {rows[-1].solo or ''} {rows[-1].batch or ''}", flush=True)
    print(f"\n{table(rows)}")
    if options.update_docs:
        text = _PAGE.read_text(encoding="utf-8")
        before, after = text.split(_BEGIN)[0], text.split(_END)[1]
        _PAGE.write_text(f"{before}{_BEGIN}\n\n{table(rows)}\n\n{_END}{after}", encoding="utf-8")
    if not all(row.equal for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
