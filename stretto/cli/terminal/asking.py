"""The input field for questions: Enter sends, Ctrl-J begins a new line."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from stretto.cli.output.plain import plain
from stretto.display.palette import TERMINAL

NEWLINES = ("ctrl+j", "shift+enter", "alt+enter")


class Asking(TextArea):
    """An input field as high as its text, up to eight rows."""

    DEFAULT_CSS = f"""
    Asking {{ height: auto; max-height: 10; width: 1fr; padding: 0 1; background: ansi_default; }}
    Asking, Asking:focus {{ border: round ansi_{TERMINAL.accent}; }}
    Asking.-editing, Asking.-editing:focus {{ border: round ansi_{TERMINAL.wait}; }}
    """

    @dataclass
    class Sent(Message):
        """Enter was pressed."""

        text: str

    class EditLast(Message):
        """Up was pressed in an empty field."""

    class Leave(Message):
        """Ctrl-D was pressed in an empty field."""

    def __init__(self) -> None:
        super().__init__(soft_wrap=True, show_line_numbers=False, tab_behavior="focus", highlight_cursor_line=False)

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.endswith("\\") and self.cursor_at_end_of_text:
                self.action_delete_left()
                self.insert("\n")
            else:
                self.post_message(self.Sent(self.text))
        elif key in NEWLINES:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif not self.text and key in ("up", "ctrl+d"):
            event.stop()
            event.prevent_default()
            self.post_message(self.EditLast() if key == "up" else self.Leave())
        # All other keys are left to Textual's handler.

    async def _on_paste(self, event: events.Paste) -> None:
        """Sanitise pasted text; Textual's handler inserts it."""
        event.text = _typed(event.text)

    def put(self, text: str) -> None:
        """Show a text, with the cursor at its end."""
        self.load_text(_typed(text))
        self.move_cursor(self.document.end)


def _typed(text: str) -> str:
    """Return text as a person could have typed it: pasted text has carriage returns, and may hide other characters."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n")).replace("\t", "    ")
