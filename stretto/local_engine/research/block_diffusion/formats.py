"""Published formats of models that write blocks at once, recognised by ``config.json``.

Each is one of transformers' architectures with another attention mask, so the code that comes with it is not run:
the configuration is read as that of its base, and the weights get the base's names.

Cheng et al., arXiv:2510.06303 (SDAR); Wu et al., arXiv:2509.26328 (Fast-dLLM v2); Nie et al., arXiv:2502.09992
(LLaDA); Ye et al., arXiv:2508.15487 (Dream); Yu et al., arXiv:2604.11035 (I-DLM).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.block_form import BlockForm, Recognised, Sight
from stretto.values.errors import BackendError, InvalidRequestError, ModelNotFoundError

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.forward import Forward

_ANSWER = 256  # default number of tokens, if all of them are predicted in each forward
_CANVAS = 256
_SMALLEST_SDAR = 4  # tokens of a block
_OF_ITS_CODE = (
    "architectures",
    "auto_map",
    "attn_implementation",
    "_attn_implementation",
    "use_cache",
    "transformers_version",
)


def recognised(config: Mapping[str, Any]) -> Recognised | None:
    """Recognise a model by its configuration; ``None`` for one that writes from left to right.

    Raises `ValueError` for a variant that cannot be run.
    """
    if "diffusion" in config:
        return _own(config)
    kind = str(config.get("model_type", ""))
    if kind in _NOT_RUN:
        raise ValueError(f"models of the type {kind} write blocks at once, and are not run here: {_NOT_RUN[kind]}")
    read = _FORMATS.get(kind)
    return None if read is None else read(config)


def _own(config: Mapping[str, Any]) -> Recognised:
    """Read the format of this library: any architecture, with fields that say how it writes."""
    sights: dict[str, Sight] = {"block-causal": "block", "bidirectional": "everything"}
    kind = config["diffusion"]
    sight = sights.get(kind) if isinstance(kind, str) else None
    if sight is None:
        raise ValueError(f"config.json has diffusion={kind!r}, and what is known is {' and '.join(sights)}")
    shifted = bool(config.get("shifted_logits", False))
    form = BlockForm(
        "block diffusion",
        _whole(config, ("block_length", "block_size")),
        _whole(config, ("mask_token_id",), -1),
        sight,
        shifted=shifted,
        joined=shifted,
        answer=_ANSWER if sight == "everything" else None,
    )
    return Recognised(form, {name: value for name, value in config.items() if name != "diffusion"})


def _sdar(config: Mapping[str, Any], base: str = "qwen3") -> Recognised:
    """Read SDAR, or I-DLM, published as SDAR with smaller blocks: its rows are causal and predict the next token."""
    block = _whole(config, ("block_size", "block_length"), _SMALLEST_SDAR)
    if block < _SMALLEST_SDAR:
        return Recognised(None, _as(base, config))
    form = BlockForm("SDAR", block, _whole(config, ("mask_token_id",), 151669))
    return Recognised(form, _as(base, config))


def _fast_dllm(config: Mapping[str, Any]) -> Recognised:
    block = _whole(config, ("bd_size", "block_size"), 32)
    form = BlockForm(
        "Fast-dLLM v2", block, _whole(config, ("mask_token_id",), 151665), shifted=True, part=min(8, block)
    )
    return Recognised(form, _as("qwen2", config))


def _dream(config: Mapping[str, Any]) -> Recognised:
    form = BlockForm(
        "Dream", 32, _whole(config, ("mask_token_id",), 151666), "everything", shifted=True, answer=_ANSWER
    )
    return Recognised(form, _as("qwen2", config))


def _llada(config: Mapping[str, Any]) -> Recognised:
    """Read LLaDA, which is a Llama with the names of OLMo."""
    for name, wanted in _LLADA_HAS.items():
        if (value := config.get(name, wanted)) != wanted:
            raise ValueError(f"config.json of this LLaDA has {name}={value!r}, and the base that is run has {wanted!r}")
    if lacking := [name for name in _LLADA_NEEDS if name not in config]:
        raise ValueError(f"config.json of this LLaDA has no {' and no '.join(lacking)}")
    heads, width = config["n_heads"], config["d_model"]
    own = {
        "hidden_size": width,
        "intermediate_size": config.get("mlp_hidden_size") or int(config.get("mlp_ratio", 4) * width),
        "num_hidden_layers": config["n_layers"],
        "num_attention_heads": heads,
        "num_key_value_heads": config.get("n_kv_heads") or heads,
        "vocab_size": config.get("embedding_size") or config["vocab_size"],
        "max_position_embeddings": config.get("max_sequence_length", 4096),
        "rms_norm_eps": config.get("rms_norm_eps", 1e-5),
        "rope_theta": config.get("rope_theta", 10_000.0),
        "tie_word_embeddings": bool(config.get("weight_tying", False)),
    }
    kept = {name: config[name] for name in _LLADA_KEPT if name in config}
    form = BlockForm("LLaDA", 32, _whole(config, ("mask_token_id",), 126336), "everything", answer=_ANSWER)
    return Recognised(form, {"model_type": "llama"} | kept | own, _LLADA_NAMES)


_LLADA_NEEDS = ("d_model", "n_heads", "n_layers", "vocab_size")
_LLADA_HAS = {
    "block_type": "llama",
    "activation_type": "silu",
    "layer_norm_type": "rms",
    "rope": True,
    "alibi": False,
    "attention_layer_norm": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "scale_logits": False,
    "input_emb_norm": False,
}
_LLADA_KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype")
_LLADA_NAMES = {
    r"^model\.transformer\.wte\.": "model.embed_tokens.",
    r"^model\.transformer\.ln_f\.": "model.norm.",
    r"^model\.transformer\.ff_out\.": "lm_head.",
    r"^model\.transformer\.blocks\.(\d+)\.attn_norm\.": r"model.layers.\1.input_layernorm.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_norm\.": r"model.layers.\1.post_attention_layernorm.",
    r"^model\.transformer\.blocks\.(\d+)\.q_proj\.": r"model.layers.\1.self_attn.q_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.k_proj\.": r"model.layers.\1.self_attn.k_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.v_proj\.": r"model.layers.\1.self_attn.v_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.attn_out\.": r"model.layers.\1.self_attn.o_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_proj\.": r"model.layers.\1.mlp.gate_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.up_proj\.": r"model.layers.\1.mlp.up_proj.",
    r"^model\.transformer\.blocks\.(\d+)\.ff_out\.": r"model.layers.\1.mlp.down_proj.",
}


def _diffusion_gemma(config: Mapping[str, Any]) -> Recognised:
    """Read DiffusionGemma, which transformers supports; it has no mask tokens."""
    form = BlockForm("DiffusionGemma", _whole(config, ("canvas_length",), _CANVAS), -1, "everything", canvas=True)
    return Recognised(form, {name: value for name, value in config.items() if name != "architectures"})


_FORMATS: Mapping[str, Callable[[Mapping[str, Any]], Recognised]] = {
    "sdar": _sdar,
    "sdar_moe": partial(_sdar, base="qwen3_moe"),
    "Fast_dLLM_Qwen": _fast_dllm,
    "Dream": _dream,
    "llada": _llada,
    "diffusion_gemma": _diffusion_gemma,
}
"""Readers of the formats, by ``model_type``."""

_EXPERTS = "transformers does not have the layers of their experts. Choose a dense one, or SDAR-30B-A3B"
_NOT_RUN: Mapping[str, str] = {
    "llada2_moe": _EXPERTS,
    "llada_moe": _EXPERTS,
    "nemotron_labs_diffusion": "no code but their own knows their layers",
}
"""Why models are not supported, by ``model_type``."""


def _as(base: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _OF_ITS_CODE} | {"model_type": base}


def _whole(config: Mapping[str, Any], names: tuple[str, ...], default: int | None = None) -> int:
    """Return the first of these fields that is present. Raises `ValueError` unless it is a valid integer."""
    value = next((config[name] for name in names if config.get(name) is not None), default)
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < -1
        or (names[0] != "mask_token_id" and value < 1)
    ):
        raise ValueError(f"config.json has {names[0]}={value!r}, which is no such number")
    return value


def checked_form(name: str, form: BlockForm, forward: Forward, vocabulary: int, tokenizer: Any) -> BlockForm:
    """Return the form with its mask token, taken from the tokenizer if the configuration has none.

    Args:
        name: name of the model.
        form: form by the model's files.
        forward: runs the model.
        vocabulary: token ids are below this.
        tokenizer: tokenizer of the model.

    Raises `ModelNotFoundError` without a mask token, `BackendError` if the forward takes no custom mask.
    """
    if form.canvas:
        return form
    mask = form.mask if form.mask >= 0 else getattr(tokenizer, "mask_token_id", None)
    if mask is None or not 0 <= mask < vocabulary:
        raise ModelNotFoundError(
            f"{name} writes blocks at once and has no mask token: config.json has mask_token_id="
            f"{None if form.mask < 0 else form.mask}, and its token ids are below {vocabulary}. Write the right one "
            "there.",
            backend=name,
        )
    if forward.alone or forward.switch is not None:
        own = "rotary factors that change with the length" if forward.switch is not None else "attention of its own"
        raise BackendError(
            f"{name} cannot be run: it writes blocks at once ({form.family}), and its base has {own}. "
            "Choose a model of plain attention layers; docs/models.md says which run.",
            backend=name,
        )
    return replace(form, mask=mask)


def check_diffusion(request: Generation, model: str, form: BlockForm) -> None:
    """Raise `InvalidRequestError` for options that need tokens from left to right."""
    for name, wanted in (
        ("logprobs", request.logprobs is not None),
        ("response_format", request.response_format is not None),
        ("no_repeat_ngram_size", request.no_repeat_ngram_size > 0),
    ):
        if wanted:
            raise InvalidRequestError(
                f"{name} cannot be used with {model}: it writes blocks of tokens at once ({form.family}), and this "
                "needs one token after the other. Leave it out, or choose a model that writes from left to right."
            )
    changed = (request.repetition_penalty != 1.0, request.logit_bias, request.suppress_tokens)
    if form.canvas and any((*changed, request.begin_suppress_tokens)):
        raise InvalidRequestError(
            f"Penalties and biases of tokens cannot be used with {model}: transformers refines its blocks by itself "
            f"({form.family}). Leave them out."
        )
