"""What the bound of heads is worth, and what it costs: uvicorn's parsers compared.

    python benchmarks/heads.py

Each serves one small streamed answer of 60 pieces, in a process of its own. Printed: answers a second for 16 clients
(the median of five runs, and their spread), and megabytes that the process grows by for four clients that send a header
of 25 MB each.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROTOCOLS = ("httptools", "bounded", "h11")
CLIENTS, EACH, PIECES, RUNS = 16, 25, 60, 5
HEADER = 25_000_000
ASKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"


async def app(_scope: Any, receive: Any, send: Any) -> None:
    """An answer of 60 pieces."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for _ in range(PIECES):
        await send({"type": "http.response.body", "body": b"data: {}\n\n" * 20, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def serve(protocol: str) -> None:
    """Serve with one of the parsers until the process is ended."""
    import uvicorn  # noqa: PLC0415 - in the server's process

    from stretto.server.limits.header_limits import BoundedHead  # noqa: PLC0415

    kind: Any = BoundedHead if protocol == "bounded" else protocol
    with socket.create_server(("127.0.0.1", 0)) as opened:
        print(opened.getsockname()[1], flush=True)
        config = uvicorn.Config(app, http=kind, log_level="critical", lifespan="off", ws="none")
        uvicorn.Server(config).run(sockets=[opened])


async def load(port: int) -> float:
    """Answers a second."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(EACH):
            writer.write(ASKED)
            await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return CLIENTS * EACH / (time.perf_counter() - began)


def resident(process: int) -> float:
    """Megabytes that a process has had at most."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1e3


async def attack(port: int) -> None:
    """Four clients with an endless header; they are refused, or they leave."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        try:
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
            for _ in range(HEADER // 100_000):
                writer.write(b"a" * 100_000)
                await writer.drain()
            await asyncio.wait_for(reader.read(1), 1)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(4)))


def main() -> None:
    """Measure each parser."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", choices=PROTOCOLS)
    if protocol := parser.parse_args().serve:
        serve(protocol)
        return
    print("| parser | answers a second | lowest, highest | MB that headers add |\n|---|---|---|---|")
    servers = {}
    for protocol in PROTOCOLS:
        process = subprocess.Popen([sys.executable, __file__, "--serve", protocol], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        servers[protocol] = process, int(process.stdout.readline())
    rates: dict[str, list[float]] = {protocol: [] for protocol in PROTOCOLS}
    for _ in range(RUNS):
        for protocol, (_, port) in servers.items():
            rates[protocol].append(asyncio.run(load(port)))
    for protocol, (process, port) in servers.items():
        before = resident(process.pid)
        asyncio.run(attack(port))
        grown = resident(process.pid) - before
        found = rates[protocol]
        print(f"| {protocol} | {statistics.median(found):,.0f} | {min(found):,.0f}, {max(found):,.0f} | {grown:,.0f} |")
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
