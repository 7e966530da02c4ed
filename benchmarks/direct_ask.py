"""What one direct ask of ten words passes through, warm and over HTTP: ``python benchmarks/direct_ask.py [--most 30]``.

Functions, files and calls of this library as `sys.setprofile` sees them, without those of the scripted server, and the
tasks that are started. ``--most``: shows the functions that are called most often.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import stretto
from stretto.testing.protocols import HttpReply
from stretto.testing.server import ScriptedServer

ROOT = Path(stretto.__file__).parent
WORDS = "one two three four five six seven eight nine ten"


async def counted() -> tuple[Counter[CodeType], int]:
    """Calls by function, and the tasks of the third of three asks."""
    calls, tasks = Counter[CodeType](), 0
    ours, server = f"{ROOT}/", f"{ROOT}/testing/"

    def called(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(ours) and not file.startswith(server):
            calls[frame.f_code] += 1

    def started(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        nonlocal tasks
        tasks += 1
        return asyncio.Task(coroutine, loop=loop, **more)

    async with (
        ScriptedServer(HttpReply(WORDS)) as server_,
        stretto.AsyncStretto("openai:some-model", base_url=server_.openai_url, api_key="none") as client,
    ):
        for _ in range(2):
            await client.ask("Say ten words.", strategy="direct")
        asyncio.get_running_loop().set_task_factory(started)
        sys.setprofile(called)
        await client.ask("Say ten words.", strategy="direct")
        sys.setprofile(None)
        asyncio.get_running_loop().set_task_factory(None)
    return calls, tasks


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=0)
    most = parser.parse_args().most
    calls, tasks = asyncio.run(counted())
    files = {code.co_filename for code in calls}
    print(f"{len(calls)} functions in {len(files)} files, {calls.total()} calls, {tasks} tasks")
    for code, count in calls.most_common(most):
        print(f"{count:5} {Path(code.co_filename).relative_to(ROOT)} {code.co_qualname}")


if __name__ == "__main__":
    main()
