"""Take the pictures of the chat in a terminal in `docs/img`: ``python docs/make_terminal_picture.py``.

The program is real, on a screen that nobody sees; a scripted server replays an answer that a strong model wrote. While
a picture of the writing is taken, the program reads no further.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partialmethod
from typing import Any
from unittest.mock import patch

from pictures import IMAGES, keep_record
from recorded import PACE, QUESTION, REPLIES, STRATEGY, scripted_server
from rich.color import parse_rgb_hex
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from stretto import Answer, AnswerStream, AsyncStretto
from stretto.cli.chat.chat_state import ChatState
from stretto.cli.terminal.chat_app import ChatApp
from stretto.display.palette import SCHEMES, Scheme, palette
from stretto.values.events import Event

__all__ = ["main"]

SHOWS = [
    "stretto/cli/terminal/*.py",
    "stretto/cli/output/markdown.py",
    "stretto/cli/output/progress.py",
    "stretto/display/palette.toml",
]
MOST_BYTES = 60_000
FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # which a viewer would load from elsewhere
LOOK_S, DRAWN_S = 0.02, 0.2  # between two looks; for the screen to be drawn
WRITING = 3  # sections that are being written when a picture of the writing is taken


async def main() -> None:
    """One picture while the sections are written, one of the whole answer, one on a narrow terminal."""
    pictures = {"writing": ((112, 30), True), "settled": ((112, 30), False), "narrow": ((40, 30), True)}
    with scripted_server(REPLIES, **PACE) as upstream:
        for name, (size, running) in pictures.items():
            await picture(f"terminal-{name}", size, upstream, running=running)
    made = {f"terminal-{name}-{scheme}.svg": SHOWS for name in pictures for scheme in SCHEMES}
    keep_record("python docs/make_terminal_picture.py", made)


async def picture(name: str, size: tuple[int, int], upstream: str, *, running: bool) -> None:
    """Ask, and take the picture."""
    state = ChatState(
        AsyncStretto,
        model="openai:recorded",
        base_url=upstream,
        api_key="none",
        strategy=STRATEGY,
        preference="fastest",
    )
    state.notices.clear()
    await state.client.ask("Why?", strategy="direct")  # the picture is of the writing, not of imports
    app = ChatApp(state)
    halt = Halt(lambda: running and writing(app) >= WRITING)
    state.client.stream = halt.before(state.client.stream)  # type: ignore[method-assign]
    async with app.run_test(size=size):
        app.asking.post_message(app.asking.Sent(QUESTION))
        await until(lambda: halt.reached or (app.answering.last is not None and not app.busy))
        app.tick()
        await asyncio.sleep(DRAWN_S)
        if running and not halt.reached:
            raise SystemExit(f"{name}: fewer than {WRITING} parts were written at the same time.")
        for scheme in SCHEMES:
            write(f"{name}-{scheme}.svg", FONTS.sub("", exported(app, scheme)))
    await state.client.aclose()


def exported(app: ChatApp, scheme: Scheme) -> str:
    """The screen as a picture, where the terminal's own colours are those of the palette."""
    colours = palette(scheme)
    rgb = {name: parse_rgb_hex(value[1:]) for name, value in vars(colours).items() if name != "voices"}
    blue, code = (parse_rgb_hex(colours.voices[at][1:]) for at in (4, 1))
    ansi = [rgb["raised"], rgb["bad"], rgb["good"], rgb["wait"], blue, rgb["accent"], code, rgb["text"]]
    theme = TerminalTheme(rgb["back"], rgb["text"], ansi, ansi)
    with patch.object(Console, "export_svg", partialmethod(Console.export_svg, theme=theme)):  # Textual passes none on
        return app.export_screenshot(title="stretto chat")


def write(name: str, drawn: str) -> None:
    """Keep a picture, unless it is too large for a page."""
    if len(drawn) > MOST_BYTES:
        raise SystemExit(f"{name} would have {len(drawn):,} bytes, and {MOST_BYTES:,} are the most.")
    (IMAGES / name).write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")
    print(f"{name}: {len(drawn):,} bytes")


class Halt:
    """Stops reading an answer once a condition holds, until the reader leaves."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition
        self.reached = False

    def before(self, stream: Callable[..., Any]) -> Any:
        """The same method of a client, whose answers come to the halt."""

        @asynccontextmanager
        async def halting(*arguments: Any, **options: Any) -> AsyncIterator[_Halting]:
            async with stream(*arguments, **options) as events:
                yield _Halting(events, self)

        return halting


class _Halting(AsyncIterator[Event]):
    def __init__(self, events: AnswerStream, halt: Halt) -> None:
        self._events, self._halt = events, halt

    async def __anext__(self) -> Event:
        if self._halt.condition():
            self._halt.reached = True
            await asyncio.Event().wait()
        return await anext(self._events)

    @property
    def answer(self) -> Answer:
        return self._events.answer


async def until(condition: Callable[[], bool]) -> None:
    """Let the program run until the condition holds. The pilot would wait until the model is idle, too."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - nothing tells of a change
            await asyncio.sleep(LOOK_S)


def writing(app: ChatApp) -> int:
    """How many parts are being written, and have something to show."""
    parts = [card for view in app.query("AnswerView") for card in view.cards.values()]  # type: ignore[attr-defined]
    return sum(card.state in ("writing", "finished") and len(card.text) > 60 for card in parts)


if __name__ == "__main__":
    asyncio.run(main())
