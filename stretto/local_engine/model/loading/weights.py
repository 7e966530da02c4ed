"""Reads a model and its tokenizer from files; what does not fit together is refused, never filled in."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers.utils.import_utils import is_peft_available
from transformers.utils.peft_utils import find_adapter_config_file

from stretto.local_engine.failures import out_of_memory
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG, read_lora_config
from stretto.local_engine.model.adapters.lora import read_lora
from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer
from stretto.local_engine.model.formats.quantised_folder import check_packages, explained
from stretto.local_engine.model.forward.block_form import BlockForm, Recognised
from stretto.local_engine.model.loading.changed import base_of, changed_weights
from stretto.local_engine.model.loading.config_values import wrong_rotation, wrong_value
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.research_registry import recognised
from stretto.values.errors import BackendError, MissingDependencyError, ModelNotFoundError, StrettoError

if TYPE_CHECKING:
    from stretto.local_engine.model.quantised.quantisation import StoredBlocks

__all__ = ["block_form", "extra_layers", "fetch", "is_extra", "read_model"]

_NAMED = 3
_SETTINGS = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "adapter_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "model.safetensors.index.json"),
)
_FETCHED = (
    *("*.json", "model.safetensors", "model-*.safetensors", "adapter_model.safetensors"),
    *("*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py"),
)
_NOT_FETCHED = ("*/*.json", "*/*.safetensors", "*/*.txt", "*/*.model", "*/*.py")  # of other forms of a model
_TOKENIZER = ("tokenizer.json",)  # large, so it is read only to explain an error
_HARMLESS = ("inv_freq", ".masked_bias", ".attn.bias", ".attention.bias", "position_ids", "num_batches_tracked")
"""Ends of the names of buffers that old versions of transformers saved; they are computed now."""


_COUNTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
_NEXTN = re.compile(r"(^|\.)mtp(\.|_)")
_NUMBERED = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def fetch(source: Source) -> Source:
    """Download a model of the hub, unless it is here as it is there, and give its folder. That takes any time.

    Raises `ModelNotFoundError` for what cannot be downloaded.
    """
    if source.hub_name is None:
        return source
    try:
        folder = snapshot_download(source.hub_name, allow_patterns=[*_FETCHED], ignore_patterns=[*_NOT_FETCHED])
    except Exception as error:  # the hub's client raises what its parts raise
        raise _not_loaded(source, error) from error
    return Source(source.name, Path(folder), None)


def read_model(
    source: Source,
    dtype: torch.dtype | str,
    *,
    trust_remote_code: bool,
    blocks: bool = False,
    distributed: Any = None,
) -> tuple[Any, Any, StoredBlocks[Any] | None]:
    """Read a causal language model, from safetensors or a GGUF file only, and its tokenizer.

    ``blocks``: see `read_gguf`, which also says what is returned beside the two. ``dtype`` may be ``auto``, for that of
    a folder's files, and bfloat16 for a GGUF file. ``distributed``: transformers' `DistributedConfig`, of which process
    holds which weights.

    Raises `ModelNotFoundError` for what cannot be read or does not fit together, `MissingDependencyError` for an
    adapter without peft and for quantised weights without what they need, and `BackendError` for such that cannot run
    here. Where memory runs out, it raises what torch or Python raise.
    """
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    divided = {} if distributed is None else {"distributed_config": distributed}
    if not threading.main_thread().is_alive():  # Python's pools of threads take no more work, and one would read
        os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    if source.file is not None:
        return _from_file(source, torch.bfloat16 if dtype == "auto" else dtype, blocks=blocks)
    if problem := _damaged(source, _SETTINGS):  # transformers passes over some of these
        raise _not_loaded(source, ValueError(problem))
    if wrong := wrong_rotation(source.config()):
        raise _wrong_config(source, wrong)
    config: Any = None
    try:
        with _quietly():
            base = _base_of_adapter(source) if _is_lora(source) else _base(source)
            lora = read_lora(Path(source.where)) if _is_lora(source) else None
            # First, because its errors say best what is wrong with a folder, and a dead hub times out only once.
            written = _written_at_once(base)
            config = _config(base, written, options)
            if written is not None:
                options = {"trust_remote_code": False, "config": config}
            check_packages(source.name, config)
            if lora is None:
                _check_adapter(source)
            own = source.folder is not None and (source.folder / "tokenizer_config.json").is_file()
            whole = base_of(source.folder)  # where it is kept as changes of another model
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
                ignore_mismatched_sizes=True,  # `_misfit` names them
                key_mapping=None if written is None else dict(written.names),
                **divided,
                **options,
            )
        model, found = loaded
    except StrettoError:
        raise
    except Exception as error:  # transformers raises what its parts raise
        if out_of_memory(error):
            raise
        raise (explained(source.name, config, error) if config is not None else None) or _not_loaded(
            source, error
        ) from error
    text = model.config.get_text_config(decoder=True).to_dict()
    found["unexpected_keys"] = [name for name in found["unexpected_keys"] if not is_extra(name, text)]
    if misfit := _misfit(found):
        raise _misfits(source, misfit, model)
    if lora is not None:
        lora.merge(dict(model.named_parameters()))
    return model, tokenizer, None


def block_form(source: Source) -> BlockForm | None:
    """How a model that was read writes blocks at once; ``None`` for one that writes from left to right."""
    if source.file is not None:
        return None
    written = _written_at_once(_base_of_adapter(source) if _is_lora(source) else _base(source))
    return None if written is None else written.form


def _written_at_once(base: str) -> Recognised | None:
    """How the files of a model say that it writes blocks at once; raises `ValueError` for what cannot be run."""
    try:
        config, _ = transformers.PreTrainedConfig.get_config_dict(base)
    except Exception:
        if not Path(base).is_dir():
            raise  # a dead hub is asked once
        return None  # reading it as any other configuration says best what is wrong
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
        # It came with code of its own, which is not run; its files are those of the base.
        own: Any = transformers.TOKENIZER_MAPPING[type(config)]
        return own.from_pretrained(where)


def _from_file(source: Source, dtype: Any, *, blocks: bool) -> tuple[Any, Any, StoredBlocks[Any] | None]:
    from stretto.local_engine.model.formats.gguf_file import read_gguf  # noqa: PLC0415 - its tables are imported when needed

    assert source.file is not None  # noqa: S101 - the caller has checked; for the type checker
    try:
        with _quietly():
            model, tokenizer, found, stored = read_gguf(source, dtype, blocks=blocks)
    except StrettoError:
        raise
    except Exception as error:  # as in `read_model`
        if out_of_memory(error):
            raise
        raise ModelNotFoundError(
            f"The file {source.where!r} could not be loaded as a causal language model: "
            f"{' '.join(str(error).split())[:300] or type(error).__name__}. Copy or download it again. "
            f"{llamacpp_offer(source.file)}",
            backend=source.name,
        ) from error
    if misfit := _misfit(found):
        raise ModelNotFoundError(
            f"The weights in {source.where!r} do not fit what it says of its model: {misfit}. Copy or download it "
            f"again. {llamacpp_offer(source.file)}",
            backend=source.name,
        )
    return model, tokenizer, stored


def _damaged(source: Source, names: Collection[str]) -> str:
    """Name the first of these files that is not a JSON object, and say why; an empty text if all are."""
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
    """Where the configuration is: the folder of an adapter without the weights names another one."""
    if source.folder is None or (source.folder / "config.json").is_file():
        return source.where
    _check_adapter(source)
    return _base_of_adapter(source)


def _is_lora(source: Source) -> bool:
    """Whether a folder holds an adapter of a kind that is read here, and no weights beside it."""
    folder = source.folder
    if folder is None or not (folder / LORA_CONFIG).is_file() or any(folder.glob("model*.safetensors")):
        return False
    return bool(read_lora_config(folder).get("peft_type") == "LORA")  # peft may know others


def _base_of_adapter(source: Source) -> str:
    """The name or the folder of the model that an adapter says it belongs to."""
    assert source.folder is not None  # noqa: S101 - for the type checker: adapters are in folders
    base = read_lora_config(source.folder).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise _not_loaded(source, ValueError("adapter_config.json names no base_model_name_or_path"))
    return base


def _kind(config: Any, written: Recognised | None) -> Any:
    """The class that knows a model; without pictures, one of pictures and text is a language model."""
    if written is not None and written.form is not None and written.form.canvas:
        return transformers.DiffusionGemmaForBlockDiffusion
    composite = config.get_text_config(decoder=True) is not config
    if composite and type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def _misfit(found: dict[str, Any]) -> str:
    """Say which weights and which entries of the configuration do not fit together."""
    parts = []
    if resized := sorted(found["mismatched_keys"]):
        name, saved, wanted = resized[0]
        parts.append(f"{len(resized)} of another size ({name} is {list(saved)}, not {list(wanted)})")
    if missing := sorted(found["missing_keys"]):
        parts.append(f"{len(missing)} missing ({_some(missing)})")
    if surplus := sorted(name for name in found["unexpected_keys"] if not name.endswith(_HARMLESS)):
        parts.append(f"{len(surplus)} that the model does not have ({_some(surplus)})")
    return ", ".join(parts)


def _some(names: Collection[str]) -> str:
    named = ", ".join([*names][:_NAMED])
    return named if len(names) <= _NAMED else f"{named}, ..."


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
    """Make sure that an adapter beside the weights can be applied; transformers needs peft for that."""
    if find_adapter_config_file(source.where) is None or is_peft_available():
        return
    raise MissingDependencyError(
        f"{source.name} has an adapter (adapter_config.json), and applying it needs peft. Run: pip install peft. Or "
        "give a folder without it: the model alone, or with the adapter merged into it."
    )


def _not_loaded(source: Source, error: Exception) -> BackendError:
    said = _damaged(source, _TOKENIZER) or str(error).strip() or type(error).__name__
    if isinstance(error, SafetensorError):
        said = f"a safetensors file is damaged or incomplete ({said}). Copy or download it again."
    if source.folder is not None:
        # Older versions of transformers append the names of all models that they know.
        cause = " ".join(said.partition("\n\n")[0].partition(", or contain one of")[0].split()).rstrip(".")
        if wrong := wrong_value(source.config()):
            return _wrong_config(source, wrong)
        return ModelNotFoundError(
            f"The folder {str(source.folder)!r} could not be loaded as a causal language model with safetensors "
            f"weights and a tokenizer: {cause}. Give one that save_pretrained wrote, of a model and its tokenizer.",
            backend=source.name,
        )
    return ModelNotFoundError(
        f"{source.hub_name!r} could not be loaded from the hub: {said.splitlines()[0]} "
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
def _quietly() -> Iterator[None]:
    """Without progress bars, and without tables of what our errors say in one line."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # not typed there
    hub, reader = (logging.getLogger(name) for name in ("huggingface_hub", "transformers.modeling_utils"))
    level = hub.level
    hub.setLevel(logging.ERROR)
    reader.addFilter(_is_no_table)  # with another level there, transformers warns of more
    try:
        yield
    finally:
        hub.setLevel(level)
        reader.removeFilter(_is_no_table)
        if shown:
            transformers.utils.logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # not typed there


def _is_no_table(record: logging.LogRecord) -> bool:
    return "LOAD REPORT" not in record.getMessage()


def extra_layers(config: Mapping[str, Any]) -> int:
    """How many layers for multi-token prediction a model has beside its own, by ``config.json`` of the text model.

    The code of published models does not run them.
    """
    counts = [config.get(name) for name in _COUNTS]
    return max((count for count in counts if isinstance(count, int)), default=0)


def is_extra(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a weight belongs to the extra layers: by its name, or by a layer number behind the model's last one."""
    if not (count := extra_layers(config)):
        return False
    if _NEXTN.search(name):
        return True
    layer, last = _NUMBERED.search(name), config.get("num_hidden_layers")
    return layer is not None and isinstance(last, int) and last <= int(layer[1]) < last + count
