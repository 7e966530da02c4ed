"""What one server costs an answer, and what sharing limits through Redis costs a call: for docs/deploying.md.

    python benchmarks/replicas.py --save       two minutes; needs redis-server
    python docs/make_load_model.py             then makes the tables of the page from it

The server is `stretto serve` in a separate process, in front of a scripted one that writes as fast as a usual model.
Counted is the processor time of the server's process, not of the clients or the model. What Redis costs is the time of
its scripts, one after the other and many at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from http_load import Connection
from measuring import Spread, machine, save, scripted_server
from rich.console import Console
from server import Way, free_port, open_files, resident_mib, stretto_server
from skeleton import QUESTION, Script

from stretto.backends.resilience.rate_limits import Report
from stretto.backends.resilience.redis_store import RedisStore
from stretto.backends.resilience.shared import News

MODEL = ("openai", "http://somewhere/v1", "some-model")
COST = {"requests": 1, "tokens": 500}
console = Console()


def processor_s(pid: int) -> float:
    """Seconds that a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def answers(way: Way, model: str, *, clients: int, rounds: int) -> dict[str, Any]:
    """So many clients ask so often, one answer after the other."""
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    if model == "stretto-skeleton":
        body["stretto"] = {"strategy_options": {"form": "points"}}
    most = {"files": 0, "memory_mib": 0.0}

    async def client(times: int) -> list[float]:
        async with Connection(way.url) as connection:
            timings = [await connection.ask(body) for _ in range(times)]
        assert not [each.error for each in timings if each.error], timings
        return [each.total for each in timings]

    async def watch() -> None:
        while True:
            most["files"] = max(most["files"], open_files(way.pid))
            most["memory_mib"] = max(most["memory_mib"], resident_mib(way.pid))
            await asyncio.sleep(0.5)

    await client(1)  # imports and connections
    watching = asyncio.create_task(watch())
    before = processor_s(way.pid)
    took = [each for times in await asyncio.gather(*(client(rounds) for _ in range(clients))) for each in times]
    spent = processor_s(way.pid) - before
    watching.cancel()
    return {
        "answers": len(took),
        "clients": clients,
        "processor_ms": 1000 * spent / len(took),
        "seconds": vars(Spread.of(took)),
        **most,
    }


@contextmanager
def redis_server() -> Iterator[tuple[str, int]]:
    """A redis-server that nobody else uses; gives its address and the number of its process."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("There is no redis-server here. Install it: apt-get install redis-server")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
            try:
                yield f"redis://127.0.0.1:{port}/0", process.pid
            finally:
                process.terminate()


async def sharing(url: str, redis: int, *, calls: int, at_once: int) -> dict[str, Any]:
    """What a call's share of the store takes: admitted by both, and reported to the limits."""
    store = RedisStore(url, timeout_s=30, again_s=0)
    limits, health = store.limits(MODEL), store.health(MODEL[:2], faults=5, over_s=5, rest_s=30)
    report = {"requests": Report(1e9, 1e10, 60.0), "tokens": Report(1e9, 1e10, 60.0)}

    async def call() -> float:
        began = time.perf_counter()
        assert (await limits.take(COST, COST)).wait_s == 0
        assert (await health.admit("", None)).verdict == "go"
        await limits.report(News({}, reported=report))
        return 1000 * (time.perf_counter() - began)

    try:
        for _ in range(100):
            if await store.reach():
                break
            await asyncio.sleep(0.05)
        alone = [await call() for _ in range(calls)]

        async def several() -> None:
            for _ in range(calls // at_once):
                await call()

        before, before_redis = processor_s(os.getpid()), processor_s(redis)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(several())
        took = time.perf_counter() - began
        spent, spent_redis = processor_s(os.getpid()) - before, processor_s(redis) - before_redis
    finally:
        await store.aclose()
    done = calls // at_once * at_once
    return {
        "call_ms": vars(Spread.of(alone)),
        "calls_per_second": done / took,
        "client_processor_ms": 1000 * spent / done,
        "redis_processor_ms": 1000 * spent_redis / done,
    }


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5000, help="to Redis")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine(), "points": 8, "words": 60, "server": {}}
    script = Script(8, 60)
    with scripted_server(script.rules(), time_to_first_token_s=0.3, tokens_per_second=60.0) as upstream:
        for strategy in ("direct", "skeleton"):
            with stretto_server(upstream, 128) as way:
                figures = asyncio.run(
                    answers(way, f"stretto-{strategy}", clients=options.clients, rounds=options.rounds)
                )
            results["server"][strategy] = figures
            console.print(strategy, figures)
    with redis_server() as (url, redis):
        results["redis"] = asyncio.run(sharing(url, redis, calls=options.calls, at_once=32))
        console.print("redis", results["redis"])
    if options.save:
        save("replicas", results)


if __name__ == "__main__":
    main()
