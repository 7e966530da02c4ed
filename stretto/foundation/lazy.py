"""Packages whose names are imported when they are asked for, so that importing the package costs little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, for the names that each module of ``homes`` defines.

    A module ``stretto.NAME`` of ``homes`` is an attribute of ``stretto`` as well.
    """
    known = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name in known:
            value = getattr(importlib.import_module(known[name]), name)
        elif f"{package}.{name}" in homes:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *known})

    return find, names
