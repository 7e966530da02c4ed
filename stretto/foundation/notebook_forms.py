"""Notebook displays of values, set by `stretto.display`, so that values do not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class ShownInNotebooks:
    """A value with a rich display in notebooks, once `stretto.display` has set it."""

    _html: ClassVar[Callable[[Any], str] | None] = None
    _markdown: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        made = type(self)._html
        return None if made is None else made(self)

    def _repr_markdown_(self) -> str | None:
        made = type(self)._markdown
        return None if made is None else made(self)
