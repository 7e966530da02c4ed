"""Search for a head on disk, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto.local_engine.drafting.heads.nextn import config_of, holds_layer
from stretto.local_engine.model.loading.misfits import extra_layers, is_extra
from stretto.values.errors import SettingsError

SUBFOLDER = "head"
"""Name of the folder next to a model's weights that is searched for a head."""

_CONFIG = "config.json"
_FILES = ("*.safetensors", "*.bin", "*.pt")
_INDEX = "model.safetensors.index.json"
_LONGEST_HEADER = 100_000_000  # bytes, the limit of safetensors itself


@dataclass(frozen=True, slots=True)
class HeadFolder:
    """A folder with a head.

    Attributes:
        path: path of the folder, or of a GGUF file.
        config: its ``config.json``, or the metadata of the file; empty if there is none.
        own: whether it is a whole model, of which only the layers for multi-token prediction are read.
    """

    path: Path
    config: Mapping[str, Any]
    own: bool = False


def find_head(model: Path | None, head: Path | None) -> HeadFolder | None:
    """Return the named head, or else one next to a model's weights; ``None`` if there is none.

    Raises `SettingsError` for a named folder without a head, and for a damaged ``config.json`` of a head.

    Args:
        model: the model's folder or GGUF file, if it has one.
        head: the named folder, which can have a GGUF file.
    """
    if head is not None:
        if not head.is_dir():
            raise SettingsError(
                f"There is no folder {str(head)!r}. Give the folder of a head, such as one for EAGLE-3."
            )
        if not any(any(head.glob(pattern)) for pattern in _FILES):
            if found := next(filter(holds_layer, sorted(head.glob("*.gguf"))), None):
                return HeadFolder(found, config_of(found), own=True)
            raise SettingsError(f"The folder {str(head)!r} holds no head: it has no *.safetensors and no *.bin.")
        return _native(head) or HeadFolder(head, _config(head))
    if model is None:
        return None
    if model.is_file():
        return HeadFolder(model, config_of(model), own=True) if holds_layer(model) else None
    if (model / SUBFOLDER).is_dir() and any(any((model / SUBFOLDER).glob(pattern)) for pattern in _FILES):
        return HeadFolder(model / SUBFOLDER, _config(model / SUBFOLDER))
    return _native(model)


def _native(folder: Path) -> HeadFolder | None:
    """Return a model's folder as a head, if it has layers for multi-token prediction."""
    try:
        config = _config(folder)
    except SettingsError:
        return None  # loading the model reports what is wrong
    inner = config.get("text_config")
    text = {**config, **(inner if isinstance(inner, dict) else {})}
    if extra_layers(text) and any(is_extra(name, text) for name in _weight_names(folder)):
        return HeadFolder(folder, text, own=True)
    return None


def _weight_names(folder: Path) -> list[str]:
    """Return the names of all weights in a folder, from the index or the headers of its files."""
    try:
        if (folder / _INDEX).is_file():
            return list(json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"])
        names: list[str] = []
        for file in filter(Path.is_file, sorted(folder.glob("*.safetensors"))):
            with file.open("rb") as opened:
                length = int.from_bytes(opened.read(8), "little")
                if length <= _LONGEST_HEADER:
                    names += json.loads(opened.read(length))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []  # loading the model reports what is wrong
    return names


def _config(folder: Path) -> Mapping[str, Any]:
    if not (folder / _CONFIG).is_file():
        return {}
    try:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"The head in {str(folder)!r} cannot be read: its {_CONFIG} is damaged ({error})."
        ) from error
    return config if isinstance(config, dict) else {}
