"""A small editor that completes code as you type: ``python editor.py [FILE]``.

Tab takes the suggestion, Ctrl-S saves, Ctrl-X leaves.
"""

from __future__ import annotations

import curses
import os
import queue
import sys
import time
from pathlib import Path

from completer import Completer

from stretto.local import Finished, Piece

TAB, SAVE, LEAVE = "\t", "\x13", ("\x18", "\x03")  # Ctrl-X, Ctrl-C
HELP = "Tab takes  ^S saves  ^X leaves"
BACKSPACE = ("\x7f", "\b", curses.KEY_BACKSPACE)
GAP = 2
LOOK_MS = 20  # how often pieces of the suggestion are looked for while no key comes


class Editor:
    """A text, a cursor in it, and a suggestion of what stands behind the cursor."""

    def __init__(self, completer: Completer, file: Path | None) -> None:
        self._completer = completer
        self._file = file
        self.text = file.read_text(encoding="utf-8") if file and file.exists() else ""
        self.cursor = len(self.text)
        self.suggestion = ""
        self.status = ""
        self._pieces: queue.SimpleQueue[Piece | Finished] = queue.SimpleQueue()
        self._asked_s = 0.0

    def press(self, key: str | int) -> bool:
        """Do what a key says; gives whether to go on."""
        if key in LEAVE:
            return False
        if key == SAVE:
            self._save()
        elif key == TAB and self.suggestion:
            self._insert(self.suggestion)
        elif key in BACKSPACE:
            self.text = self.text[: max(0, self.cursor - 1)] + self.text[self.cursor :]
            self._move(self.cursor - 1)
        elif key == curses.KEY_LEFT:
            self._move(self.cursor - 1)
        elif key == curses.KEY_RIGHT:
            self._move(self.cursor + 1)
        elif key in (curses.KEY_UP, curses.KEY_DOWN):
            self._move_line(-1 if key == curses.KEY_UP else 1)
        elif isinstance(key, str):
            self._insert(
                "    " if key == TAB else "\n" if key == "\r" else key if key.isprintable() or key == "\n" else ""
            )
        return True

    def look(self) -> bool:
        """Take what has come of the suggestion; gives whether anything has."""
        changed = False
        while not self._pieces.empty():
            said = self._pieces.get()
            changed = True
            if isinstance(said, Piece):
                self.suggestion += said.text
            elif said.error is not None:
                self.status = str(said.error)
            else:
                took = f"{said.completion_tokens} tokens in {(time.perf_counter() - self._asked_s) * 1000:.0f} ms"
                row, column = self.place()
                known = f"{said.cached_tokens} of {said.prompt_tokens} known"
                self.status = f"{row + 1}:{column + 1}  {took}, {known}"
        return changed

    def ask(self) -> None:
        """Ask for a suggestion; the one before it is cancelled."""
        self.suggestion, self.status, self._pieces = (
            "",
            "",
            queue.SimpleQueue(),
        )  # what still comes of the older one is not read
        self._asked_s = time.perf_counter()
        self._completer.complete("editor", self.text[: self.cursor], self._pieces.put)

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self._move(self.cursor + len(text))

    def _move(self, cursor: int) -> None:
        self.cursor = min(max(0, cursor), len(self.text))
        self.ask()

    def _move_line(self, by: int) -> None:
        lines = self.text.split("\n")
        row, column = self.place()
        row = min(max(0, row + by), len(lines) - 1)
        self._move(sum(len(line) + 1 for line in lines[:row]) + min(column, len(lines[row])))

    def place(self) -> tuple[int, int]:
        """The row and column of the cursor."""
        before = self.text[: self.cursor]
        return before.count("\n"), len(before) - (before.rfind("\n") + 1)

    def _save(self) -> None:
        if self._file is None:
            self.status = "Name a file when you start the program: python editor.py FILE"
            return
        try:
            self._file.write_text(self.text, encoding="utf-8")
        except OSError as error:
            self.status = f"Not saved: {error}"
        else:
            self.status = f"Saved {self._file.name}"


def draw(window: curses.window, editor: Editor) -> None:
    """Show the text, the suggestion in it, dim, and the status below."""
    window.erase()
    height, width = window.getmaxyx()
    first = max(0, editor.place()[0] - height + 4)
    shown = (
        (editor.text[: editor.cursor], curses.A_NORMAL),
        (editor.suggestion, curses.A_DIM),
        (editor.text[editor.cursor :], curses.A_NORMAL),
    )
    y, x, cursor = -first, 0, None
    for text, look in shown:
        for character in text:
            if character == "\n":
                y, x = y + 1, 0
            elif 0 <= y < height - 1 and x < width - 1:
                window.addstr(y, x, character if character.isprintable() else " ", look)
                x = window.getyx()[1]  # some characters are two columns wide
            else:
                x += 1
        cursor = cursor or (y, x)  # behind the first of the three
    window.addnstr(height - 1, 0, foot(editor.status, width - 1), max(0, width - 1), curses.A_REVERSE)
    if cursor:
        window.move(min(max(0, cursor[0]), height - 1), min(cursor[1], width - 1))
    window.refresh()


def foot(status: str, width: int) -> str:
    """The status, and the keys beside it where there is room."""
    room = width - len(status) - len(HELP)
    return f"{status}{' ' * room}{HELP}" if room >= GAP or not status else status.ljust(width)


def run(window: curses.window, editor: Editor) -> None:
    """Take keys until it is left."""
    curses.raw()  # Ctrl-S and Ctrl-X come as keys
    window.timeout(LOOK_MS)
    editor.ask()
    changed = True
    while True:
        if changed:
            draw(window, editor)
        try:
            key = window.get_wch()
        except curses.error:  # none came
            changed = editor.look()
            continue
        if not editor.press(key):
            return
        changed = True


if __name__ == "__main__":
    os.environ.setdefault("ESCDELAY", "25")
    print("Loading the model ...")
    model = Completer()
    try:
        curses.wrapper(run, Editor(model, Path(sys.argv[1]) if sys.argv[1:] else None))
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {sys.argv[1]} cannot be read: {error}")
    finally:
        model.close()
