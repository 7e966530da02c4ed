"""Both ways of answering side by side; below each other on a narrow terminal."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widget import Widget

from stretto.cli.terminal.answer_view import AnswerView


class Beside(Widget):
    """An answer in parts, and one that is written in one piece."""

    DEFAULT_CSS = """
    Beside { layout: horizontal; height: auto; width: 1fr; }
    Beside AnswerView { margin: 0 2 1 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.chosen = AnswerView("In the chosen way")
        self.direct = AnswerView("In one piece")

    def compose(self) -> ComposeResult:
        """The chosen way first."""
        yield self.chosen
        yield self.direct
