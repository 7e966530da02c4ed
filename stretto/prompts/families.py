"""Which family of prompts suits a model: by its size, as long as nothing was measured."""

from __future__ import annotations

import re

from stretto.prompts.catalogue import GENERAL, POCKET, SMALL

SMALL_BELOW = 2_000_000_000
"""Parameters below which a model gets the prompts of ``small``."""

_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,2})?) ?([mb])(?![a-z0-9])")
_UNIT = {"m": 1_000_000, "b": 1_000_000_000}


def parameters_in(name: str) -> int | None:
    """The parameters of a model by its name, as in "SmolLM2-135M-Instruct"; ``None`` if the name does not tell."""
    name = re.sub(r"[-_/:]", " ", name[:200].casefold())
    sizes = [float(number) * _UNIT[unit] for number, unit in _SIZE.findall(name)]
    return int(max(sizes)) if sizes else None


def family_of(name: str = "", parameters: int | None = None) -> str:
    """The family of prompts for a model of this name or size; ``general`` where the size is not known."""
    size = parameters or parameters_in(name)
    return SMALL if size is not None and size < SMALL_BELOW else GENERAL


def family_for(own: str, named: str | None) -> str:
    """The family of prompts that a model gets: the one ``named`` or measured for it, else its ``own``."""
    return own if named is None or own == POCKET else named  # pocket was trained on its own prompts
