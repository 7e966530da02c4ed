"""The state of a chat: its client, its history, and the commands that change them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.cli.live import answer_live, conclude, introduce
from stretto.cli.options import Preference
from stretto.cli.plain import one_line
from stretto.cli.progress import counted
from stretto.cli.timeline import render_timeline
from stretto.errors import InvalidRequestError
from stretto.messages import Message, documents_of
from stretto.strategies.answering import check_strategy

if TYPE_CHECKING:
    from stretto.answer import Answer
    from stretto.cli.opening import Opener
    from stretto.cli.screen import Screen
    from stretto.client import AsyncStretto

HELP = """\
/strategy NAME     how to write the next answers: auto, direct, skeleton, ...
/model NAME        another model, with the conversation so far
/preference NAME   fastest, balanced or careful
/system TEXT       instructions for the model; without text, none
/trace [on|off]    draw what ran when: of the last answer, or below each
/clear             forget the conversation
/help              this list
/quit              end; Ctrl-D does the same
Ctrl-C cancels an answer. A line that begins with // is sent with one / less."""


class Ended(Exception):  # noqa: N818 - no error: the user wants to leave
    """The user ends the conversation."""


class Conversation:
    """Takes lines: commands begin with a slash, everything else is asked.

    The history holds questions and whole merged answers; what was cancelled or failed leaves no trace in it.
    """

    def __init__(
        self,
        open_client: Opener,
        screen: Screen,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        strategy: str | None = None,
        preference: str | None = None,
        system: str | None = None,
        documents: Sequence[Path] = (),
        decoding: str | None = None,
        on_missing: str | None = None,
        trace: bool = False,
    ) -> None:
        self._open = open_client
        self._screen = screen
        self._server = {"base_url": base_url, "api_key": api_key}
        self.client: AsyncStretto = open_client(model, **self._server)
        self._provider = self.client.backends["main"].name.partition(":")[0]
        self._fresh = True
        self.history: list[Message] = []
        self.system = system
        self.trace = trace
        self.last: Answer | None = None
        read, left_out = documents_of(documents)  # once: every question is about the same texts
        self._request: dict[str, Any] = {
            "strategy": strategy,
            "documents": read or None,
            "preference": preference,
            "decoding": decoding,
            "on_missing": on_missing,
        }
        if strategy:
            check_strategy(strategy)
        introduce(self.client, screen, named=model is not None)
        for note in left_out:
            screen.warn(note)
        if read:
            size = sum(len(document.text) for document in read)
            verb = "is" if len(read) == 1 else "are"
            screen.note(f"{counted(len(read), 'document')} of {size:,} characters {verb} read for every question")
        screen.note(f"{one_line(self.client.backends['main'].name)} · /help lists the commands, Ctrl-D ends")

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()

    async def take(self, line: str) -> None:
        """Obey a command or answer a question. Raises `StrettoError`, and `Ended` when the user leaves."""
        self._screen.begin()
        text = line.strip()
        if not text:
            return
        if text.startswith("/") and not text.startswith("//"):
            name, _, rest = text[1:].partition(" ")
            command = self._commands.get(name)
            if command is None:
                raise InvalidRequestError(f"There is no command /{name}. /help lists them.")
            done = command(rest.strip())
            if inspect.isawaitable(done):
                await done
            return
        await self._ask(text.removeprefix("/") if text.startswith("//") else text)

    async def _ask(self, question: str) -> None:
        asked = Message(role="user", content=question)
        system = (Message(role="system", content=self.system),) if self.system else ()
        request = {name: value for name, value in self._request.items() if value is not None}
        prompt = (*system, *self.history, asked)
        answer = await answer_live(self.client, prompt, self._screen, first=self._fresh, **request)
        self._fresh = False
        self.last = answer
        self.history += [asked, Message(role="assistant", content=answer.text)]
        conclude(answer, self._screen)
        if self.trace:
            self._draw(answer)

    @property
    def _commands(self) -> dict[str, Callable[[str], Any]]:
        return {
            "strategy": self._set_strategy,
            "model": self._set_model,
            "preference": self._set_preference,
            "system": self._set_system,
            "trace": self._set_trace,
            "clear": self._clear,
            "help": lambda _: self._say(HELP),
            "quit": self._quit,
            "exit": self._quit,
        }

    def _say(self, text: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - most of what rich costs

        self._screen.show(Text(text))

    def _set_strategy(self, name: str) -> None:
        if name:
            check_strategy(name)
            self._request["strategy"] = name
        self._say(f"strategy: {self._request['strategy'] or 'auto'}")

    async def _set_model(self, name: str) -> None:
        if name:
            client = self._open(name, **(self._server if name.partition(":")[0] == self._provider else {}))
            former, self.client, self._fresh = self.client, client, True
            await former.aclose()
            introduce(client, self._screen, named=True)
        self._say(f"model: {one_line(self.client.backends['main'].name)}")

    def _set_preference(self, name: str) -> None:
        if name and name not in list(Preference):
            raise InvalidRequestError(f"There is no preference {name!r}. Choose one of: {', '.join(Preference)}.")
        if name:
            self._request["preference"] = name
        self._say(f"preference: {self._request['preference'] or self.client.settings.preference}")

    def _set_system(self, text: str) -> None:
        self.system = text or None
        self._say("system: " + (one_line(text) if text else "none"))

    def _set_trace(self, wanted: str) -> None:
        if wanted in ("on", "off"):
            self.trace = wanted == "on"
            self._say(f"trace: {wanted}")
        elif wanted:
            raise InvalidRequestError(f"/trace takes on or off, not {wanted!r}.")
        elif self.last is None:
            raise InvalidRequestError("There is no answer to draw yet. Ask something first.")
        else:
            self._draw(self.last)

    def _draw(self, answer: Answer) -> None:
        self._screen.show("", *render_timeline(answer, self._screen.width, blocks=self._screen.encodes_blocks))

    def _clear(self, _: str) -> None:
        self.history.clear()
        self._say("forgotten")

    def _quit(self, _: str) -> None:
        raise Ended
