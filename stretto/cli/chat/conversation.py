"""A line-by-line chat: each typed or piped line is answered below it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stretto.cli.chat.chat_commands import command_in, obey, question_in, traced
from stretto.cli.output.live import answer_live, conclude, text_on
from stretto.cli.output.plain import one_line, plain, record_in
from stretto.cli.output.trace import render_timeline
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from stretto.cli.chat.chat_state import ChatState
    from stretto.cli.output.screen import Screen
    from stretto.values.answer import Answer

KEYS = "Ctrl-C cancels an answer."


class Ended(Exception):  # noqa: N818 - not an error: the user wants to leave
    """The user ends the conversation."""


class Conversation:
    """Handles lines: commands begin with a slash, everything else is a question."""

    def __init__(self, state: ChatState, screen: Screen, *, trace: bool = False) -> None:
        self.state = state
        self._screen = screen
        self._trace = trace
        self._last: Answer | None = None
        for notice, warns in state.notices:
            screen.note(notice, "yellow" if warns else "dim")
        screen.note(f"{one_line(state.name)} · /help lists the commands, Ctrl-D ends")

    async def aclose(self) -> None:
        """Close the client."""
        await self.state.client.aclose()

    async def take(self, line: str) -> None:
        """Carry out a command or answer a question. Raises `StrettoError`, and `Ended` when the user leaves."""
        self._screen.begin()
        text = line.strip()
        if not text:
            return
        command = command_in(text)
        if command is None:
            await self._ask(question_in(text))
        else:
            await self._obey(*command)

    async def _obey(self, name: str, rest: str) -> None:
        match name:
            case "quit" | "exit":
                raise Ended
            case "retry":
                await self._ask(self.state.last().question, instead=True)
            case "edit":
                self.state.last()
                if not rest:
                    raise InvalidRequestError("/edit takes the question to ask instead of the last one.")
                await self._ask(rest, instead=True)
            case "compare":
                await self._compare(rest)
            case "trace":
                wanted = traced(rest, answered=self._last is not None)
                if wanted is not None:
                    self._trace = wanted
                    self._say(f"trace: {rest}")
                elif self._last is not None:
                    self._draw(self._last)
            case _:
                for message, warns in await obey(self.state, name, rest) or ():
                    self._say(message, "yellow" if warns else "")
                if name == "help":
                    self._say(KEYS)

    async def _ask(self, question: str, *, instead: bool = False) -> Answer:
        self.state.ask(question, instead=instead)
        self._warn_unkept()
        prompt, request = self.state.prompt(), self.state.request
        show = None
        if self.state.schema:  # a record is printed when it is complete
            show = text_on(self._screen, explain=self.state.strategy == "auto", silent=True)
        try:
            answer = await answer_live(self.state.client, prompt, self._screen, show, first=self.state.fresh, **request)
        except asyncio.CancelledError:
            self.state.stopped("", "cancelled")
            raise
        if self.state.schema:
            self._screen.write((record_in(answer.text) or answer.text) + "\n")
        self._last = answer
        self.state.answered(answer)
        conclude(answer, self._screen)
        self._warn_unkept()
        if self._trace:
            self._draw(answer)
        return answer

    async def _compare(self, rest: str) -> None:
        """Answer with the chosen strategy and again in one piece, and print which was faster."""
        from stretto.cli.output.side_by_side import direct_answer, make_ready, table  # noqa: PLC0415 - only here

        question = rest or self.state.last().question
        await make_ready(self.state.client, question, self._screen)
        self.state.fresh = False
        answer = await self._ask(question, instead=not rest)
        direct = await direct_answer(self.state.client, self.state.prompt(), self._screen, answer, self.state.request)
        if direct:
            self._screen.show("", *table(answer, *direct))

    def _warn_unkept(self) -> None:
        if self.state.unkept:
            self._screen.warn(self.state.unkept)

    def _say(self, text: str, style: str = "") -> None:
        from rich.text import Text  # noqa: PLC0415 - most of rich's import time

        self._screen.show(Text(plain(text), style))

    def _draw(self, answer: Answer) -> None:
        self._screen.show("", *render_timeline(answer, self._screen.width, blocks=self._screen.encodes_blocks))
