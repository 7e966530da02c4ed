"""Text inside a list item: trailing white space is held back, further lines are indented."""

from __future__ import annotations


class Flow:
    """Formats streamed text. White space is shown only once text follows it, so that none is trailing."""

    def __init__(self, indent: str) -> None:
        self._indent = indent
        self._space: list[str] = []

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        shown = text.rstrip()
        if not shown:
            self._space.append(text)
            return ""
        shown, self._space = "".join((*self._space, shown)), [text[len(shown) :]]
        first, *lines = shown.split("\n")
        return "\n".join([first, *(self._indent + line if line else "" for line in lines)])
