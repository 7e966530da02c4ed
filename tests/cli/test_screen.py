import io
import re

import pytest

from stretto.cli.output.screen import CALM_S, FRAME_S, Screen


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


class TerminalText(io.StringIO):
    """What a terminal is sent; both outputs go to the same one."""

    encoding = "utf-8"

    def isatty(self):
        return True

    @property
    def uncoloured(self):
        """What was sent, without what only changes the look."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue())


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    return TerminalText()


@pytest.fixture
def screen(shown, clock):
    return Screen(out=shown, err=shown, now_s=clock)


def test_progress_is_drawn_at_once_while_there_is_no_text(screen, shown):
    screen.tick(lambda: "waiting")
    assert shown.uncoloured == "\x1b[K⠋ waiting\x1b[9D"


def test_progress_is_taken_back_before_text(screen, shown):
    screen.tick(lambda: "waiting")
    screen.write("Tea.")
    assert shown.uncoloured == "\x1b[K⠋ waiting\x1b[9D\x1b[KTea."


def test_progress_waits_for_its_next_frame(screen, shown, clock):
    screen.tick(lambda: "waiting")
    screen.tick(lambda: "waiting")
    assert shown.uncoloured.count("waiting") == 1
    clock.now_s += FRAME_S
    screen.tick(lambda: "waiting")
    assert shown.uncoloured.endswith("⠙ waiting\x1b[9D")


def test_progress_does_not_flicker_between_tokens(screen, shown, clock):
    screen.write("Tea ")
    clock.now_s += CALM_S / 2
    screen.tick(lambda: "writing")
    assert shown.uncoloured == "Tea "
    clock.now_s += CALM_S
    screen.tick(lambda: "writing")
    assert shown.uncoloured == "Tea \x1b[K⠋ writing\x1b[9D"


def test_progress_never_reaches_the_edge(screen, shown, clock):
    screen.write("1234567890")
    clock.now_s += CALM_S
    screen.tick(lambda: "writing a very long list of many points")
    assert shown.uncoloured == "1234567890\x1b[K⠋ writing a very long list…\x1b[27D"


def test_progress_needs_some_room(screen, shown, clock):
    screen.write("12345678901234567890123456789")
    clock.now_s += CALM_S
    screen.tick(lambda: "writing")
    assert "writing" not in shown.uncoloured


def test_notes_and_text_are_kept_apart_on_a_terminal(screen, shown):
    screen.note("direct: it is short.")
    screen.write("Tea.")
    screen.note("done")
    assert shown.uncoloured == "direct: it is short.\n\nTea.\n\ndone\n"


def test_an_open_line_is_ended_once(screen, shown):
    screen.write("Tea.")
    screen.end()
    screen.end()
    assert shown.uncoloured == "Tea.\n"


def test_notes_hold_no_control_characters(screen, shown):
    screen.warn("It said\n\x1b[2J[red]hello[/red].")
    assert shown.uncoloured == "warning: It said [2J[red]hello[/red].\n"


def test_piped_there_is_no_progress(clock):
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out=out, err=err, now_s=clock)
    screen.tick(lambda: "waiting")
    screen.write("Tea.")
    screen.end()
    assert (out.getvalue(), err.getvalue()) == ("Tea.\n", "")


def test_quiet_shows_only_what_was_asked_for(clock):
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(quiet=True, out=out, err=err, now_s=clock)
    screen.note("a note")
    screen.warn("a warning")
    screen.show("a drawing")
    assert err.getvalue() == "a drawing\n"


def test_what_ctrl_c_shows_at_the_cursor_gets_its_line_ended(screen, shown):
    screen.tick(lambda: "waiting")
    shown.write("^C")
    screen.interrupt()
    screen.end()
    assert shown.uncoloured.endswith("\x1b[9D^C\x1b[K\n")
