"""The sections of an answer, where they will stand: their headings at once, the text below each as it comes."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget

from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import SIGNS, counted
from stretto.cli.terminal.cards import STYLES
from stretto.cli.terminal.lines import Words, Written, words
from stretto.cli.terminal.unwritten import behind_name
from stretto.display.palette import TERMINAL

FEWEST_ROWS = 2  # of a section that is not read yet


class Section(Widget):
    """One section: its heading, with what becomes of it, and its text."""

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
        """It may have changed before."""
        self.changed()

    @property
    def ended(self) -> bool:
        """Whether nothing of it follows."""
        return self.state in ("finished", "failed", "discarded")

    def changed(self) -> None:
        """Show what came since the last time."""
        style = "bold" if self.state == "writing" else f"bold {STYLES[self.state]}"
        heading = Text.assemble((f"{SIGNS[self.state]} ", style), words(one_line(self.title), "bold"), end="")
        if self.text:
            heading.append(f" · {counted(len(self.text.split()), 'word')}", "dim")
        problem = [words(one_line(self.error), STYLES.get(self.state, TERMINAL.bad))] if self.error else []
        self._heading.say(heading, *problem)
        named, shown = behind_name(self.title, self.text), self._written.text
        text = self.text if named is None else named
        self._written.display = bool(text.strip())
        if shown and text.startswith(shown):
            self._written.feed(text[len(shown) :])
            self._written.changed()
        elif text != shown:
            self._written.settle(text)

    def open(self, *, whole: bool) -> None:
        """Show all rows of its text, or the first ones."""
        self._written.styles.max_height = None if whole else FEWEST_ROWS


class Sections(Widget):
    """All of them, one below the other.

    Down to the first that is not complete they are whole, and grow. What is read has nothing above it that grows.
    """

    DEFAULT_CSS = "Sections { layout: vertical; height: auto; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.by_branch: dict[str, Section] = {}
        self.columns = 1

    def card(self, branch: str, title: str) -> Section:
        """The section of a branch, which is made if there is none."""
        if branch not in self.by_branch:
            self.by_branch[branch] = Section(title)
            self.mount(self.by_branch[branch])
        section = self.by_branch[branch]
        section.title = section.title or title
        return section

    def changed(self) -> None:
        """Open what is to be read now."""
        whole = True
        for section in self.by_branch.values():
            section.open(whole=whole)
            whole = whole and section.ended
