"""What notebooks show of a value. The room that draws it says how, so that values know no drawing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class ShownInNotebooks:
    """A value with a richer form than its ``repr``, once one was given; `stretto.display` gives them."""

    _html: ClassVar[Callable[[Any], str] | None] = None
    _markdown: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        made = type(self)._html
        return None if made is None else made(self)

    def _repr_markdown_(self) -> str | None:
        made = type(self)._markdown
        return None if made is None else made(self)
