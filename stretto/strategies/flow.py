"""Text inside a list item: white space at the end is held, further lines are indented."""

from __future__ import annotations


class Flow:
    """Feed text as it comes. White space is shown once something follows it, so that none stands at the end."""

    def __init__(self, indent: str) -> None:
        self._indent = indent
        self._space: list[str] = []

    def feed(self, text: str) -> str:
        """Take new text, give back what can be shown already."""
        shown = text.rstrip()
        if not shown:
            self._space.append(text)
            return ""
        shown, self._space = "".join((*self._space, shown)), [text[len(shown) :]]
        first, *lines = shown.split("\n")
        return "\n".join([first, *(self._indent + line if line else "" for line in lines)])
