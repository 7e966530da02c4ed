"""What the server adds to a request, how much it bears, and the same of litellm's proxy, in one run.

    python benchmarks/server.py                            all of it: three minutes; litellm is installed once
    python benchmarks/server.py --update-docs              and writes benchmarks/results/server.md and its plot
    python benchmarks/server.py --without-litellm --requests 20 --seconds 2 --streams 20      a slice

All of them use one scripted server in a separate process, which answers at once, or at a rate for the streams.
litellm's proxy gets a separate virtual environment, because it pins other versions.

- **Added latency**: one request at a time, each way in turn: to the scripted server itself, through Stretto's SDK in
  this process, through ``stretto serve``, through the proxy. Medians of what each takes.
- **Load**: so many clients ask again as soon as they are answered. Requests a second, latencies, memory.
- **Streams**: 300 clients stream without a pause for a minute. Errors, memory in its course, and what is left of tasks
  and connections when they have left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from comparison.report import fill_block
from http_load import Connection, Timing
from measuring import IMAGES, RESULTS, ROOT, machine, save, scripted_server
from rich.console import Console
from server_report import draw, markdown

from stretto import AsyncStretto, Settings

LITELLM = "litellm[proxy]"
WORDS = 40
REPLY = " ".join(["word"] * WORDS)
MESSAGES = [{"role": "user", "content": "How do I look after a bicycle?"}]
console = Console()


@dataclass(frozen=True)
class Way:
    """A way to the model.

    Attributes:
        name: for tables.
        url: base URL of its API.
        model: what to ask for there.
        pid: of the process, whose memory is looked at; 0: of none.
    """

    name: str
    url: str
    model: str
    pid: int = 0

    def body(self, *, stream: bool) -> dict[str, Any]:
        """The request."""
        return {"model": self.model, "messages": MESSAGES, "stream": stream}


def resident_mib(pid: int) -> float:
    """Memory of a process and its children."""
    pids = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()  # noqa: S607 - of Linux
    total = 0
    for each in (str(pid), *pids):
        file = Path(f"/proc/{each}/status")
        lines = file.read_text().splitlines() if file.exists() else []
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total / 1024


def open_files(pid: int) -> int:
    """Files and sockets that a process holds open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - called from a coroutine too, where it takes no time


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


@contextmanager
def running(command: list[str], url: str, *, within_s: float, **environment: str) -> Iterator[int]:
    """A server in a separate process, once ``url`` answers; gives its number."""
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as process:
        try:
            until = time.monotonic() + within_s
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{command[0]} did not start: {' '.join(command)}")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - of this machine
            return bool(response.status == 200)
    except OSError:
        return False


@contextmanager
def stretto_server(upstream: str, streams: int) -> Iterator[Way]:
    """``stretto serve`` in front of the scripted server."""
    port = free_port()
    command = [*(sys.executable, "-m", "stretto.cli", "serve", "-m", "openai:scripted", "--base-url", upstream)]
    command += ["--port", str(port), "--concurrent-answers", str(max(128, streams))]
    root = f"http://127.0.0.1:{port}"
    with running(command, f"{root}/ready", within_s=60) as pid:
        yield Way("stretto serve", f"{root}/v1", "stretto-direct", pid)


