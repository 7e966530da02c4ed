"""The pocket model: a tiny Llama trained from scratch on text of this project.

It is for tests and demonstrations, not a source of knowledge. It knows a hundred everyday topics, two hundred
short facts and a few mechanical tasks by heart, so every strategy of the library can be shown for real without a
key, a network or a download. It answers everything else with :data:`UNKNOWN`.

Its weights are a separate distribution, stretto-pocket, in the folder ``pocket`` of the repository.
Importing this module imports neither torch nor transformers.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from stretto.values.errors import MissingDependencyError

MODELS = {"pocket": "model", "pocket-diffusion": "diffusion", "pocket-forking": "forking"}
"""Folder of each model. The last two were made from the first: they have its knowledge, and write in other ways."""

_PACKAGE = "stretto_pocket"
_CHECKOUT = Path(__file__).parents[2] / "pocket" / _PACKAGE  # its weights fit its code, whatever is installed

UNKNOWN = (
    "I am Stretto's pocket model, a demonstration that knows 100 everyday topics and 200 short facts, "
    "and I cannot answer this. "
    "For a real answer, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or use --model local:<folder or hub name>."
)
"""The pocket model's answer to what it does not know."""


def is_unknown(text: str) -> bool:
    """Return whether ``text`` is the pocket model's statement that it cannot answer."""
    return text.lstrip().startswith(UNKNOWN[:40])


def pocket_folder(model: str = "pocket") -> Path:
    """Return the folder with the published weights of one of `MODELS`, in the format of transformers.

    A checkout's weights are preferred to the installed package's. Raises `MissingDependencyError` without either.
    """
    for place in _places():
        if (place / MODELS[model] / "config.json").is_file():
            return place / MODELS[model]
    raise MissingDependencyError(
        f"local:{model} needs its weights, the package stretto-pocket (32 MB), which is not installed. "
        "Run: pip install 'stretto[local]' stretto-pocket, or in a clone of Stretto: pip install ./pocket '.[local]'. "
        "Without it, name another model, or set the key of a provider, such as OPENAI_API_KEY.",
        name=_PACKAGE,
    )


def _places() -> Iterator[Path]:
    yield _CHECKOUT
    if (package := find_spec(_PACKAGE)) is not None:
        yield from map(Path, package.submodule_search_locations or ())
