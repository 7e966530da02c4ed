"""Words and spelling by language, as data: numbers, points, units, forms, tails, notes.

Imports nothing else from the library.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def tables_in(name: str) -> dict[str, Any]:
    """Return the tables of a file in this folder, most of them by language."""
    return tomllib.loads(files(__package__).joinpath(name).read_text("utf-8"))
