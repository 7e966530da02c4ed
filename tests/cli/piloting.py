"""The chat in a terminal that nobody sees, driven by Textual's own pilot: type, wait for a state, look."""

from contextlib import asynccontextmanager
from functools import partial

import anyio
from patience import patience
from scripted import opening

from stretto.backends.providers.learned import learned
from stretto.cli.chat.chat_state import ChatState
from stretto.cli.terminal.answer_view import AnswerView
from stretto.cli.terminal.chat_app import ChatApp
from stretto.cli.terminal.lines import Words, Written
from stretto.client.async_client import AsyncStretto
from stretto.testing import Reply

POINTS = "1. Tea\n2. Milk\n3. Sugar\n4. Lemon\n"


class Driven:
    """The application and its pilot."""

    def __init__(self, app, pilot):
        self.app, self.pilot, self.state = app, pilot, app.state

    async def until(self, condition):
        """Let the application run until the condition holds."""
        with anyio.fail_after(patience(100)):
            while not condition():
                await self.pilot.pause()

    async def send(self, text):
        """Put a text where questions are typed, and press Enter."""
        self.app.asking.put(text)
        await self.pilot.press("enter")

    async def ask(self, text):
        """Send a text, and wait for all that it leads to."""
        await self.send(text)
        await self.done()

    async def done(self):
        await self.until(lambda: not self.app.busy)
        await self.pilot.pause()

    async def tick(self):
        """Let the screen show what came."""
        self.app.tick()
        await self.pilot.pause()

    @property
    def views(self):
        return list(self.app.query(AnswerView))

    @property
    def view(self):
        return self.views[-1]

    @property
    def whole_text(self):
        """All text of the conversation."""
        return "\n".join(
            part.plain_text if isinstance(part, Words) else part.text
            for part in self.app.talk.query("Words, Written")
            if isinstance(part, Words | Written)
        )

    @property
    def strips(self):
        """The rows of the screen, as they would be sent to a terminal."""
        return self.app.screen._compositor.render_strips()

    @property
    def screen(self):
        return "\n".join(strip.text for strip in self.strips)


@asynccontextmanager
async def chatting(opener, *, size=(100, 32), trace=False, **options):
    """A chat with what ``opener`` opens; ``options`` are those of `ChatState`."""
    state = ChatState(opener, **options)
    app = ChatApp(state, trace=trace)
    try:
        async with app.run_test(size=size) as pilot:
            yield Driven(app, pilot)
    finally:
        await state.client.aclose()


def over(server, **options):
    address = {"base_url": server.openai_url, "api_key": "none"}
    learned("openai", server.openai_url, "scripted").bare_thoughts = False  # or its first text is held back
    by_points = partial(AsyncStretto, prompt_family="pocket")
    return chatting(by_points, **{"model": "openai:scripted", **address, "strategy": "skeleton", **options})


def held(**replies):
    """A model whose points wait until they are let go, and what lets them."""
    let_go = anyio.Event()
    waiting = Reply("Words of **the** point.", hold=let_go)
    script = {"Outline the answer": POINTS, **replies, "": waiting}
    return opening(script, prompt_family="pocket"), let_go
