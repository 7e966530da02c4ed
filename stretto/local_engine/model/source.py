"""Where a model comes from: the pocket model, a folder or a hub name. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto.errors import ModelNotFoundError, UnknownModelError
from stretto.local_engine.pocket import MODEL_FOLDER

__all__ = ["Source", "find_source"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Source:
    """A model by name.

    Attributes:
        name: ``local:`` and what the user wrote.
        folder: where it is; ``None`` for a hub name.
        hub_name: what the hub calls it; ``None`` for a folder.
    """

    name: str
    folder: Path | None
    hub_name: str | None

    @property
    def where(self) -> str:
        """What transformers is to load."""
        return str(self.folder or self.hub_name)

    def context_window(self) -> int | None:
        """Tokens of the context window, from the folder's ``config.json``; ``None`` where it cannot be read yet."""
        if self.folder is None:
            return None
        try:
            config: Any = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if isinstance(config, dict) and isinstance(text := config.get("text_config"), dict):
            config = text
        if not isinstance(config, dict):
            return None
        window = next(
            (
                config[key]
                for key in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
                if key in config
            ),
            None,
        )
        return window if isinstance(window, int) else None


def find_source(name: str) -> Source:
    """Read a model name, with or without ``local:``.

    ``pocket`` is the packaged model. Anything that exists, or is written like a path, is a folder; the rest is
    a hub name. Raises `UnknownModelError` for what is neither, `ModelNotFoundError` for a folder that is not
    there or holds no model.
    """
    if not isinstance(name, str):
        raise UnknownModelError(
            f"A local model is named by a string, not by a value of type {type(name).__name__}. "
            "Use local:pocket, local:./folder or a hub name such as local:Qwen/Qwen3-0.6B."
        )
    bare = name.removeprefix("local:").strip()
    full = f"local:{bare}"
    if bare == "pocket":
        return Source(full, _checked(MODEL_FOLDER, full), None)
    path = Path(bare).expanduser()
    if bare and (path.exists() or bare[0] in "./~" or path.is_absolute() or "\\" in bare):
        return Source(full, _checked(path, full), None)
    if not _HUB_NAME.fullmatch(bare):
        raise UnknownModelError(
            f"{name!r} is no name of a local model. Use local:pocket, local:./folder or a hub name such as "
            "local:Qwen/Qwen3-0.6B."
        )
    return Source(full, None, bare)


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
