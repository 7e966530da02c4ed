"""The forms of parallel tags, as data (``tags.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["Tags", "forms"]


@dataclass(frozen=True)
class Tags:
    """One form; ``tags.toml`` says what each field is."""

    name: str
    opens: str
    outline: tuple[str, str]
    forks: str
    path: str
    path_ends: str
    joins: str
    left_out: tuple[str, ...]
    topic: str = ""
    between: bool = False


@cache
def forms() -> Mapping[str, Tags]:
    """All forms by name."""
    text = resources.files(__package__).joinpath("tags.toml").read_text(encoding="utf-8")
    found = {}
    for name, values in tomllib.loads(text).items():
        begin, end = values.pop("outline")
        left_out = tuple(values.pop("left_out"))
        found[name] = Tags(name, outline=(begin, end), left_out=left_out, **values)
    return found
