"""The parts of an answer side by side while they are written."""

from __future__ import annotations

from rich.cells import set_cell_size
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from stretto.cli.output.markdown import Part, rows
from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import SIGNS
from stretto.cli.terminal.lines import CONSOLE, Lines, strips_of
from stretto.display.palette import TERMINAL

NARROWEST = 34  # cells of a column
MOST_COLUMNS = 4
FEWEST_ROWS, MOST_ROWS = 2, 9  # of a card, its title included
_AROUND = 8  # rows of the screen not used for cards
_TAIL = 4_000  # characters of a part that are drawn: a card shows its end
STYLES = {
    "waiting": "dim",
    "silent": TERMINAL.wait,
    "finished": TERMINAL.good,
    "failed": TERMINAL.bad,
    "discarded": "dim",
}


class Card(Lines):
    """One part: its title, and the last rows of its text."""

    DEFAULT_CSS = "Card { padding: 0 0 0 1; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title
        self.text = ""
        self.error = ""
        self.state = "waiting"
        self.rows = FEWEST_ROWS

    def draw_rows(self, width: int) -> list[Strip]:
        """Render a fixed number of rows, so that neighbouring cards do not move."""
        name: Part = (set_cell_size(f"{SIGNS[self.state]} {one_line(self.title)}", width), CONSOLE.get_style("bold"))
        if self.state != "writing":
            name = (name[0], CONSOLE.get_style(f"bold {STYLES[self.state]}"))
        if self.error:
            style = CONSOLE.get_style(STYLES.get(self.state, TERMINAL.bad))
            problem: Part = (set_cell_size(one_line(self.error), width), style)
            text = [[problem]]
        else:
            tail = self.text if len(self.text) <= _TAIL else self.text[-_TAIL:].partition(" ")[2]
            text = rows(tail, CONSOLE, width)[1 - self.rows :]
        return strips_of([[name], *text, *([[]] * (self.rows - 1 - len(text)))])


class Cards(Widget):
    """Cards in as many columns as fit; one below the other on a narrow terminal."""

    DEFAULT_CSS = """
    Cards { layout: grid; grid-size: 1; grid-gutter: 1 2; grid-rows: auto; height: auto; width: 1fr; margin: 0 0 1 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_branch: dict[str, Card] = {}
        self.columns = 1

    def card(self, branch: str, title: str) -> Card:
        """Return the card of a branch, created if missing."""
        if branch not in self.by_branch:
            self.by_branch[branch] = Card(title)
            self.mount(self.by_branch[branch])
            self._arrange()
        card = self.by_branch[branch]
        card.title = card.title or title
        return card

    def on_resize(self, _: events.Resize) -> None:
        """Adapt to a new width of the terminal, or of the space next to a comparison."""
        self._arrange()

    def _arrange(self) -> None:
        self.columns = min(MOST_COLUMNS, max(1, (self.size.width + 2) // (NARROWEST + 2)), max(1, len(self.by_branch)))
        self.styles.grid_size_columns = self.columns
        down = -(-len(self.by_branch) // self.columns)
        room = max(1, self.app.size.height - _AROUND) // max(1, down) - 1
        high = max(FEWEST_ROWS, min(MOST_ROWS, room))
        for card in self.by_branch.values():
            if card.rows != high:
                card.rows = high
                card.changed()
