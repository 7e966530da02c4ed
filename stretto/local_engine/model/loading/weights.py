"""Reads a model and its tokenizer from a folder or the hub with transformers; see `read_model` of ``load.py``."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers.utils.import_utils import is_peft_available
from transformers.utils.peft_utils import find_adapter_config_file

from stretto.local_engine.failures import out_of_memory
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG, read_lora_config
from stretto.local_engine.model.adapters.lora import read_lora
from stretto.local_engine.model.formats.differences import base_of, changed_weights
from stretto.local_engine.model.forward.block_form import BlockForm, Recognised
from stretto.local_engine.model.loading.config_values import wrong_rotation, wrong_value
from stretto.local_engine.model.loading.misfits import is_extra, misfit
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.research_registry import recognised
from stretto.values.errors import BackendError, MissingDependencyError, ModelNotFoundError, StrettoError

_SETTINGS = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "adapter_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "model.safetensors.index.json"),
)
_FETCHED = (
    *("*.json", "model.safetensors", "model-*.safetensors", "adapter_model.safetensors"),
    *("*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py"),
)
_NOT_FETCHED = ("*/*.json", "*/*.safetensors", "*/*.txt", "*/*.model", "*/*.py")  # other formats of a model
_TOKENIZER = ("tokenizer.json",)  # large, so it is read only to explain an error

_PACKAGES = {
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("accelerate", "gptqmodel"),
    "compressed-tensors": ("compressed-tensors",),
    "bitsandbytes": ("accelerate", "bitsandbytes"),
    "torchao": ("torchao",),
    "hqq": ("hqq",),
    "quanto": ("optimum-quanto",),
    "fp8": ("accelerate",),
    "mxfp4": ("accelerate", "kernels"),
}
"""The packages that transformers' code for each kind of weights imports."""

_IMPORTED = {"optimum-quanto": "optimum"}
_INSTEAD = "Give the model in bfloat16, or as a GGUF file."


def fetch(source: Source) -> Source:
    """Download a hub model unless the local copy is current, and return its folder. This can take any time.

    Raises `ModelNotFoundError` for a model that cannot be downloaded.
    """
    if source.hub_name is None:
        return source
    try:
        folder = snapshot_download(source.hub_name, allow_patterns=[*_FETCHED], ignore_patterns=[*_NOT_FETCHED])
    except Exception as error:  # the hub's client raises whatever its parts raise
        raise _not_loaded(source, error) from error
    return Source(source.name, Path(folder), None)


def read_folder(source: Source, dtype: torch.dtype | str, *, trust_remote_code: bool) -> tuple[Any, Any]:
    """Read a model from safetensors files, and its tokenizer; see `read_model` of ``load.py``."""
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    if not threading.main_thread().is_alive():  # thread pools accept no more work, and transformers would read in one
        os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    if problem := _damaged(source, _SETTINGS):  # transformers ignores damage in some of these
        raise _not_loaded(source, ValueError(problem))
    if wrong := wrong_rotation(source.config()):
        raise _wrong_config(source, wrong)
    config: Any = None
    try:
        with quietly():
            base = _base_of_adapter(source) if _is_lora(source) else _base(source)
            lora = read_lora(Path(source.where)) if _is_lora(source) else None
            # First, because its errors explain best what is wrong with a folder, and a dead hub times out only once.
            written = _written_at_once(base)
            config = _config(base, written, options)
            if written is not None:
                options = {"trust_remote_code": False, "config": config}
            _check_packages(source.name, config)
            if lora is None:
                _check_adapter(source)
            own = source.folder is not None and (source.folder / "tokenizer_config.json").is_file()
            whole = base_of(source.folder)  # set if it is stored as changes of another model
            tokenizer = _tokenizer(source.where if own else str(whole or base), config, options)
            kind = _kind(config, written)
            where: str | None = source.where if lora is None else base
            if whole is not None and source.folder is not None:
                kind, where = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], None
                options = {"config": config, "state_dict": changed_weights(source.folder, whole, source.name)}
            loaded: Any = kind.from_pretrained(
                where,
                dtype=dtype,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # `misfit` names them
                key_mapping=None if written is None else dict(written.names),
                **options,
            )
        model, found = loaded
    except StrettoError:
        raise
    except Exception as error:  # transformers raises whatever its parts raise
        if out_of_memory(error):
            raise
        raise (_explained(source.name, config, error) if config is not None else None) or _not_loaded(
            source, error
        ) from error
    text = model.config.get_text_config(decoder=True).to_dict()
    found["unexpected_keys"] = [name for name in found["unexpected_keys"] if not is_extra(name, text)]
    if problem := misfit(found):
        raise _misfits(source, problem, model)
    if lora is not None:
        lora.merge(dict(model.named_parameters()))
    return model, tokenizer


