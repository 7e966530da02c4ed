"""The application: the conversation, the question below it, and a status line."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import typer
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from stretto.cli.chat.chat_commands import command_in, obey, question_in, traced
from stretto.cli.chat.chat_state import ChatState
from stretto.cli.exits import PATIENCE_S, Exit, leaving_within
from stretto.cli.output.plain import in_options, one_line
from stretto.cli.terminal.answer_view import timeline_of
from stretto.cli.terminal.asking import Asking
from stretto.cli.terminal.lines import Foot, words
from stretto.cli.terminal.talk import Talk
from stretto.cli.terminal.turn import Answering
from stretto.cli.terminal.ways import name_of
from stretto.display.palette import TERMINAL
from stretto.values.errors import StrettoError

if TYPE_CHECKING:
    from stretto.cli.chat.chat_state import ChatState


FRAME_S = 1 / 15
KEYS = """\
Enter sends; Ctrl-J, Shift-Enter, or a \\ before Enter begins another line; Up edits the last question
Ctrl-C or Escape stops the answer; Page Up and Page Down scroll; Ctrl-D ends
Text that is selected with the mouse is copied with Ctrl-C; with --no-mouse, the terminal's own way"""
IDLE = "Enter sends · Ctrl-J new line · /help · Ctrl-D ends"
MIDDLE_IDLE = "Enter sends · /help · Ctrl-D ends"
SHORT_IDLE = "/help · Ctrl-D ends"
EDITING = "Enter sends it instead of the last question · Escape leaves it"
SHORT_EDITING = "Enter sends it · Escape leaves it"
STOPS = " · Ctrl-C stops"
WAITS = "Enter sends your question when this answer is complete"