@contextmanager
def litellm_proxy(upstream: str, folder: Path) -> Iterator[Way]:
    """The proxy of litellm in front of the same; installed into ``folder`` where it is not there yet."""
    program = folder / "bin" / "litellm"
    if not program.exists():
        console.print(f"Installing {LITELLM} into {folder} (once) ...")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", LITELLM], check=True)
    port = free_port()
    config = folder / "proxy.yaml"
    config.write_text(
        f"model_list:\n- model_name: scripted\n  litellm_params:\n    model: openai/scripted\n"
        f"    api_base: {upstream}\n    api_key: none\nlitellm_settings:\n  telemetry: false\n"
    )
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    root = f"http://127.0.0.1:{port}"
    environment = {  # no look-ups on the net, and no key, as for the others here
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with running(command, f"{root}/health/liveliness", within_s=180, **environment) as pid:
        yield Way("litellm proxy", f"{root}/v1", "scripted", pid)


async def added(ways: list[Way], upstream: str, requests: int) -> dict[str, Any]:
    """Milliseconds of single requests, each way in turn, medians."""
    took: dict[str, list[Timing]] = {name: [] for name in (*(way.name for way in ways), "stretto SDK")}
    settings = Settings(attempts=1)
    async with AsyncStretto("openai:scripted", base_url=upstream, settings=settings) as sdk:
        connections = {way.name: Connection(way.url) for way in ways}
        for number in range(requests + 5):
            for way in ways:
                timing = await connections[way.name].ask(way.body(stream=True))
                assert not timing.error, (way.name, timing.error)
                took[way.name].append(timing)
            began = time.perf_counter()
            first = 0.0
            async with sdk.stream(MESSAGES[0]["content"], strategy="direct") as events:
                async for _ in events.text():
                    first = first or time.perf_counter() - began
            took["stretto SDK"].append(Timing(first, time.perf_counter() - began))
            if number == 4:  # those before are to warm up
                for timings in took.values():
                    timings.clear()
        for connection in connections.values():
            connection.close()
    return {
        name: {
            "first_ms": 1000 * median(each.first for each in timings),
            "total_ms": 1000 * median(each.total for each in timings),
            "p95_ms": 1000 * quantiles([each.total for each in timings], n=20)[-1],
        }
        for name, timings in took.items()
    }


async def load(way: Way, clients: int, seconds: float, *, stream: bool) -> dict[str, Any]:
    """Clients that ask again as soon as they are answered."""
    until = time.perf_counter() + seconds
    timings: list[Timing] = []
    memory: list[tuple[float, float]] = []
    began = time.perf_counter()

    async def client() -> None:
        async with Connection(way.url) as connection:
            while time.perf_counter() < until:
                timings.append(await connection.ask(way.body(stream=stream)))

    async def watch() -> None:
        while way.pid and time.perf_counter() < until:
            memory.append((time.perf_counter() - began, await asyncio.to_thread(resident_mib, way.pid)))
            await asyncio.sleep(max(0.2, seconds / 60))

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - began
    await watching
    errors = [each.error for each in timings if each.error]
    totals = sorted(each.total for each in timings) or [0.0]
    return {
        "clients": clients,
        "answers": len(timings) - len(errors),
        "errors": len(errors),
        "first_error": errors[0] if errors else "",
        "per_second": (len(timings) - len(errors)) / took,
        "p50_ms": 1000 * median(totals),
        "p95_ms": 1000 * totals[int(0.95 * (len(totals) - 1))],
        "memory_mib": memory,
    }


async def left_over(way: Way) -> dict[str, float]:
    """What Stretto says of itself, and open files, a moment after the last client has left."""
    await asyncio.sleep(1.0)
    root = way.url.removesuffix("/v1")

    def read() -> str:
        with urllib.request.urlopen(f"{root}/metrics", timeout=5) as response:  # noqa: S310 - of this machine
            return str(response.read().decode())

    lines = (await asyncio.to_thread(read)).splitlines()
    metrics = {name: float(value) for name, _, value in (line.partition(" ") for line in lines if line[:1] != "#")}
    return {
        "running": metrics["vllm:num_requests_running"],
        "waiting": metrics["vllm:num_requests_waiting"],
        "files": float(open_files(way.pid)),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything."""
    results: dict[str, Any] = {"machine": machine(), "words": WORDS, "requests": options.requests}
    with ExitStack() as stack:
        quick = stack.enter_context(_upstream(1e6))
        ours = stack.enter_context(stretto_server(quick, options.streams))
        peers = [] if options.without_litellm else [stack.enter_context(litellm_proxy(quick, options.venv))]
        console.print("Added latency ...")
        direct = Way("scripted server itself", quick, "scripted")
        results["added"] = asyncio.run(added([direct, ours, *peers], quick, options.requests))
        results["load"] = {}
        for way in (ours, *peers):
            console.print(f"Load on {way.name} ...")
            results["load"][way.name] = asyncio.run(load(way, options.clients, options.seconds / 3, stream=False))
    with ExitStack() as stack:
        slow = stack.enter_context(_upstream(options.rate))
        ours = stack.enter_context(stretto_server(slow, options.streams))
        console.print(f"{options.streams} streams for {options.seconds:.0f} s ...")
        before = open_files(ours.pid)
        results["streams"] = asyncio.run(load(ours, options.streams, options.seconds, stream=True))
        results["streams"] |= {"rate": options.rate, "left": asyncio.run(left_over(ours)) | {"files_before": before}}
    return results


@contextmanager
def _upstream(rate: float) -> Iterator[str]:
    with scripted_server([("", REPLY)], time_to_first_token_s=0.0, tokens_per_second=rate) as url:
        yield url


def main(show: Callable[[str], None] = console.print) -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="for the added latency, each way")
    parser.add_argument("--clients", type=int, default=32, help="for the load")
    parser.add_argument("--streams", type=int, default=300, help="at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="of streams; the load takes a third of it each")
    parser.add_argument("--rate", type=float, default=10.0, help="tokens a second of each stream")
    parser.add_argument("--without-litellm", action="store_true")
    parser.add_argument("--venv", type=Path, default=ROOT / "build" / "litellm", help="where litellm is installed")
    parser.add_argument("--update-docs", action="store_true")
    options = parser.parse_args()
    results = measure(options)
    show(markdown(results))
    if options.update_docs:
        save("server", results)
        draw(results, IMAGES / "server")
        fill_block(RESULTS / "server.md", markdown(results), "server")


if __name__ == "__main__":
    main()