def block_form(source: Source) -> BlockForm | None:
    """Return how a model in a folder writes blocks at once; ``None`` for one that writes from left to right."""
    written = _written_at_once(_base_of_adapter(source) if _is_lora(source) else _base(source))
    return None if written is None else written.form


def _written_at_once(base: str) -> Recognised | None:
    """Recognise a model that writes blocks at once, by its files; raises `ValueError` if it cannot be run."""
    try:
        config, _ = transformers.PreTrainedConfig.get_config_dict(base)
    except Exception:
        if not Path(base).is_dir():
            raise  # a dead hub is asked only once
        return None  # reading it as any other configuration explains the error best
    return recognised(config)


def _config(base: str, written: Recognised | None, options: dict[str, Any]) -> Any:
    if written is None:
        return transformers.AutoConfig.from_pretrained(base, **options)
    fields = dict(written.config)
    return transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)


def _tokenizer(where: str, config: Any, options: dict[str, Any]) -> Any:
    try:
        return transformers.AutoTokenizer.from_pretrained(where, **options)
    except (ValueError, OSError):
        if "config" not in options:
            raise
        # Its tokenizer has its own code, which is not run; its files are those of the base.
        own: Any = transformers.TOKENIZER_MAPPING[type(config)]
        return own.from_pretrained(where)


def _damaged(source: Source, names: Collection[str]) -> str:
    """Name the first of these files that is not a JSON object, and the cause; empty if all are."""
    if source.folder is None:
        return ""
    for name in names:
        path = source.folder / name
        try:
            if path.is_file() and not isinstance(json.loads(path.read_text(encoding="utf-8")), dict):
                return f"{name} is damaged or incomplete (no JSON object)"
        except ValueError as error:
            return f"{name} is damaged or incomplete ({error})"
        except RecursionError:
            return f"{name} is damaged (it is nested too deeply)"
    return ""


def _base(source: Source) -> str:
    """Return where the configuration is: a folder with only an adapter names another one."""
    if source.folder is None or (source.folder / "config.json").is_file():
        return source.where
    _check_adapter(source)
    return _base_of_adapter(source)


def _is_lora(source: Source) -> bool:
    """Return whether a folder contains an adapter of a supported kind, and no weights."""
    folder = source.folder
    if folder is None or not (folder / LORA_CONFIG).is_file() or any(folder.glob("model*.safetensors")):
        return False
    return bool(read_lora_config(folder).get("peft_type") == "LORA")  # peft may know other kinds


def _base_of_adapter(source: Source) -> str:
    """Return the name or the folder of the model that an adapter belongs to."""
    assert source.folder is not None  # noqa: S101 - for the type checker: adapters are in folders
    base = read_lora_config(source.folder).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise _not_loaded(source, ValueError("adapter_config.json names no base_model_name_or_path"))
    return base


def _kind(config: Any, written: Recognised | None) -> Any:
    """Return the class for a model; without images, a model of images and text is a language model."""
    if written is not None and written.form is not None and written.form.canvas:
        return transformers.DiffusionGemmaForBlockDiffusion
    composite = config.get_text_config(decoder=True) is not config
    if composite and type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def _misfits(source: Source, problem: str, model: Any) -> BackendError:
    saved = ", ".join(getattr(model.config, "architectures", None) or ())
    kind = type(model).__name__
    hint = f" The files are those of {saved}." if saved and saved != kind else ""
    return ModelNotFoundError(
        f"The weights of {source.where!r} do not fit its config.json, read as {kind}: {problem}.{hint} "
        "Give the folder or the hub name of a complete causal language model, with the config.json that it was saved "
        "with.",
        backend=source.name,
    )


