"""The commands of a chat: names, arguments, and those that do not depend on the display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stretto.cli.chat.chat_state import ChatState
from stretto.cli.chat.export import export
from stretto.cli.output.plain import one_line
from stretto.values.errors import InvalidRequestError

COMMANDS = (
    ("strategy NAME", "how to write the next answers: auto, direct, skeleton, ..."),
    ("model NAME", "another model, with the conversation so far"),
    ("preference NAME", "fastest, balanced or careful"),
    ("system TEXT", "instructions for the model; without text, none"),
    ("document PATH", "read a file or folder for every question; - for none"),
    ("schema FILE", "answer with records that fit a JSON schema; - for none"),
    ("retry", "ask the last question again"),
    ("edit [TEXT]", "ask TEXT instead of the last question"),
    ("compare [TEXT]", "ask both in parts and in one piece, with times"),
    ("trace [on|off]", "draw what ran when: of the last answer, or below each"),
    ("export FILE", "write the chat to FILE.md or FILE.json"),
    ("clear", "begin another chat"),
    ("help", "this list"),
    ("quit", "end; Ctrl-D does the same"),
)
_WIDE = max(len(usage) for usage, _ in COMMANDS) + 3
NAMES = (*(usage.partition(" ")[0] for usage, _ in COMMANDS), "exit")

Messages = Sequence[tuple[str, bool]]
"""The messages of a command, and whether each is a warning."""


def help_text() -> str:
    """Return the list of commands, one per line."""
    lines = [f"{'/' + usage:<{_WIDE}}{what}" for usage, what in COMMANDS]
    return "\n".join([*lines, "A line that begins with // is sent with one / less."])


def command_in(line: str) -> tuple[str, str] | None:
    """Return the name of a command and its argument; ``None`` if the line is a question."""
    if not line.startswith("/") or line.startswith("//"):
        return None
    name, _, rest = line[1:].partition(" ")
    if name not in NAMES:
        raise InvalidRequestError(f"There is no command /{one_line(name)}. /help lists them.")
    return name, rest.strip()


def question_in(line: str) -> str:
    """Return the question on a line."""
    return line.removeprefix("/") if line.startswith("//") else line


async def obey(state: ChatState, name: str, rest: str) -> Messages | None:
    """Carry out a command that only changes the state; return ``None`` for any other."""
    messages: Messages | str | None = None
    match name:
        case "strategy":
            messages = state.set_strategy(rest)
        case "preference":
            messages = state.set_preference(rest)
        case "system":
            messages = state.set_system(rest)
        case "model":
            messages = await state.set_model(rest)
        case "document":
            messages = await _document(state, rest)
        case "schema":
            import anyio.to_thread  # noqa: PLC0415 - keeps `stretto --help` light

            messages = await anyio.to_thread.run_sync(state.set_schema, rest)
        case "export" if not rest:
            raise InvalidRequestError("/export takes the name of a file: /export chat.md")
        case "export":
            messages = f"The chat is in {export(state.turns, Path(rest))}"
        case "clear":
            state.forget()
            messages = "forgotten; a new chat begins"
        case "help":
            messages = help_text()
    return [(messages, False)] if isinstance(messages, str) else messages


async def _document(state: ChatState, rest: str) -> Messages:
    if rest == "-":
        state.remove_documents()
        return [("No document is read any more.", False)]
    if rest:
        import anyio.to_thread  # noqa: PLC0415 - keeps `stretto --help` light

        return await anyio.to_thread.run_sync(state.add_documents, Path(rest))
    named = [(one_line(str(path)), False) for path in state.documents]
    return named or [("No document is read. Name one: /document report.pdf", False)]


def traced(rest: str, *, answered: bool) -> bool | None:
    """Parse the argument of ``/trace``: on, off, or ``None`` for the last answer. Raises `InvalidRequestError`."""
    if rest in ("on", "off"):
        return rest == "on"
    if rest:
        raise InvalidRequestError(f"/trace takes on or off, not {rest!r}.")
    if not answered:
        raise InvalidRequestError("There is no answer to draw yet. Ask something first.")
    return None
