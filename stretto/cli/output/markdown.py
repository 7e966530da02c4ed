"""Incremental rendering of an answer's Markdown on a terminal.

Complete blocks are drawn once. The open one is redrawn with each piece, from the first line that changed. Model text is
untrusted: no markup but Markdown is interpreted, no HTML, and the URL of each link is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from stretto.cli.output.plain import plain
from stretto.display.palette import TERMINAL

LONGEST_OPEN = 8_000  # characters of an open block that are redrawn with each piece
MOST_CELLS = 4_000  # table cells per text; a row can be one character, and is padded to the width of its heading
_THEME = Theme(  # legible on both light and dark terminals
    {
        "markdown.code": f"bold {TERMINAL.code}",
        "markdown.item.bullet": "bold",
        "markdown.item.number": TERMINAL.accent,
    }
)


def _small_table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Apply the parser's table rule to tables that are not too large; others remain text."""
    if not table(state, first, end, True):  # only detects a table, without parsing it
        return False
    if silent:
        return True
    columns, line = state.getLines(first, first + 1, 0, False).strip().strip("|").count("|") + 1, first
    cells = state.env.get("cells", 0)
    while line < end and not state.isEmpty(line) and cells <= MOST_CELLS:
        line, cells = line + 1, cells + columns
    state.env["cells"] = cells
    return cells <= MOST_CELLS and table(state, first, end, False)


_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
_DEEPEST = _PARSER.options["maxNesting"]  # the parser drops what is nested deeper
_CONTAINERS = ("blockquote_open", "list_item_open")
_PARSER.block.ruler.at("table", _small_table, {"alt": ["paragraph", "reference"]})


class _Code(CodeBlock):
    """Code without colours: lexers can take very long on malicious text."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(str(self.text).rstrip("\n"), TERMINAL.code, overflow="fold")


class _Heading(Heading):
    """A left-aligned heading."""

    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Markdown(Markdown):
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        env: dict[str, Any] = {}
        self.markup, self.parsed = text, _PARSER.parse(text, env)
        self.undrawn = ""
        """Why the text is shown unrendered; empty if it is rendered."""
        if env.get("cells", 0) > MOST_CELLS:
            self.undrawn = f"it has a table of more than {MOST_CELLS:,} cells"
        elif any(token.type in _CONTAINERS and token.level + 1 >= _DEEPEST for token in self.parsed):
            self.undrawn = f"its lists and quotations are nested deeper than {_DEEPEST} levels"
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":  # models break lines on purpose
                    child.type = "hardbreak"
                elif child.type == "image":
                    child.type, child.content = "text", f"{child.content} ({child.attrs.get('src', '')})"


@dataclass(frozen=True)
class Line:
    """A line of the terminal: its text, and its width in cells."""

    text: str
    cells: int


Render = Callable[[str], Sequence[Line]]
Part = tuple[str, Style | None]
"""A piece of a line with one style."""


def rows(text: str, console: Console, width: int | None = None) -> list[list[Part]]:
    """Render Markdown as terminal rows, without empty ones at either end; ``width=None``: that of the console."""
    options = console.options.update(width=width or console.width, highlight=False)
    drawn: list[list[Part]] = []
    text = plain(text)
    markdown = _Markdown(text)
    with console.use_theme(_THEME):
        for segments in console.render_lines(Text(text) if markdown.undrawn else markdown, options, pad=False):
            parts = [(plain(segment.text).replace("\n", " ").replace("\t", " "), segment.style) for segment in segments]
            while parts and not parts[-1][0].rstrip():
                parts.pop()
            if parts:
                parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
            drawn.append(parts)
    while drawn and not _cells(drawn[-1]):
        drawn.pop()
    while drawn and not _cells(drawn[0]):
        drawn.pop(0)
    if markdown.undrawn:
        why = wrap(f"Shown as it was written: {markdown.undrawn}.", options.max_width)
        drawn += [[(line, Style(dim=True))] for line in why]
    return drawn


def _cells(parts: Sequence[Part]) -> int:
    return sum(cell_len(part) for part, _ in parts)


def renderer(console: Console) -> Render:
    """Return a function that draws Markdown in a terminal's colours, one cell narrower than its current width.

    After a line that fills the terminal, the position of the cursor is undefined.
    """
    colours = COLOR_SYSTEMS[console.color_system] if console.color_system else None

    def render(text: str) -> Sequence[Line]:
        return [
            Line(
                "".join(style.render(part, color_system=colours) if style else part for part, style in parts),
                _cells(parts),
            )
            for parts in rows(text, console, max(1, console.width - 1))
        ]

    return render


class Flow:
    """Streams text to a terminal: `draw` returns what to send. Nothing else may move the cursor.

    ``rows``: height of the terminal; lines further up can no longer be changed. ``column``: column of the cursor.
    """

    def __init__(self, render: Render, rows: int) -> None:
        self._render = render
        self._reach = max(1, rows - 2)
        self._open = ""
        self._drawn: Sequence[Line] = ()
        self._gap = ""  # before the next block
        self.column = 0

    def feed(self, text: str) -> None:
        self._open += text

    def draw(self) -> str:
        """Return what to send to show all text so far."""
        *done, self._open = blocks(self._open)
        sent = ""
        for block in done:
            if lines := self._render(block):
                sent += self._redraw(lines) + "\n"
                self._drawn, self._gap = (), "\n"
        return sent + self._redraw(self._render(self._open))

    def _redraw(self, lines: Sequence[Line]) -> str:
        old, self._drawn = self._drawn, lines
        if not lines and not old:
            return ""
        self.column = lines[-1].cells if lines else 0
        if not old:
            gap, self._gap = self._gap, ""
            return gap + "\n".join(line.text for line in lines)
        shorter = min(len(old), len(lines))
        same = next((at for at in range(shorter) if old[at] != lines[at]), shorter)
        if same == len(old) == len(lines):
            return ""
        if same == len(old):
            return "".join("\n" + line.text for line in lines[same:])
        first = max(min(same, len(lines) - 1), len(old) - self._reach, 0)
        up = len(old) - 1 - first
        back = f"\x1b[{up}A" if up else ""
        return f"\r{back}\x1b[J" + "\n".join(line.text for line in lines[first:])


def blocks(text: str) -> list[str]:
    """Return the complete blocks, and the open one after them."""
    found = [token.map[0] for token in _PARSER.parse(text) if token.level == 0 and token.map and token.nesting >= 0]
    ended = text.count("\n")  # the last line is ambiguous until it ends: "-" may become "-1"
    begins = [begin for at, begin in enumerate(found) if at == 0 or begin < ended]
    if len(begins) > 1:
        lines = text.split("\n")
        return ["\n".join(lines[begin:end]) for begin, end in pairwise([*begins, len(lines)])]
    if len(text) > LONGEST_OPEN:
        end = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
        return [text[:end], text[end:]]
    return [text]
