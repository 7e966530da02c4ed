"""What a rewritten text has that its source had not: how many places, and the words of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import counted
from stretto.cli.terminal.lines import words
from stretto.display.palette import TERMINAL
from stretto.values.events import TextEdited

__all__ = ["changes_of"]

MOST = 6  # changes that are listed, alike ones together
LONGEST = 60  # characters of one


def changes_of(edits: Sequence[TextEdited], text: str, *, trace: bool) -> list[Text]:
    """A count and the changes, alike ones once; with ``trace``, each with its line in the text."""
    if not edits:
        return []
    alike = Counter((edit.old, edit.new) for edit in edits)
    if trace:
        lines = [_line(edit.old, edit.new, f"line {text.count(chr(10), 0, edit.start) + 1}: ") for edit in edits]
    else:
        lines = [_line(*each, behind=f" ({times} times)" if times > 1 else "") for each, times in alike.items()]
        if len(lines) > MOST:
            lines[MOST - 1 :] = [words(f"  and {len(lines) - MOST + 1} more; with /trace on, all are listed", "dim")]
    return [words(f"Changed in {counted(len(edits), 'place')}:", "dim"), *lines]


def _line(old: str, new: str, before: str = "", behind: str = "") -> Text:
    said = Text(f"  {before}", "dim", end="")
    said.append_text(words(_short(old) or "nothing", TERMINAL.bad)).append(" → ", "dim")
    return said.append_text(words(_short(new) or "nothing", TERMINAL.good)).append(behind, "dim")


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
