"""The longest time for which long conversations hold the event loop: ``python benchmarks/loop_gaps.py``.

Asks a scripted server in another process, through each of the real SDKs, with many messages, tools or stop texts, and
measures meanwhile how late a task that wakes up every 2 ms is woken.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

from stretto import AsyncStretto, StrettoError

COUNTS = (1_000, 10_000, 30_000)
MODELS = ("openai:some-model", "anthropic:some-model")
KINDS = ("messages", "parts", "tools", "stop")
EVERY_S = 0.002


def asked(kind: str, count: int) -> tuple[Any, dict[str, Any]]:
    """A prompt and options with so many of one thing."""
    if kind == "messages":
        return [{"role": ("user", "assistant")[turn % 2], "content": f"Turn {turn}."} for turn in range(count + 1)], {}
    if kind == "parts":
        return [{"role": "user", "content": [{"type": "text", "text": f"Part {part}."} for part in range(count)]}], {}
    if kind == "tools":
        empty = {"type": "object", "properties": {"text": {"type": "string"}}}
        tools = [{"type": "function", "function": {"name": f"tool{n}", "parameters": empty}} for n in range(count)]
        return "Why?", {"tools": tools}
    return "Why?", {"stop": [f"stop {n}" for n in range(count)]}


async def longest_gaps_s(stop: asyncio.Event) -> tuple[float, float]:
    """The longest time between two turns of this task: by the clock, beyond what it sleeps, and of this thread's work.

    On a busy machine, other programs lengthen the first, not the second.
    """
    clock = work = 0.0
    before, worked = time.perf_counter(), time.thread_time()
    while not stop.is_set():
        await asyncio.sleep(EVERY_S)
        clock, before = max(clock, time.perf_counter() - before - EVERY_S), time.perf_counter()
        work, worked = max(work, time.thread_time() - worked), time.thread_time()
    return clock, work


async def measured(stretto: AsyncStretto, kind: str, count: int) -> tuple[float, float, float, str]:
    """The longest gaps and the whole time in seconds, and how it ended."""
    prompt, options = asked(kind, count)
    ended = asyncio.Event()
    watching = asyncio.create_task(longest_gaps_s(ended))
    await asyncio.sleep(0)
    began = time.perf_counter()
    try:
        answer = await stretto.ask(prompt, **options)
        end: str = answer.finish_reason
    except StrettoError as error:
        end = f"{type(error).__name__}: {str(error)[:60]}"
    whole_s = time.perf_counter() - began
    ended.set()
    return *await watching, whole_s, end


async def main(url: str) -> None:
    """Print a table."""
    print(f"{'model':22}{'what':10}{'count':>8}{'longest gap':>14}{'of it work':>14}{'whole':>10}")
    for model in MODELS:
        base_url = f"{url}/v1" if model.startswith("openai") else url
        async with AsyncStretto(model, base_url=base_url, api_key="any") as stretto:
            await stretto.ask("Ready?")
            for kind in KINDS:
                await measured(stretto, kind, 100)  # imports and compiles what the first of a kind needs
                for count in COUNTS:
                    gap_s, work_s, whole_s, end = await measured(stretto, kind, count)
                    times = f"{1000 * gap_s:11.0f} ms{1000 * work_s:11.0f} ms{whole_s:8.2f} s"
                    print(f"{model:22}{kind:10}{count:8,}{times}  {end}", flush=True)


if __name__ == "__main__":
    with subprocess.Popen([sys.executable, "-m", "stretto.testing"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            asyncio.run(main(server.stdout.readline().split()[-1].removesuffix("/v1")))
        finally:
            server.terminate()
