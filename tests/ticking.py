"""uvicorn looks ten times a second whether it is to end, which is most of what a short test of a server would take."""

import asyncio
from types import SimpleNamespace

import uvicorn.server

OFTENER = 20  # times than by itself


async def sleep(seconds):
    await asyncio.sleep(seconds / OFTENER)


def tick_oftener():
    """Let the servers of this process look sooner."""
    uvicorn.server.asyncio = SimpleNamespace(**vars(asyncio) | {"sleep": sleep})