def _check_adapter(source: Source) -> None:
    """Check that an adapter next to the weights can be applied; transformers needs peft for that."""
    if find_adapter_config_file(source.where) is None or is_peft_available():
        return
    raise MissingDependencyError(
        f"{source.name} has an adapter (adapter_config.json), and applying it needs peft. Run: pip install peft. Or "
        "give a folder without it: the model alone, or with the adapter merged into it."
    )


def _check_packages(name: str, config: Any) -> None:
    """Raise `MissingDependencyError` if packages that the model's weights need are missing."""
    kind = _quantised_as(config)
    modules = {each: _IMPORTED.get(each, each.replace("-", "_")) for each in _PACKAGES.get(kind, ())}
    missing = [each for each, module in modules.items() if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"The weights of {name} are quantised ({kind}), and running them needs {' and '.join(missing)}. "
            f"Run: pip install {' '.join(missing)}. Or g{_INSTEAD[1:]}"
        )


def _explained(name: str, config: Any, error: Exception) -> StrettoError | None:
    """Return the error for quantised weights that transformers cannot run here; ``None`` for other weights."""
    kind = _quantised_as(config)
    if not kind:
        return None
    cause = " ".join(str(error).partition("\n\n")[0].split())[:300].rstrip(".") or type(error).__name__
    return BackendError(
        f"The weights of {name} are quantised ({kind}), and transformers cannot run them here: {cause}. {_INSTEAD}",
        backend=name,
    )


def _quantised_as(config: Any) -> str:
    given = getattr(config, "quantization_config", None)
    method = given.get("quant_method") if isinstance(given, dict) else getattr(given, "quant_method", None)
    return str(getattr(method, "value", method) or "")


def _not_loaded(source: Source, error: Exception) -> BackendError:
    message = _damaged(source, _TOKENIZER) or str(error).strip() or type(error).__name__
    if isinstance(error, SafetensorError):
        message = f"a safetensors file is damaged or incomplete ({message}). Copy or download it again."
    if source.folder is not None:
        # Older versions of transformers append the names of all models that they know.
        cause = " ".join(message.partition("\n\n")[0].partition(", or contain one of")[0].split()).rstrip(".")
        if wrong := wrong_value(source.config()):
            return _wrong_config(source, wrong)
        return ModelNotFoundError(
            f"The folder {str(source.folder)!r} could not be loaded as a causal language model with safetensors "
            f"weights and a tokenizer: {cause}. Give one that save_pretrained wrote, of a model and its tokenizer.",
            backend=source.name,
        )
    return ModelNotFoundError(
        f"{source.hub_name!r} could not be loaded from the hub: {message.splitlines()[0]} "
        "Check the name and the connection, or give a folder: local:./folder.",
        backend=source.name,
    )


def _wrong_config(source: Source, wrong: str) -> BackendError:
    return ModelNotFoundError(
        f"The folder {str(source.folder)!r} could not be loaded as a causal language model: {wrong}. Take the "
        "config.json that the model was published with.",
        backend=source.name,
    )


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress progress bars, and tables of what our errors report in one line."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # untyped in transformers
    hub, reader = (logging.getLogger(name) for name in ("huggingface_hub", "transformers.modeling_utils"))
    level = hub.level
    hub.setLevel(logging.ERROR)
    reader.addFilter(_is_no_table)  # changing its level would enable more warnings of transformers
    try:
        yield
    finally:
        hub.setLevel(level)
        reader.removeFilter(_is_no_table)
        if shown:
            transformers.utils.logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # untyped in transformers


def _is_no_table(record: logging.LogRecord) -> bool:
    return "LOAD REPORT" not in record.getMessage()
