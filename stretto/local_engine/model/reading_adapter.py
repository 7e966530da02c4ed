"""The adapter for reading documents: differences in a file beside the weights, which are added to them.

The sum is another model, for prompts that show documents; all other prompts go to the weights as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from stretto.local_engine.model.adapter_files import READING_FILE, fingerprint
from stretto.local_engine.model.differences import added, read_differences

__all__ = ["read_reading", "reading_change"]


def read_reading(path: Path, base: str, model: str) -> dict[str, Tensor]:
    """Read what is to be added to the weights with the fingerprint ``base``, flat. Raises `SettingsError`."""
    again = "Remove it, or train it again with: python -m recipes.reading.train"
    return read_differences(path, base, model, purpose="reading documents", again=again)


def reading_change(folder: Path | None, model: str) -> Callable[[Mapping[str, Tensor]], None] | None:
    """A function that adds the adapter of a folder to the weights, for `load_model`; ``None`` without an adapter.

    Raises `SettingsError` for an adapter of other weights.
    """
    if folder is None or not (folder / READING_FILE).is_file():
        return None
    differences = read_reading(folder / READING_FILE, fingerprint(folder), model)
    return lambda weights: added(weights, differences)
