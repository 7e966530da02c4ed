"""The longest time for which long requests hold the event loop: ``python benchmarks/loop_gaps.py``.

Two tables. The SDK: each of the real SDKs asks a scripted server in another process with many messages, parts, tools or
stop texts, while a task that wakes up every 2 ms measures how late it is woken. The server: ``stretto serve`` in a
process of its own is sent such bodies by each of its APIs, and is asked for /health all the time.

A full garbage collection of Python holds every thread. Its time is that of all objects in the process, so the first
table shows the longest collection as well, and ``stretto serve`` takes what it has imported out of them (`gc.freeze`).
``--freeze`` does the same in this process, as a program may that embeds the library.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import httpx
from server import stretto_server

from stretto import AsyncStretto, StrettoError

COUNTS = (1_000, 10_000, 30_000)
MODELS = ("openai:some-model", "anthropic:some-model")
KINDS = ("messages", "parts", "tools", "stop")
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
EVERY_S = 0.002
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
HEADER = f"{'asked':22}{'what':10}{'count':>8}"


def asked(kind: str, count: int) -> tuple[Any, dict[str, Any]]:
    """A prompt and options with so many of one thing."""
    if kind == "messages":
        return [{"role": ("user", "assistant")[turn % 2], "content": f"Turn {turn}."} for turn in range(count + 1)], {}
    if kind == "parts":
        return [{"role": "user", "content": [{"type": "text", "text": f"Part {part}."} for part in range(count)]}], {}
    if kind == "tools":
        tools = [{"type": "function", "function": {"name": f"tool{n}", "parameters": SCHEMA}} for n in range(count)]
        return "Why?", {"tools": tools}
    return "Why?", {"stop": [f"stop {n}" for n in range(count)]}


def body_of(path: str, kind: str, count: int) -> Mapping[str, Any] | None:
    """The same as a body of one of the server's APIs; ``None`` where that API has no such field."""
    prompt, options = asked(kind, count)
    turns = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    body: dict[str, Any] = {"model": "stretto", "max_tokens": 100}
    match path, kind:
        case "/v1/responses", "stop":
            return None
        case "/v1/responses", _:
            written = "input_text" if kind == "parts" else ""
            items = [
                turn if not written else {**turn, "content": [{**part, "type": written} for part in turn["content"]]}
                for turn in turns
            ]
            tools = [{"type": "function", **tool["function"]} for tool in options.get("tools", ())]
            return {"model": "stretto", "input": items} | ({"tools": tools} if tools else {})
        case "/v1/messages", "stop":
            return {**body, "messages": turns, "stop_sequences": options["stop"]}
        case "/v1/messages", "tools":
            tools = [{"name": tool["function"]["name"], "input_schema": SCHEMA} for tool in options["tools"]]
            return {**body, "messages": turns, "tools": tools}
    return {**body, "messages": turns, **options}


class Collections:
    """The longest garbage collection."""

    longest_s = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:  # noqa: ARG002 - as the collector calls it
        """Note the beginning or the end of one."""
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.longest_s = max(self.longest_s, time.perf_counter() - self._began)


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


async def measured(stretto: AsyncStretto, kind: str, count: int) -> tuple[str, str]:
    """The longest gaps, the longest collection and the whole time, and how it ended."""
    prompt, options = asked(kind, count)
    ended = asyncio.Event()
    watching = asyncio.create_task(longest_gaps_s(ended))
    collections = Collections()
    await asyncio.sleep(0)
    gc.callbacks.append(collections)
    began = time.perf_counter()
    try:
        answer = await stretto.ask(prompt, **options)
        end: str = answer.finish_reason
    except StrettoError as error:
        end = f"{type(error).__name__}: {str(error)[:60]}"
    whole_s = time.perf_counter() - began
    gc.callbacks.remove(collections)
    ended.set()
    clock_s, work_s = await watching
    return f"{ms(clock_s)}{ms(work_s)}{ms(collections.longest_s)}{whole_s:8.2f} s", end


def ms(seconds: float) -> str:
    """A column."""
    return f"{1000 * seconds:11.0f} ms"


async def in_process(url: str, *, freeze: bool) -> None:
    """Print the table of the SDK."""
    print(f"{HEADER}{'longest gap':>14}{'of it work':>14}{'collection':>14}{'whole':>10}")
    for model in MODELS:
        base_url = f"{url}/v1" if model.startswith("openai") else url
        async with AsyncStretto(model, base_url=base_url, api_key="any") as stretto:
            await stretto.ask("Ready?")
            for kind in KINDS:
                await measured(stretto, kind, 100)  # imports and compiles what the first of a kind needs
                if freeze:
                    gc.collect()
                    gc.freeze()
                for count in COUNTS:
                    times, end = await measured(stretto, kind, count)
                    print(f"{model:22}{kind:10}{count:8,}{times}  {end}", flush=True)


async def over_http(url: str) -> None:
    """Print the table of the server: the times of /health, before a long body comes and while it is answered."""
    print(f"\n{HEADER}{'before':>14}{'longest':>14}{'whole':>10}   (times of /health)")
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for path in PATHS:
            for kind in KINDS:
                for count in (100, *COUNTS):
                    body = body_of(path, kind, count)
                    if body is None:
                        continue
                    content = json.dumps(body).encode()
                    ended = asyncio.Event()
                    watching = asyncio.create_task(health_s(http, ended))
                    await asyncio.sleep(0.2)
                    began = time.perf_counter()
                    sent = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
                    response = await http.post(path, content=content, headers=sent)
                    whole_s = time.perf_counter() - began
                    ended.set()
                    times = await watching
                    before = median(took_s for at, took_s in times if at < began)
                    longest = max((took_s for at, took_s in times if at + took_s >= began), default=0.0)
                    if count > 100:  # the first of a kind imports and compiles
                        row = f"{ms(before)}{ms(longest)}{whole_s:8.2f} s  {response.status_code}"
                        print(f"{path:22}{kind:10}{count:8,}{row}", flush=True)


async def health_s(http: httpx.AsyncClient, stop: asyncio.Event) -> list[tuple[float, float]]:
    """When /health was asked for, and how long each answer took."""
    times = []
    while not stop.is_set():
        began = time.perf_counter()
        await http.get("/health")
        times.append((began, time.perf_counter() - began))
        await asyncio.sleep(EVERY_S)
    return times


def main() -> None:
    """Start the scripted server and ours, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freeze", action="store_true", help="take what is imported out of garbage collections")
    freeze = parser.parse_args().freeze
    scripted = [sys.executable, "-m", "stretto.testing"]
    with subprocess.Popen(scripted, stdout=subprocess.PIPE, text=True) as upstream:
        try:
            assert upstream.stdout is not None
            url = upstream.stdout.readline().split()[-1]
            asyncio.run(in_process(url.removesuffix("/v1"), freeze=freeze))
            with stretto_server(url, streams=1) as ours:
                asyncio.run(over_http(ours.url.removesuffix("/v1")))
        finally:
            upstream.terminate()


if __name__ == "__main__":
    main()
