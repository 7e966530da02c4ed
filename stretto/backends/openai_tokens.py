"""Counts the tokens of OpenAI's models by tiktoken, where it and its encoding are on this machine. Never downloads."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["openai_counter"]

_FILES = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_LATEST = "o200k_base"
_AT_ONCE = 100_000  # characters; what tiktoken's pattern is given together


def openai_counter(model: str) -> Callable[[str], int] | None:
    """A function that counts the tokens of a text; ``None`` where tiktoken would have to fetch something first."""
    try:
        import tiktoken  # noqa: PLC0415 - optional: without it tokens are estimated
    except ImportError:
        return None
    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        name = _LATEST  # of all models that are newer than this tiktoken
    if not _on_disk(name):
        return None
    encoding = tiktoken.get_encoding(name)

    def count(text: str) -> int:
        parts = (text[at : at + _AT_ONCE] for at in range(0, len(text), _AT_ONCE))
        return sum(len(encoding.encode_ordinary(part)) for part in parts)

    return count


def _on_disk(name: str) -> bool:
    """Whether tiktoken has this encoding in its cache, where it looks before it downloads."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir(), "data-gym-cache"))
    key = hashlib.sha1(_FILES.format(name).encode(), usedforsecurity=False).hexdigest()
    return bool(folder) and Path(folder, key).is_file()
