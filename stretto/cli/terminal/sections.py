"""The sections of an answer in their final place: headings at once, the text below each as it arrives."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget

from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import SIGNS, counted
from stretto.cli.terminal.cards import STYLES
from stretto.cli.terminal.lines import Words, Written, words
from stretto.cli.terminal.unwritten import after_name
from stretto.display.palette import TERMINAL

FEWEST_ROWS = 2  # of a section below the one being read


class Section(Widget):
    """One section: its heading, its status, and its text."""

    DEFAULT_CSS = """
    Section { layout: vertical; height: auto; width: 1fr; margin: 0 0 1 0; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title
        self.text = ""
        self.error = ""
        self.state = "waiting"
        self._heading = Words()
        self._written = Written()

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._written

    def on_mount(self) -> None:
        """Show changes from before it was mounted."""
        self.changed()

    @property
    def ended(self) -> bool:
        """Whether the section is complete."""
        return self.state in ("finished", "failed", "discarded")

    def changed(self) -> None:
        """Show what arrived since the last call."""
        style = "bold" if self.state == "writing" else f"bold {STYLES[self.state]}"
        heading = Text.assemble((f"{SIGNS[self.state]} ", style), words(one_line(self.title), "bold"), end="")
        if self.text:
            heading.append(f" · {counted(len(self.text.split()), 'word')}", "dim")
        problem = [words(one_line(self.error), STYLES.get(self.state, TERMINAL.bad))] if self.error else []
        self._heading.say(heading, *problem)
        named, shown = after_name(self.title, self.text), self._written.text
        text = self.text if named is None else named
        self._written.display = bool(text.strip())
        if shown and text.startswith(shown):
            self._written.feed(text[len(shown) :])
            self._written.changed()
        elif text != shown:
            self._written.settle(text)

    def open(self, *, whole: bool) -> None:
        """Show all rows of the text, or only the first ones."""
        self._written.styles.max_height = None if whole else FEWEST_ROWS


class Sections(Widget):
    """All sections, one below the other.

    Sections are shown in full down to the first incomplete one, so nothing above the reader's place grows.
    """

    DEFAULT_CSS = "Sections { layout: vertical; height: auto; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.by_branch: dict[str, Section] = {}
        self.columns = 1

    def card(self, branch: str, title: str) -> Section:
        """Return the section of a branch, created if missing."""
        if branch not in self.by_branch:
            self.by_branch[branch] = Section(title)
            self.mount(self.by_branch[branch])
        section = self.by_branch[branch]
        section.title = section.title or title
        return section

    def changed(self) -> None:
        """Expand the sections to be read now."""
        whole = True
        for section in self.by_branch.values():
            section.open(whole=whole)
            whole = whole and section.ended
