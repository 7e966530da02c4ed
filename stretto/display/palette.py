"""The colours of ``palette.toml`` for drawing in Python."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


@dataclass(frozen=True)
class Palette:
    """Colours for one background, each as ``#rrggbb``; docs/design/README.md says what each is for."""

    text: str
    dim: str
    back: str
    raised: str
    line: str
    field: str
    accent: str
    on_accent: str
    good: str
    wait: str
    bad: str
    voices: tuple[str, ...]


@dataclass(frozen=True)
class TerminalColours:
    """The ANSI colours of a terminal by purpose; dim text is dim there, too."""

    accent: str
    code: str
    good: str
    wait: str
    bad: str


def _colours(table: str) -> dict[str, Any]:
    colours: dict[str, Any] = tomllib.loads(
        files("stretto.display").joinpath("palette.toml").read_text(encoding="utf-8")
    )[table]
    return colours


TERMINAL = TerminalColours(**_colours("terminal"))


@cache
def palette(scheme: Scheme) -> Palette:
    """Return the colours for a light or a dark background."""
    colours = _colours(scheme)
    return Palette(**colours | {"voices": tuple(colours["voices"])})
