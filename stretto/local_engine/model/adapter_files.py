"""Adapters beside a model's weights: what their files are called, and which weights each of them was trained on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stretto.errors import SettingsError

__all__ = ["FOCUS_FILE", "LEXICAL_FILE", "READING_FILE", "fingerprint"]

LEXICAL_FILE = "lexical.safetensors"
"""Name of the adapter for lexical unit decoding."""

FOCUS_FILE = "focus.safetensors"
"""Name of the adapter for focus reading."""

READING_FILE = "reading.safetensors"
"""Name of the adapter for reading passages of documents."""

_ADAPTERS = (LEXICAL_FILE, FOCUS_FILE, READING_FILE)


def fingerprint(folder: Path, *, reading: bool = False) -> str:
    """SHA-256 of the model's weights, all files in the order of their names. Raises `SettingsError` without any.

    With ``reading``, the adapter for reading passages follows them, where there is one: prompts longer than the window
    go to the sum of both.
    """
    files = sorted(file for file in folder.glob("*.safetensors") if file.name not in _ADAPTERS)
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
