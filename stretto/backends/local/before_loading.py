"""Checks the options of a local model and states its capabilities before it is loaded."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from importlib.util import find_spec
from types import NoneType
from typing import TYPE_CHECKING

from stretto.backends.base import Capabilities
from stretto.backends.local.loading import MOST_REMEMBERED, SLOTS
from stretto.backends.local.tools import form_in
from stretto.foundation.arguments import MOST_THREADS, safe_repr
from stretto.local_engine.drafting.catalogue import LOSSY, METHODS, all_drafters, check_options
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG
from stretto.local_engine.model.loading.source import QUANTIZE
from stretto.local_engine.pocket import MODELS
from stretto.local_engine.research_registry import block_models, block_rules
from stretto.prompts import POCKET, family_of
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.backends.local.loading import LoadingOptions
    from stretto.local_engine.model.forward.block_form import BlockForm

_DTYPES = ("float32", "bfloat16", "float16", "float64", "float", "half", "double")  # the last three are aliases
_DEVICE = re.compile(r"[a-z]+(:\d+)?")
VARIABLE = "STRETTO_COMPILED"  # same as in the kernels' `jit`, which imports numpy
_POCKET_PASSAGE = 256  # tokens of the passages that it was trained on
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_GRAMMARS = find_spec("llguidance") is not None


def compiled_by_default() -> bool | None:
    """Read ``STRETTO_COMPILED``; ``None`` if it is not set. Raises `SettingsError`."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if not value:
        return None
    if value not in _SWITCH:
        raise SettingsError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be used. Set it to 1 or 0.")
    return _SWITCH[value]


def of_blocks(capabilities: Capabilities, form: BlockForm) -> Capabilities:
    """Return the capabilities without those that a model which writes blocks of tokens at once lacks."""
    return replace(
        capabilities,
        decodings=_rules_of(form),
        logprobs=False,
        json_schema=False,
        regex=False,
        beyond_window=False,
    )


def _rules_of(form: BlockForm) -> tuple[str, ...]:
    return () if (models := block_models()) is None else models.rule_names(form)


def capabilities_of(options: LoadingOptions) -> Capabilities:
    """Return the capabilities as far as they are known before loading. Raises `SettingsError`."""
    _check(options)
    pocket = options.source.name.removeprefix("local:") in MODELS
    form = form_in(options.source)
    found = Capabilities(
        context_window=options.source.context_window(),
        concurrent_calls=SLOTS,
        prompt_family=POCKET if pocket else family_of(options.source.name, options.source.parameters()),
        reads_history=not pocket,  # trained on single questions, it misses most that follow a long answer
        continues=True,
        passage_tokens=_POCKET_PASSAGE if pocket and options.has_reading else None,
        decodings=_decodings(options),
        decoding=options.decoding,
        adapters=tuple(options.adapters),
        logprobs=True,
        tools=form is None or form.calls is not None,
        reasoning=form is not None and form.always,
        json_schema=_GRAMMARS,
        regex=_GRAMMARS,
    )
    blocks = options.source.block_form()
    return found if blocks is None else of_blocks(found, blocks)


def _check(options: LoadingOptions) -> None:
    """Raise `SettingsError` for options that are wrong on any machine; torch is not imported yet."""
    numbers = {"threads": (options.threads, 1), "prefix_cache_bytes": (options.prefix_cache_bytes, 0)}
    numbers["draft_history_tokens"] = (options.draft_history_tokens, 0)
    if isinstance(options.draft_history_tokens, int) and options.draft_history_tokens > MOST_REMEMBERED:
        raise SettingsError(
            f"draft_history_tokens={options.draft_history_tokens} cannot be used: "
            f"{MOST_REMEMBERED:,} tokens are the most."
        )
    if isinstance(options.threads, int) and options.threads > MOST_THREADS:
        raise SettingsError(f"threads={options.threads} cannot be used: {MOST_THREADS:,} are the most.")
    for name, (value, least) in numbers.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise SettingsError(
                f"{name}={safe_repr(value)} cannot be used: at least {least} is needed, as a whole number."
            )
    for name in ("compiled", "trust_remote_code", "cuda_graphs"):
        if not isinstance(value := getattr(options, name), (bool, NoneType)):
            raise SettingsError(f"{name}={safe_repr(value)} cannot be used: it is True or False.")
    check_options(options.method_options, block_rules())
    for folder in (options.adapter, *options.adapters.values()):
        if folder is not None and not (folder / LORA_CONFIG).is_file():
            raise SettingsError(
                f"There is no adapter in {str(folder)!r}: it has no {LORA_CONFIG}. Give a folder that "
                "save_pretrained of peft wrote."
            )
    if options.dtype is not None and options.dtype not in _DTYPES:
        raise SettingsError(f"dtype={safe_repr(options.dtype)} cannot be used. Use one of: {', '.join(_DTYPES[:4])}.")
    if options.quantize is not None and options.quantize not in QUANTIZE:
        raise SettingsError(
            f"quantize={safe_repr(options.quantize)} cannot be used. Use one of: {', '.join(QUANTIZE)}."
        )
    if options.device is not None and not (isinstance(options.device, str) and _DEVICE.fullmatch(options.device)):
        raise SettingsError(f"device={safe_repr(options.device)} cannot be used. Use cpu, cuda or cuda:0.")


def _decodings(options: LoadingOptions) -> tuple[str, ...]:
    """Return the decoding methods that can be chosen. Raises `SettingsError` if the requested one is not among them."""
    missing = {name: _missing(options, name) for name in all_drafters()}
    usable = tuple(name for name, lack in missing.items() if not lack)
    offered = tuple(name for name in usable if name not in LOSSY or name == options.decoding)
    if (form := options.source.block_form()) is not None:
        usable = offered = _rules_of(form)
    elif options.source.hub_name is not None and options.decoding is not None and options.decoding in block_rules():
        usable = offered = (*offered, options.decoding)  # the kind of model is known once it is loaded
    if options.decoding is not None and options.decoding not in usable:
        raise SettingsError(
            f"decoding={safe_repr(options.decoding)} cannot be used.{missing.get(options.decoding, '')} "
            f"Use one of: {', '.join(offered)}."
        )
    return offered


def _missing(options: LoadingOptions, decoding: str) -> str:
    """Return what a decoding method lacks, as a sentence; empty if nothing."""
    method, folder = METHODS.get(decoding), options.source.folder  # nothing is known about methods of other packages
    if method is None:
        return ""
    lack = ""
    if method.drafted and options.draft is None:
        lack = " It needs draft=, a smaller model."
    elif method.missing is not None:
        lack = method.missing(options.source.file or folder, options.head)
    if lack or method.adapter is None or (folder is not None and (folder / method.adapter).is_file()):
        return lack
    return (
        " It needs an adapter next to the weights. Train one in a checkout of Stretto's source: "
        f"python -m {method.recipe} --model {options.source.name}."
    )
