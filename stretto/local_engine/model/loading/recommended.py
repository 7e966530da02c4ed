"""The generation settings in a model's files: ``generation_config.json`` and ``config.json``.

Settings that transformers' `generate` applies are applied here too, or the model is refused: ignoring one would change
the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto.local_engine.generation import Generation
from stretto.values.errors import BackendError, InvalidRequestError

_SAMPLING: dict[str, float] = {"temperature": 1.0, "top_k": 50}  # defaults of transformers
_LIMITS = ("top_p", "top_k", "min_p")
# For each setting that can change an answer, the values with which it does not. Other settings never do: they are about
# beam search (length_penalty, early_stopping), memory and speed (use_cache, prompt_lookup_num_tokens), what is reported
# (output_scores) or NaN (remove_invalid_values), or they scale all probabilities alike (renormalize_logits). The
# request limits the length of an answer (max_length, max_new_tokens).
_REFUSED: dict[str, tuple[object, ...]] = {
    "bad_words_ids": ([],),
    "constraints": ([],),
    "diversity_penalty": (0.0,),
    "dola_layers": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "guidance_scale": (1.0,),
    "max_time": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "num_beam_groups": (1,),
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0.0,),
    "sequence_bias": ({}, []),
    "stop_strings": ([], ""),
    "token_healing": (False,),
    "top_h": (),
    "typical_p": (1.0,),
    "watermarking_config": ({},),
}


def sampling(name: str, model: Any) -> dict[str, float]:
    """Return the model's own temperature, top_p, top_k and min_p, as fields of a `Generation`.

    Without ``do_sample`` there is no temperature. The others then apply to requests that set one.

    Raises `BackendError` for a number out of range.
    """
    own = model.generation_config
    samples = getattr(own, "do_sample", False)  # DiffusionGemma's has no such field
    found: dict[str, float] = dict(_SAMPLING) if samples else {}
    for field in ("temperature", *_LIMITS) if samples else _LIMITS:
        if (value := getattr(own, field, None)) is not None:
            found[field] = value
    if isinstance(top_p := found.get("top_p"), int | float) and top_p > 1:
        del found["top_p"]  # ignored by transformers
    _check(name, found)
    return found


def penalties(name: str, model: Any, vocabulary: int) -> dict[str, Any]:
    """Return the model's own settings of `stretto.local_engine.choosing.penalties`, as fields of a `Generation`.

    Raises `BackendError` for a setting of ``generation_config.json`` that would change answers and is not supported,
    and for a number out of range.
    """
    own = model.generation_config
    for field, harmless in _REFUSED.items():
        value = getattr(own, field, None)
        if value is not None and value not in harmless:
            raise BackendError(
                f"generation_config.json of {name} sets {field}={value!r}, which the local engine does not do. "
                "Remove it there if answers without it will do.",
                backend=name,
            )
    found: dict[str, Any] = {}
    if (factor := getattr(own, "repetition_penalty", None)) not in (None, 1.0):
        found["repetition_penalty"] = factor
    if size := getattr(own, "no_repeat_ngram_size", None):
        found["no_repeat_ngram_size"] = size
    for field in ("suppress_tokens", "begin_suppress_tokens"):
        if ids := [token for token in _ids(name, field, getattr(own, field, None)) if 0 <= token < vocabulary]:
            found[field] = tuple(ids)
    _check(name, found)
    return found


def _check(name: str, settings: Mapping[str, Any]) -> None:
    try:
        Generation((0,), 1, **settings)
    except InvalidRequestError as error:
        raise BackendError(f"generation_config.json of {name} cannot be used: {error}", backend=name) from error


def end_ids(name: str, model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer. Raises `BackendError` for values that are not token ids.

    They come from ``generation_config.json``, else from ``config.json``, else from the tokenizer.
    """
    config = model.config.get_text_config(decoder=True)
    for source in (model.generation_config, model.config, config, tokenizer):
        if found := _ids(name, "eos_token_id", getattr(source, "eos_token_id", None)):
            break
    return frozenset(found)


def _ids(name: str, field: str, value: Any) -> list[int]:
    ids = [] if value is None else [*value] if isinstance(value, list | tuple | set | frozenset) else [value]
    if wrong := [each for each in ids if not isinstance(each, int) or isinstance(each, bool)]:
        raise BackendError(
            f"{name} cannot be used: its files say {field}={value!r}, and {wrong[0]!r} is no token id.", backend=name
        )
    return ids
