"""The conversation on the screen: questions, answers, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pydantic import ValidationError
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widget import Widget

from stretto.cli.chat.chat_file import Turn
from stretto.cli.output.plain import one_line
from stretto.cli.terminal.answer_view import AnswerView
from stretto.cli.terminal.lines import Words, words
from stretto.display.palette import TERMINAL
from stretto.values.answer import Answer

MOST_SHOWN = 50  # turns of a resumed chat


class Talk(VerticalScroll):
    """A scrolling view that follows new text, unless the reader has scrolled away."""

    DEFAULT_CSS = """
    Talk { height: 1fr; width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    Talk { scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default; }
    Talk { scrollbar-background-active: ansi_default; scrollbar-color: ansi_bright_black; }
    Talk { scrollbar-color-hover: ansi_bright_black; scrollbar-color-active: ansi_bright_black; }
    Talk > Words { margin: 0 0 1 0; }
    """

    def __init__(self) -> None:
        super().__init__(can_focus=False)
        self._turns: list[str] = []
        self._numbers = count()
        self._top: tuple[Widget, AnswerView] | None = None  # a question pinned to the top, and its answer

    def on_mount(self) -> None:
        """Scroll after every layout, when positions are known."""
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._hold(), immediate=True)

    def on_answer_view_in_sections(self, message: AnswerView.InSections) -> None:
        """Pin the question to the top, so that text written below does not move the reader's place."""
        message.stop()
        self.anchor(False)
        self._top = self.query(f".question.{self._turns[-1]}").first(), message.view
        self._hold()

    def _hold(self) -> None:
        """Reserve room below the pinned question, and scroll to it as far as possible."""
        if self._top is None:
            return
        question, view = self._top
        if place := question.virtual_region:
            view.styles.min_height = max(1, self.size.height - question.outer_size.height)
            self.scroll_y = self.scroll_target_y = place.y

    def anchor(self, anchor: bool = True) -> None:
        """Start or stop following new text."""
        self._top = None
        super().anchor(anchor)

    def release_anchor(self) -> None:
        """Stop following because the reader scrolls."""
        self._top = None
        super().release_anchor()

    def note(self, text: str | Sequence[Text], style: str = "") -> None:
        """Show a note in the conversation."""
        lines = [words(text, style)] if isinstance(text, str) else text
        self.mount(Words(*lines, classes="note"))

    def problem(self, error: object) -> None:
        """Show an error."""
        self.note(f"error: {one_line(str(error))}", TERMINAL.bad)

    async def begin(self, question: str, answer: Widget, *, instead: bool = False) -> None:
        """Show a question with the view of its answer, or both ``instead`` of the last ones."""
        if instead and self._turns:
            self.query(f".{self._turns.pop()}").remove()
        for view in self.query(AnswerView):
            view.styles.min_height = None
        await self.mount(*self._turn(question, answer))

    def _turn(self, question: str, answer: Widget) -> tuple[Widget, Widget]:
        name = f"turn-{next(self._numbers)}"
        self._turns.append(name)
        answer.add_class(name)
        return Words(words(f"> {question}", f"bold {TERMINAL.accent}"), classes=f"question {name}"), answer

    async def show(self, turns: Sequence[Turn], chat: str, *, trace: bool) -> Answer | None:
        """Show the turns of a resumed chat, and return their last complete answer."""
        last, shown = None, list[Widget]()
        if hidden := len(turns[:-MOST_SHOWN]):
            self.note(f"{hidden:,} earlier turns: stretto chats show {chat}", "dim")
        for turn in turns[-MOST_SHOWN:]:
            view = AnswerView()
            shown += self._turn(turn.question, view)
            answer = _answer_of(turn)
            if answer is None:
                view.text = turn.text
                view.stop(turn.stopped or ("" if turn.text else "There is no answer."))
            else:
                view.show_route(answer.route)
                view.finish(answer, trace=trace)
                last = answer
        await self.mount(*shown)
        return last

    def empty(self) -> None:
        """Clear the conversation."""
        self._turns.clear()
        self.remove_children()


def _answer_of(turn: Turn) -> Answer | None:
    """Return the complete answer; ``None`` if there is none, or if it is from an incompatible version."""
    try:
        return Answer.model_validate(turn.answer) if turn.answer is not None else None
    except ValidationError:
        return None
