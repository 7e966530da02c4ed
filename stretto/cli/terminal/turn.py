"""One turn: asks, shows the answer while it is written, and saves it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.widget import Widget

from stretto.cli.output.live import log
from stretto.cli.output.plain import in_options, one_line
from stretto.cli.output.progress import Progress
from stretto.cli.output.screen import FRAMES
from stretto.cli.terminal.answer_view import AnswerView
from stretto.cli.terminal.talk import Talk
from stretto.display.palette import TERMINAL
from stretto.values.answer import Answer
from stretto.values.errors import InvalidRequestError, StrettoError

if TYPE_CHECKING:
    from stretto.cli.chat.chat_state import ChatState


class Answering:
    """Writes one answer at a time into the conversation.

    Attributes:
        trace: whether to draw a timeline below each answer.
        last: the last complete answer.
    """

    def __init__(self, state: ChatState, talk: Talk, *, trace: bool) -> None:
        self.trace = trace
        self.last: Answer | None = None
        self._state = state
        self._talk = talk
        self._view: AnswerView | None = None
        self._keeps = True
        self._progress: Progress | None = None
        self._doing = ""
        self._began_s = 0.0
        self._frame = 0

    @property
    def _schema(self) -> Mapping[str, Any] | None:
        return self._state.request.get("response_format")

    def redraw(self) -> None:
        """Show what arrived of the answer since the last call."""
        if self._view is not None:
            self._view.redraw()

    def phrase(self) -> str:
        """Return the progress in a few words."""
        self._frame += 1
        doing = self._doing or (self._progress.phrase() if self._progress else "a moment")
        return f"{FRAMES[self._frame % len(FRAMES)]} {doing}"

    async def ask(self, question: str, *, instead: bool = False) -> None:
        """Answer a question, as the next one or ``instead`` of the last one."""
        self._state.ask(question, instead=instead)
        view = AnswerView(schema=self._schema)
        await self._talk.begin(question, view, instead=instead)
        await self._kept(view)

    async def compare(self, rest: str) -> None:
        """Answer with the chosen strategy and again in one piece, side by side, and show which was faster."""
        from stretto.cli.output.side_by_side import loaded, table  # noqa: PLC0415 - only here

        question = rest or self._state.last().question
        self._state.ask(question, instead=not rest)
        side_by_side = SideBySide(self._schema)
        await self._talk.begin(question, side_by_side, instead=not rest)
        self._view, self._keeps, self._began_s = side_by_side.chosen, True, time.monotonic()
        try:
            await loaded(self._state.client, question, self._wait)
        finally:
            self._doing = ""
        self._state.fresh = False
        answer = await self._kept(side_by_side.chosen)
        if answer is None:
            return
        if (answer.strategy or answer.route.strategy) == "direct":
            side_by_side.direct.remove()
            raise InvalidRequestError(
                "There is nothing to compare: the answer was written in one piece. "
                "Choose another way: /strategy skeleton"
            )
        direct = await self._write(side_by_side.direct, self._state.request | {"strategy": "direct"}, keeps=False)
        if direct is not None:
            self._talk.note(table(answer, direct))

    async def _wait(self, work: Coroutine[Any, Any, Any], doing: str) -> None:
        self._doing = doing
        await work

    def stop(self) -> None:
        """Stop the current answer; its text so far is saved."""
        if self._view is not None and self._view.running:
            ending = f"Stopped after {time.monotonic() - self._began_s:.1f} s."
            self._view.stop(ending)
            if self._keeps:
                self._state.stopped(self._view.text, ending)
                self._warn(self._state.unkept)

    async def _kept(self, view: AnswerView) -> Answer | None:
        """Write an answer that becomes part of the conversation."""
        self._warn(self._state.unkept)
        answer = await self._write(view, self._state.request, keeps=True)
        if answer is not None:
            self.last = answer
            self._state.answered(answer)
            self._warn(self._state.unkept)
            self._warn(log(self._state.prompt(), answer))
        return answer

    async def _write(self, view: AnswerView, request: Mapping[str, Any], *, keeps: bool) -> Answer | None:
        """Write one answer into its view; return ``None`` if it failed, which the view shows."""
        state = self._state
        loads = state.fresh and state.name.startswith("local:")
        self._progress = Progress(state.name, time.monotonic, loads=loads)
        self._view, self._keeps, self._began_s = view, keeps, time.monotonic()
        try:
            async with state.client.stream(state.prompt(), **request) as events:
                async for event in events:
                    if view.running:
                        self._progress.see(event)
                        view.see(event)
        except asyncio.CancelledError:
            self.stop()
            raise
        except StrettoError as error:
            message = in_options(str(error))
            view.fail(message)
            if keeps:
                state.stopped(view.text, one_line(f"It failed: {message}"))
            return None
        view.finish(events.answer, trace=self.trace)
        return events.answer

    def _warn(self, problem: str) -> None:
        if problem:
            self._talk.note(f"warning: {one_line(problem)}", TERMINAL.wait)


class SideBySide(Widget):
    """An answer in parts next to one written in one piece."""

    DEFAULT_CSS = """
    SideBySide { layout: horizontal; height: auto; width: 1fr; }
    SideBySide AnswerView { margin: 0 2 1 0; }
    """

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.chosen = AnswerView("In the chosen way", schema)
        self.direct = AnswerView("In one piece", schema)

    def compose(self) -> ComposeResult:
        """Yield both answers, the chosen strategy first."""
        yield self.chosen
        yield self.direct
