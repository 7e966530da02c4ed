"""Clients that nobody here wrote, in front of the server: LangChain's whole suite, curl, and the pocket model behind it."""

import shutil
import subprocess
import threading
from contextlib import contextmanager

import anyio
import openai
import pytest
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from live_server import QUESTION, serving

from stretto import AsyncStretto, Settings
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.tool_calls import ToolCall


@contextmanager
def in_a_thread(enter):
    """Hold an asynchronous context open in a thread of its own, for clients that are not asynchronous."""
    ready, ended, found = threading.Event(), anyio.Event(), []

    async def hold():
        async with enter() as live:
            found.extend((live, anyio.from_thread, ended))
            loops.append(__import__("asyncio").get_running_loop())
            ready.set()
            await ended.wait()

    loops = []
    thread = threading.Thread(target=lambda: anyio.run(hold))
    thread.start()
    try:
        ready.wait(60)
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join()
