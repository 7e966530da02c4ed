"""Clients whose model follows a script, for the commands under test; run as a program, the program with such a client.

``python scripted.py SCRIPT ARGUMENTS...``: SCRIPT is JSON, patterns to texts or to the fields of a `Reply`.
"""

import json
import os
import signal
import sys

import anyio

from stretto.backends.base import Capabilities
from stretto.cli.app import run
from stretto.client.async_client import AsyncStretto
from stretto.testing import Reply, ScriptedBackend

OUTLINE = "Write only the outline|outline of"


class Owning(AsyncStretto):
    """Closes its model, as a client does that was given a name."""

    async def aclose(self):
        await super().aclose()
        await self.backends["main"].aclose()


class Stubborn(AsyncStretto):
    """Does not close, like one whose model is in the middle of being loaded."""

    async def aclose(self):
        await anyio.sleep_forever()


def opening(script, *, name="scripted:model", opened=None, **capabilities):
    """What a command takes instead of `AsyncStretto`; ``opened`` collects the backends it made."""

    def scripted(model):
        backend = ScriptedBackend(script, name=model or name, capabilities=Capabilities(**capabilities))
        if opened is not None:
            opened.append(backend)
        return backend

    def open_client(model=None, *, base_url=None, api_key=None, roles=None, fallback=None):
        others = {role: scripted(each) for role, each in (roles or {}).items()}
        kind = Stubborn if os.environ.get("STUBBORN") else Owning
        return kind(scripted(model), roles=others, fallback=fallback)

    return open_client


def replies(fields):
    return {pattern: reply if isinstance(reply, str) else Reply(**reply) for pattern, reply in fields.items()}


if __name__ == "__main__":
    # Whoever runs the tests in the background has them ignore Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["genai_prices"] = None  # nothing of a script has a price, and its table takes a third of a second
    script = sys.argv.pop(1)
    run(opening(replies(json.loads(script))))
