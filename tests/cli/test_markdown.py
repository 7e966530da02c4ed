"""Markdown on a terminal, while it is written."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from terminal import Terminal, without_textual
from test_screen import TerminalText

from stretto.cli.output.markdown import LONGEST_OPEN, Flow, renderer, rows
from stretto.cli.output.screen import CALM_S, REDRAW_S, Screen

ROWS = 24
ANSWER = """# Tea

1. **Boil**: Heat the water until it bubbles, and wait for a moment before you pour it.
2. **Steep**: Three minutes. See [a page](http://example.org/tea).

Then `pour` it:

```
cup = tea + [milk]
```

| kind | minutes |
|---|---|
| green | 2 |

cat: cats
child: children
"""


class Glass:
    """What a terminal shows of what it is sent: line feeds, carriage returns, moves, what is cleared, colours."""

    def __init__(self):
        self.lines, self.row, self.column = [""], 0, 0

    def take(self, sent):
        for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", sent):
            if piece == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif piece == "\r":
                self.column = 0
            elif piece.endswith("A") and piece.startswith("\x1b"):
                self.row -= int(piece[2:-1])
                assert self.row >= 0
            elif piece.startswith("\x1b") and piece[-1] in "CD":
                self.column += int(piece[2:-1]) * (1 if piece[-1] == "C" else -1)
            elif piece == "\x1b[K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif piece == "\x1b[J":
                self.lines[self.row] = self.lines[self.row][: self.column]
                del self.lines[self.row + 1 :]
            elif piece.startswith("\x1b"):
                assert piece.endswith("m"), repr(piece)
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + piece + line[self.column + 1 :]
                self.column += 1
        return self

    @property
    def shown(self):
        return "\n".join(line.rstrip() for line in self.lines).strip("\n")


def flow(width=60):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=ROWS, color_system="standard")
    return Flow(renderer(console), ROWS)


def shown(text, step=None, width=60):
    drawn, glass = flow(width), Glass()
    for at in range(0, len(text), step or len(text) or 1):
        drawn.feed(text[at : at + (step or len(text))])
        glass.take(drawn.draw())
    return glass.shown


@pytest.mark.thorough
def test_what_is_drawn_piece_by_piece_is_what_is_drawn_at_once():
    for step in (1, 3, 7, 40):
        assert shown(ANSWER, step) == shown(ANSWER)


def test_marks_are_gone_words_are_whole_and_lines_stay():
    drawn = shown(ANSWER, 5, width=40)
    assert "**" not in drawn
    assert "`" not in drawn
    assert all(len(line) <= 40 for line in drawn.split("\n"))
    assert set(re.findall(r"[a-z]+", drawn)) >= {"bubbles", "moment", "pour"}
    assert "cat: cats\nchild: children" in drawn


def test_brackets_are_text_and_links_show_their_address():
    text = "[bold]not bold[/bold] and [a page](http://example.org/x) and ![a cat](http://example.org/cat.png)"
    drawn = shown(text, 4, 200)
    assert drawn == "[bold]not bold[/bold] and a page (http://example.org/x) and a cat (http://example.org/cat.png)"


@pytest.mark.parametrize("text", ["<b>x</b>", "a <think>b</think>\n\n<div>\nc\n</div>"])
def test_html_is_text(text):
    assert "".join(shown(text).split()) == "".join(text.split())


def test_a_model_cannot_control_the_terminal_through_markdown():
    sent = flow()
    sent.feed("\x1b]0;owned\x07 &#27;[2J &#x202e;gnp.exe \u202e [x](javascript:\x1b[2J) `\x9b2J`\n\n")
    sent = sent.draw()
    assert not re.search(r"\x1b(?!\[[0-9;]*m)|[\x07\x9b\u202e]", sent)


def test_a_line_that_only_begins_like_a_list_does_not_end_the_block_before_it():
    assert shown(">1\n-1", 3) == shown(">1\n-1", 1) == shown(">1\n-1", 9)


@given(st.text(st.sampled_from("ab *_`#[]()<>|-1.\n\\&;:!~"), max_size=200), st.integers(1, 9))
def test_any_text_is_drawn_the_same_however_it_comes(text, step):
    assert shown(text, step) == shown(text, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "|a\n" * 1_000, "it has a table of more than 4,000 cells."),
        ("> " * 4_000 + "x", "its lists and quotations are nested deeper than 20 levels."),
        ("- " * 4_000 + "x", "its lists and quotations are nested deeper than 20 levels."),
        ("\n".join("  " * level + "- x" for level in range(30)), "its lists and quotations are nested deeper than"),
    ],
)
def test_what_would_take_too_long_or_lose_text_is_shown_as_it_was_written_and_why(text, why):
    console = Console(width=200, file=io.StringIO())
    lines = ["".join(part for part, _ in row) for row in rows(text, console)]
    assert "".join(lines[:-1]).replace(" ", "") == text.replace(" ", "").replace("\n", "")
    assert lines[-1].startswith(f"Shown as it was written: {why}")


def test_lists_in_lists_and_a_long_table_are_drawn():
    console = Console(width=200, file=io.StringIO())
    for text in ("> 1. - 2. - deep", "|a|b|\n|-|-|\n" + "|c|d|\n" * 1_000):
        drawn = "\n".join("".join(part for part, _ in row) for row in rows(text, console))
        assert "Shown as" not in drawn
        assert "|" not in drawn


def test_what_is_drawn_again_is_bounded():
    drawn, again = flow(), 0
    for _ in range(40):
        drawn.feed("word " * 200)
        again = max(again, len(drawn.draw()))
    assert again < 3 * LONGEST_OPEN


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    return TerminalText()


def test_an_answer_is_drawn_on_a_terminal_only(terminal):
    piped = io.StringIO()
    for out in (terminal, piped):
        screen = Screen(out=out, err=terminal)
        screen.answer("Some **tea**.")
        screen.end()
    assert piped.getvalue() == "Some **tea**.\n"
    assert Glass().take(terminal.getvalue()).shown == "Some tea."


@pytest.mark.parametrize("how", ["--plain", "NO_COLOR", "TERM=dumb"])
def test_it_stays_as_written_where_that_is_wanted(terminal, monkeypatch, how):
    if how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    if how == "TERM=dumb":
        monkeypatch.setenv("TERM", "dumb")
    screen = Screen(out=terminal, err=terminal, unrendered=how == "--plain")
    screen.answer("Some **tea**.")
    screen.end()
    assert terminal.getvalue() == "Some **tea**.\n"


def test_an_answer_is_not_drawn_more_often_than_one_can_see(terminal):
    now = [0.0]
    screen = Screen(out=terminal, err=terminal, now_s=lambda: now[0])
    now[0] = 1.0
    screen.answer("Some ")
    screen.answer("tea")
    assert "tea" not in terminal.getvalue()
    now[0] += REDRAW_S
    screen.answer(" and milk")
    assert Glass().take(terminal.getvalue()).shown == "Some tea and milk"


def test_a_text_that_takes_long_to_draw_is_drawn_more_rarely(terminal):
    now = [1.0]

    class Slow(Flow):
        def draw(self):
            now[0] += 1.0
            return super().draw()

    screen = Screen(out=terminal, err=terminal, now_s=lambda: now[0])
    screen.answer("Some ")
    screen._flow = Slow(screen._flow._render, ROWS)
    drawn = []
    for _ in range(100):
        now[0] += 0.1
        before = now[0]
        screen.answer("tea ")
        screen.tick(lambda: "writing")
        drawn.append(now[0] > before)
    assert 1 < sum(drawn) <= 4
    screen.end()
    assert terminal.getvalue().count("tea") >= 100


def test_what_is_still_to_come_stands_below_the_text_and_is_taken_back(terminal, monkeypatch):
    monkeypatch.setenv("LINES", "24")
    now = [0.0]
    screen = Screen(out=terminal, err=terminal, now_s=lambda: now[0])

    def glass():
        return Glass().take(terminal.getvalue().replace("\x1b[4;35m", "")).shown.split("\n")

    screen.below = ["· Every week", "▸ At the shop · 3 words", f"· {'long ' * 40}"]
    screen.answer("Clean **the chain** first.")
    *text, first, second, long = glass()
    assert text == ["Clean the chain first.", ""]
    assert (first, second) == ("· Every week", "▸ At the shop · 3 words")
    assert len(long) < screen.width
    now[0] += 1
    screen.tick(lambda: "writing 2 sections")
    assert glass()[0].startswith("Clean the chain first.⠋ writing")
    assert glass()[2:] == [first, second, long]
    screen.below = ["✓ At the shop · 4 words"]
    screen.answer("\n\n## Every week\n\nWipe it.")
    now[0] += 1
    screen.tick(lambda: "writing 1 section")
    assert [line for line in glass() if line][-1] == "✓ At the shop · 4 words"
    screen.end()
    assert [line for line in glass() if line] == ["Clean the chain first.", "Every week", "Wipe it."]


def test_a_low_terminal_has_no_room_below_the_text(terminal, monkeypatch):
    monkeypatch.setenv("LINES", "10")
    screen = Screen(out=terminal, err=terminal)
    screen.below = ["· Every week"]
    screen.answer("Clean it.")
    assert "Every week" not in terminal.getvalue()


def test_the_progress_line_stands_behind_the_drawn_text(terminal):
    now = [1.0]
    screen = Screen(out=terminal, err=terminal, now_s=lambda: now[0])
    screen.answer("Some **tea**")
    now[0] += CALM_S
    screen.tick(lambda: "writing")
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()) == "Some tea\x1b[K⠋ writing\x1b[9D"


@pytest.mark.thorough
def test_a_chat_on_a_terminal_draws_markdown_too(program):
    script = '{"": "It is **fine** and " }'
    with Terminal(without_textual(program(script, "chat", "-s", "direct")), columns=30, warm=False) as terminal:
        terminal.wait_for("> ")
        terminal.type("Why?\n")
        seen = terminal.wait_for("direct · .*> ")
        terminal.type("\x04")
        terminal.wait_for_end()
    assert "fine" in seen
    assert "**" not in seen
