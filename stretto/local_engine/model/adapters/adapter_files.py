"""File names of adapters next to a model's weights, and the fingerprint of the weights that each was trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor

CHANGE_FILE = "change.safetensors"
"""Name of the file with the differences of a model that is stored as changes of another one."""

FOCUS_FILE = "focus.safetensors"
"""File name of the adapter for focus reading."""

READING_FILE = "reading.safetensors"
"""File name of the adapter for reading passages of documents."""

LORA_CONFIG, LORA_FILE = "adapter_config.json", "adapter_model.safetensors"
"""File names of an adapter saved by peft."""


def fingerprint(folder: Path, *, reading: bool = False) -> str:
    """Return the SHA-256 of all weight files, in the order of their names. Raises `SettingsError` if there are none.

    With ``reading``, the adapter for reading passages is hashed after them, if there is one: prompts longer than the
    window use the sum of both.
    """
    files = sorted(file for file in folder.glob("*.safetensors") if _holds_weights(file))
    if reading and files and (folder / READING_FILE).is_file():
        files.append(folder / READING_FILE)
    if not files:
        raise SettingsError(f"The folder {str(folder)!r} holds no *.safetensors weights that an adapter could be for.")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while block := opened.read(2**22):
                digest.update(block)
    return digest.hexdigest()


def read_lora_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a peft adapter. Raises `SettingsError` unless it is a JSON object."""
    try:
        config: Any = json.loads((folder / LORA_CONFIG).read_text(encoding="utf-8"))
        cause = "" if isinstance(config, dict) else "it is no JSON object"
    except (OSError, ValueError) as error:
        cause = str(error)
    except RecursionError:
        cause = "it is nested too deeply"
    if cause:
        raise SettingsError(
            f"The adapter {str(folder)!r} cannot be read: its {LORA_CONFIG} is damaged ({cause}). Give a folder "
            "that save_pretrained of peft wrote."
        )
    return dict(config)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], base: str, **notes: str) -> None:
    """Write an adapter, completely or not at all, with the `fingerprint` of its weights and other notes."""
    from safetensors.torch import save_file  # noqa: PLC0415 - not there without the extra `local`

    new = path.with_suffix(".new")
    save_file(dict(tensors), new, metadata={"format": "pt", "base": base, **notes})
    new.replace(path)


def read_tensors(
    path: Path, base: str, model: str, *, purpose: str, again: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read an adapter and its notes. Raises `SettingsError` unless it was trained on weights with this fingerprint.

    Args:
        path: of the file.
        base: the fingerprint.
        model: its name, for errors.
        purpose: what the adapter is for, after "no adapter for".
        again: how to train it again, as a sentence without its end.
    """
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - not there without the extra `local`

    try:
        with safe_open(path, framework="pt") as file:
            notes: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise SettingsError(f"{path} is no adapter for {purpose}: {error}. {again}") from error
    if notes.get("base") != base:
        raise SettingsError(
            f"{path} was trained on other weights of {model} (SHA-256 {notes.get('base', 'unknown')[:12]}) than those "
            f"in its folder ({base[:12]}). {again} --fresh"
        )
    return tensors, notes


def _holds_weights(file: Path) -> bool:
    """Return whether a file contains weights of the model. Adapters name their base; a damaged file is neither."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - not there without the extra `local`

    try:
        with safe_open(file, framework="np") as opened:
            return "base" not in (opened.metadata() or {})
    except SafetensorError:
        return False
