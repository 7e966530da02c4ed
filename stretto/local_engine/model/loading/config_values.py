"""Finds invalid values in a ``config.json`` that transformers ignores, or on which it fails with an unclear error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from stretto.foundation.arguments import safe_repr

_SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)
_SMALL = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
_BASES = ("rope_theta", "rope_local_base_freq", "rotary_emb_base")
_ROTATIONS = ("rope_scaling", "rope_parameters")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "proportional": (),
}
"""What each kind of rotation in transformers needs besides its name."""
_OLDER = ("su", "mrope")  # names of kinds that transformers replaces
_POSITIVE = (
    *("rope_theta", "factor", "low_freq_factor", "high_freq_factor", "attention_factor", "beta_fast", "beta_slow"),
    *("partial_rotary_factor", "original_max_position_embeddings"),
)
_LISTS = ("short_factor", "long_factor")
_A_NUMBER = "a positive number is needed"


def wrong_value(config: Mapping[str, Any]) -> str:
    """Return the first value that cannot be right, as a sentence without its full stop; empty if none is found.

    Only for a model that fails: a few architectures use some of these fields differently.
    """
    return next(_wrong_values(config), "")


def wrong_rotation(config: Mapping[str, Any]) -> str:
    """Like `wrong_value`, for the numbers of rotary embeddings, whose fields are the same in all architectures."""
    return next(_wrong_rotations(config), "")


def _wrong_values(config: Mapping[str, Any]) -> Iterator[str]:
    from transformers.activations import ACT2FN  # noqa: PLC0415 - only where a model fails

    yield from _wrong_rotations(config)
    yield from _wrong_kinds(config)
    if "rope_theta" in config and config["rope_theta"] is None and not any(_rotations(config)):
        yield _problem("rope_theta", None, _A_NUMBER)
    for field in _SIZES:
        value = config.get(field)
        is_size = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not (is_size or value is None or isinstance(value, list)):  # some have a size for each layer
            yield _problem(field, value, "a whole number from 1 is needed")
    for field in _SMALL:
        value = config.get(field)
        if value is not None and (not _is_number(value) or not 0 <= value < 1):
            yield _problem(field, value, "a small number is needed")
    for field in _ACTIVATIONS:
        if (value := config.get(field)) is not None and (not isinstance(value, str) or value not in ACT2FN):
            yield _problem(field, value, "the name of an activation that transformers knows is needed")
    for field, value in config.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield _problem(field, value, "a finite number is needed")


def _wrong_rotations(config: Mapping[str, Any]) -> Iterator[str]:
    for field in _BASES:
        if config.get(field) is not None and not _is_positive(config[field]):
            yield _problem(field, config[field], _A_NUMBER)
    for field in _ROTATIONS:
        if (value := config.get(field)) is not None and not isinstance(value, Mapping):
            yield _problem(field, value, "a JSON object is needed")
    for where, own in _rotations(config):
        for name in _POSITIVE:
            if own.get(name) is not None and not _is_positive(own[name]):
                yield _problem(f"{where}.{name}", own[name], _A_NUMBER)
        for name in _LISTS:
            value = own.get(name)
            if value is not None and not (isinstance(value, list) and value and all(map(_is_positive, value))):
                yield _problem(f"{where}.{name}", value, "a list of positive numbers is needed")


def _wrong_kinds(config: Mapping[str, Any]) -> Iterator[str]:
    for where, own in _rotations(config):
        key = "rope_type" if "rope_type" in own else "type"
        kind = own.get(key)
        if kind is not None and (not isinstance(kind, str) or kind not in (*_NEEDED, *_OLDER)):
            yield _problem(f"{where}.{key}", kind, f"one of {', '.join(_NEEDED)} is needed")
            continue
        for name in _NEEDED.get(kind or "default", ()):
            if own.get(name) is None:
                yield f"{where}.{name} is missing in its config.json, and a rotation of the kind {kind} needs it"


def _rotations(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the settings of each rotation, and where they are: models with multiple kinds of layers have multiple."""
    for field in _ROTATIONS:
        value = config.get(field)
        if isinstance(value, Mapping) and value:
            inner = [(f"{field}.{name}", each) for name, each in value.items() if isinstance(each, Mapping)]
            yield from inner or [(field, value)]


def _problem(field: str, value: object, needed: str) -> str:
    return f"{field} is {safe_repr(value)} in its config.json, and {needed}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0