class ChatApp(App[None]):
    """The full-screen chat of a ``state``; ``trace``: draw a timeline below each answer."""

    CSS = """
    Screen { layout: vertical; }
    .-narrow SideBySide { layout: vertical; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("escape", "stop", priority=True, show=False),
        Binding("ctrl+z", "suspend_process", priority=True, show=False),
        Binding("pageup", "page(-1)", priority=True, show=False),
        Binding("pagedown", "page(1)", priority=True, show=False),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-wide")]  # noqa: RUF012 - as Textual declares it
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, state: ChatState, *, trace: bool = False) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the terminal's own colours, light or dark
        self.state = state
        self.talk = Talk()
        self.asking = Asking()
        self.answering = Answering(state, self.talk, trace=trace)
        self._foot = Foot()
        self._hint = ""
        self._work: Worker[None] | None = None
        self._editing = False

    def compose(self) -> ComposeResult:
        """Yield the conversation, the question, and the status line."""
        yield self.talk
        yield self.asking
        yield self._foot

    @property
    def busy(self) -> bool:
        """Whether an answer is being written, or a command carried out."""
        return self._work is not None and not self._work.is_finished

    @property
    def foot(self) -> str:
        """The text of the status line."""
        return self._foot.plain_text

    async def on_mount(self) -> None:
        """Show the existing turns; put a last question without an answer into the input field."""
        asyncio.get_running_loop().set_task_factory(None)  # Textual's starts tasks eagerly, which answers do not expect
        self.talk.anchor()
        if not self.state.turns:
            self.talk.note([*opening(self.state.name)])
        for notice, warns in self.state.notices:
            self.talk.note(in_options(notice), TERMINAL.wait if warns else "dim")
        turns, chat = self.state.turns, self.state.chat
        self.answering.last = await self.talk.show(turns, chat.id if chat else "", trace=self.answering.trace)
        if turns and not turns[-1].text:
            self._edit(turns[-1].question)
        self.asking.focus()
        self.set_interval(FRAME_S, self.tick)
        self.tick()

    def tick(self) -> None:
        """Show what came since the last time."""
        self.answering.redraw()
        line = self._status_line(max(1, self.size.width - 2))
        if line != self.foot:
            self._foot.say(words(line, TERMINAL.accent if self.busy else "dim"))

    def _status_line(self, width: int) -> str:
        """Return the status and the useful keys within ``width`` cells; the keys come first on a narrow terminal."""
        if self.busy:
            hints = (WAITS + STOPS, WAITS) if self._hint == WAITS else ()
            if fitting := next((line for line in hints if cell_len(line) <= width), None):
                return fitting
            doing = self.answering.phrase()
            shorter = (doing, doing.rpartition(" · ")[0], doing.partition(",")[0])
            cut = set_cell_size(doing, max(0, width - len(STOPS)))
            return next((line for line in shorter if line and cell_len(line + STOPS) <= width), cut) + STOPS
        if self._hint:
            return SHORT_EDITING if self._hint == EDITING and width < len(EDITING) else self._hint
        about = f"{one_line(self.state.name)} · {name_of(self.state.strategy)}"
        every = (*(f"{about} · {keys}" for keys in (IDLE, MIDDLE_IDLE, SHORT_IDLE)), SHORT_IDLE)
        return next((line for line in every if cell_len(line) <= width), SHORT_IDLE)

    @on(Asking.Sent)
    def sent(self, message: Asking.Sent) -> None:
        """Carry out a command or answer a question, one at a time."""
        text = message.text.strip()
        self._hint = ""
        if not text:
            return
        if self.busy:
            self._hint = WAITS  # the question stays in the field
            return
        try:
            command = command_in(text)
        except StrettoError as error:
            self.talk.problem(error)
            return
        instead = self._editing and command is None
        self._edit(None)
        self.talk.anchor()
        if command is None:
            self._begin(partial(self.answering.ask, question_in(text), instead=instead))
        else:
            self.talk.note(f"/{command[0]} {command[1]}".rstrip(), "dim")
            self._begin(partial(self._obey, *command))

    @on(Asking.EditLast)
    def edit_last(self) -> None:
        """Edit the last question after Up was pressed."""
        if self.state.turns and not self.busy:
            self._edit(self.state.turns[-1].question)

    def _edit(self, question: str | None) -> None:
        """Edit a question to replace the last one; ``None``: begin an empty one."""
        self._editing = question is not None
        self.asking.set_class(self._editing, "-editing")
        self.asking.put(question or "")
        self._hint = EDITING if self._editing else ""

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = self.run_worker(partial(self._guarded, work))

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StrettoError as error:
            self.talk.problem(in_options(str(error)))
        finally:
            self._hint = "" if self._hint == WAITS else self._hint

    async def _obey(self, name: str, rest: str) -> None:
        match name:
            case "quit" | "exit":
                self.leave()
            case "retry":
                await self.answering.ask(self.state.last().question, instead=True)
            case "edit" if rest:
                self.state.last()
                await self.answering.ask(rest, instead=True)
            case "edit":
                self._edit(self.state.last().question)
            case "compare":
                await self.answering.compare(rest)
            case "trace":
                self._trace(rest)
            case "clear":
                await obey(self.state, name, rest)
                self.answering.last = None
                self.talk.empty()
                self.talk.note("A new chat begins.", "dim")
            case _:
                for message, warns in await obey(self.state, name, rest) or ():
                    self.talk.note(in_options(message), TERMINAL.wait if warns else "")
                if name == "help":
                    self.talk.note(KEYS)

    def _trace(self, rest: str) -> None:
        last = self.answering.last
        wanted = traced(rest, answered=last is not None)
        if wanted is not None:
            self.answering.trace = wanted
            self.talk.note(f"trace: {rest}")
        elif last is not None:
            self.talk.note(timeline_of(last, self.size.width - 4))

    def action_interrupt(self) -> None:
        """Handle Ctrl-C: stop the answer, else copy the selection, else clear the input."""
        if self.busy:
            self._stop()
        elif selected := self.screen.get_selected_text() or self.asking.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self._hint = "copied"
        elif self.asking.text:
            self._edit(None)
        else:
            self._hint = "Ctrl-D ends the chat"

    def action_stop(self) -> None:
        """Handle Escape: stop the answer, or cancel editing."""
        if self.busy:
            self._stop()
        elif self._editing:
            self._edit(None)

    def _stop(self) -> None:
        self.answering.stop()
        if self._work is not None:
            self._work.cancel()

    def action_page(self, pages: int) -> None:
        """Scroll the conversation."""
        if pages < 0:
            self.talk.scroll_page_up(animate=False)
        else:
            self.talk.scroll_page_down(animate=False)

    @on(Asking.Leave)
    async def action_quit(self) -> None:
        self.leave()

    def leave(self, code: int = 0) -> None:
        """Leave on a request from outside; a partial answer is saved."""
        self._stop()
        self.exit(return_code=code)

    def on_click(self, _: events.Click) -> None:
        """Keep the focus on the input field wherever the user clicks."""
        self.asking.focus()


# The web chat offers the same (server/web/page/examples.js).
OF_ANY = (
    "How do I look after a bicycle?",
    "What makes a city pleasant to live in?",
    "How should I prepare for a job interview?",
)
EXAMPLES = {
    "local:pocket": (
        "How do I look after a bicycle?",
        "How do I prepare for a job interview?",
        "What helps against a damp house?",
    )
}
_BARS = ((0, 9), (2, 12), (4, 10))  # where each bar begins, and its length


def opening(model: str) -> Iterator[Text]:
    """Yield the lines of the opening screen for a model."""
    texts = (Text(""), Text("Stretto", "bold"), Text("Answers that are written in several places at once", "dim"))
    for (begins, long), text in zip(_BARS, texts, strict=True):
        yield Text.assemble((" " * begins + "━" * long).ljust(18), text, style=TERMINAL.accent, end="")
    yield words("")
    yield Text.assemble((one_line(model), "bold"), (" answers. Ask something, for instance:", "dim"), end="")
    first, *others = EXAMPLES.get(model, OF_ANY)
    yield from (words(f"  {question}") for question in (first, *others))
    yield Text.assemble((f"  /compare {first}", ""), ("   both ways, side by side", "dim"), end="")


def run_chat(state: ChatState, *, trace: bool, mouse: bool) -> int:
    """Run the chat until the user leaves, and close the client. Return the exit code."""
    app = ChatApp(state, trace=trace)
    with ExitStack() as leaving, asyncio.Runner() as runner:
        try:
            runner.run(_run(app, mouse=mouse))
        finally:
            leaving.enter_context(leaving_within(PATIENCE_S, Exit(app.return_code or 0)))
            if state.chat is not None and state.chat.exists:
                typer.echo(f"Continue this chat: stretto chat --resume {state.chat.id}", err=True)
            runner.run(state.client.aclose())
    return app.return_code or 0


async def _run(app: ChatApp, *, mouse: bool) -> None:
    loop = asyncio.get_running_loop()
    handlers = {
        "SIGINT": app.action_interrupt,
        "SIGTERM": lambda: app.leave(Exit.FAILED),
        "SIGHUP": lambda: app.leave(Exit.FAILED),
    }
    for name, handler in handlers.items():
        try:
            loop.add_signal_handler(getattr(signal, name), handler)
        except (AttributeError, NotImplementedError):  # Windows
            continue
    await app.run_async(mouse=mouse)
