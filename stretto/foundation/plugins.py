"""Backends, strategies and drafters of other packages, found by their entry points.

A package lists what it offers in its ``pyproject.toml``, under ``[project.entry-points."stretto.backends"]``,
``"stretto.strategies"`` or ``"stretto.drafters"``. It is imported when its name is first used. Importing runs its code,
as with any installed package.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from stretto.values.errors import SettingsError

Kind = Literal["backends", "strategies", "drafters"]

_log = logging.getLogger(__name__)


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names that installed packages offer, sorted."""
    return tuple(sorted(_found(kind)))


def load(kind: Kind, name: str) -> Any:
    """Load what a package offers under this name, or ``None``. Raises `SettingsError` if it cannot be loaded."""
    entry = _found(kind).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "a package"
        raise SettingsError(
            f"{name!r} of {package} cannot be loaded: {type(error).__name__}: {error}. Update or remove that package."
        ) from error


def load_all(kind: Kind, taken: Container[str]) -> Mapping[str, Any]:
    """Load everything that can be loaded, by name. Failures are only logged, since the caller may not need it.

    ``taken``: the library's own names, which packages cannot replace.
    """
    loaded = {}
    for name in names(kind):
        if name in taken:
            _log.warning("%r of a package's stretto.%s is not used: the library has one of this name.", name, kind)
            continue
        try:
            loaded[name] = load(kind, name)
        except SettingsError as error:
            _log.warning("%s", error)
    return loaded


@cache
def _found(kind: Kind) -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"stretto.{kind}")}
