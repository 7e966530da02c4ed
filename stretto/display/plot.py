"""The timeline of an answer as an image that can be saved."""

from __future__ import annotations

from pathlib import Path

from stretto.display.notebook import timeline_markdown
from stretto.display.page import page
from stretto.display.timeline import draw
from stretto.values.answer import Answer
from stretto.values.errors import InvalidRequestError


class TimelinePlot:
    """A timeline image with one row per branch: waiting, silent, writing. Notebooks show it.

    Args:
        answer: the answer whose timeline and branches are drawn.

    Attributes:
        svg: the image as standalone SVG.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.svg = draw(answer.timeline, answer.branches)

    def __repr__(self) -> str:
        return f"<TimelinePlot: {len(self.svg):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.svg

    def _repr_markdown_(self) -> str:
        return timeline_markdown(self._answer.timeline, self._answer.branches)

    def save(self, path: str | Path) -> Path:
        """Save it to a file: ``.svg`` for the image, ``.html`` for a page with it. Raises `InvalidRequestError`."""
        path = Path(path).expanduser()
        if path.suffix.lower() not in (".svg", ".html"):
            raise InvalidRequestError(f"{str(path)!r} cannot be written: a timeline is saved as .svg or .html.")
        path.write_text(self.svg if path.suffix.lower() == ".svg" else page("Timeline", self.svg), encoding="utf-8")
        return path
