"""Send bad requests alongside a hundred good clients of ``stretto serve``, to see whether a good one notices.

Run by ``python benchmarks/soak.py --minutes 5``. The server's model is a scripted one that answers 500 to what it does
not understand, as llama.cpp's server does: tools of a type that it does not know, and images and sound for a model of
texts. Ten such requests a minute come from a client of their own. The good clients ask in all four APIs, streamed and
whole, pause, and ask again. An answer counts as good only if it has the status 200, all its words and the right end.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import httpx
from measuring import machine
from memory import Slope
from server import open_files, resident_mib, stretto_server

from stretto.testing.server import HttpReply, RawResponse, ScriptedServer
from stretto.testing.wire import ReceivedRequest

GOOD_CLIENTS = 100
POISONED_A_MINUTE = 10
PAUSE_S = 4.0  # of a good client between two answers, on average
WORDS = " ".join(f"word{number}" for number in range(20))
QUESTION = [{"role": "user", "content": "How do I look after a bicycle?"}]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
POISONS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool of an unknown type": (
        "chat/completions",
        {"messages": QUESTION, "tools": [{"type": "browser_search"}]},
    ),
    "tool without a name": ("chat/completions", {"messages": QUESTION, "tools": [{"type": "function"}]}),
    "tool of Anthropic's own": (
        "messages",
        {"messages": QUESTION, "max_tokens": 20, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    ),
    "image": (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}]},
    ),
    "image in Responses": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]},
    ),
    "sound": (
        "chat/completions",
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}
            ]
        },
    ),
}
GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("chat/completions", {"messages": QUESTION}),
    ("completions", {"prompt": "How do I look after a bicycle?"}),
    ("responses", {"input": "How do I look after a bicycle?"}),
    ("messages", {"messages": QUESTION, "max_tokens": 500}),
)
ENDS = ('"finish_reason":"stop"', '"status":"completed"', '"stop_reason":"end_turn"')


def scripted(request: ReceivedRequest) -> HttpReply | RawResponse:
    """What llama.cpp's server does: 500 for what it does not understand of a request."""
    request_text = json.dumps(request.body)
    if any(name in request_text for name in ('"image_url"', '"input_audio"', '"browser_search"', '"web_search')):
        body = {
            "error": {"code": 500, "message": "Failed to parse the request: not supported.", "type": "server_error"}
        }
        return RawResponse([json.dumps(body).encode()], status=500, headers={"content-type": "application/json"})
    return HttpReply(WORDS)


@dataclass
class Found:
    """What came of a run.

    Attributes:
        good: whole answers.
        failed: what came instead of one, by kind.
        poisoned: the statuses of bad requests, by kind.
        seconds: of good answers.
        memory_mib: of the server, each second.
        files: that the server had open, in the first and in the last minute.
        left: answers and waiting requests a second after the last client had left.
    """

    good: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    poisoned: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    left: int = 0

    def report(self, minutes: float) -> dict[str, Any]:
        """The figures. The first fifth of the time is a warm-up for the memory."""
        later = self.memory_mib[len(self.memory_mib) // 5 :]
        quarter = max(1, len(later) // 4)
        slope = Slope.of([int(mib * 1024) for mib in later])
        return {
            "machine": machine(),
            "minutes": minutes,
            "good_clients": GOOD_CLIENTS,
            "poisoned_a_minute": POISONED_A_MINUTE,
            "good": self.good,
            "failed": dict(self.failed),
            "poisoned": {kind: dict(statuses) for kind, statuses in sorted(self.poisoned.items())},
            "median_s": round(median(self.seconds), 3) if self.seconds else None,
            "memory_mib_quarters": [round(median(later[:quarter]), 1), round(median(later[-quarter:]), 1)],
            "memory_kib_a_second": [round(slope.each, 2), round(slope.error, 2)],
            "open_files": self.files,
            "left": self.left,
        }


async def good_client(url: str, until: float, chance: random.Random, found: Found) -> None:
    """Ask until the time is over, in one API after the other."""
    await asyncio.sleep(chance.uniform(0, PAUSE_S))
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        while time.monotonic() < until:
            path, body = chance.choice(GOOD)
            asked = {"model": "stretto-direct", "stream": chance.random() < 0.7, **body}
            began = time.perf_counter()
            try:
                got = await http.post(path, json=asked)
            except httpx.HTTPError as error:
                found.failed[type(error).__name__] += 1
                continue
            text = got.text.replace("\\n", " ")
            whole = all(f"word{number}" in text for number in range(20)) and any(end in text for end in ENDS)
            if got.status_code == 200 and whole:
                found.good += 1
                found.seconds.append(time.perf_counter() - began)
            else:
                found.failed[str(got.status_code)] += 1
            await asyncio.sleep(chance.uniform(0, 2 * PAUSE_S))


async def poisoner(url: str, until: float, found: Found) -> None:
    """Send the bad requests, one kind after the other."""
    number = 0
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        while time.monotonic() < until:
            kind = list(POISONS)[number % len(POISONS)]
            number += 1
            path, body = POISONS[kind]
            began = time.monotonic()
            got = await http.post(path, json={"model": "stretto", **body})
            found.poisoned.setdefault(kind, Counter())[str(got.status_code)] += 1
            await asyncio.sleep(max(0.0, 60 / POISONED_A_MINUTE - (time.monotonic() - began)))


async def watch(pid: int, until: float, found: Found) -> None:
    """Note the memory of the server each second."""
    found.files.append(open_files(pid))
    while time.monotonic() < until:
        found.memory_mib.append(resident_mib(pid))
        await asyncio.sleep(1)
    found.files.append(open_files(pid))


async def soak(minutes: float, seed: int) -> Found:
    """Let good and bad clients ask for so long."""
    found = Found()
    async with ScriptedServer(scripted, tokens_per_second=30) as upstream:
        with stretto_server(upstream.openai_url, GOOD_CLIENTS) as way:
            until = time.monotonic() + 60 * minutes
            clients = [
                good_client(way.url + "/", until, random.Random(seed + number), found)  # noqa: S311 - chance, not secrets
                for number in range(GOOD_CLIENTS)
            ]
            await asyncio.gather(*clients, poisoner(way.url + "/", until, found), watch(way.pid, until, found))
            await asyncio.sleep(1)
            async with httpx.AsyncClient() as http:
                ready = (await http.get(way.url.removesuffix("/v1") + "/ready")).json()
            found.left = ready["running"] + ready["waiting"]
    return found


def soak_server_markdown(report: dict[str, Any]) -> str:
    """What came of a run, for benchmarks/results/server.md."""
    statuses = ", ".join(f"{kind} {'/'.join(sorted(statuses))}" for kind, statuses in report["poisoned"].items())
    first, last = report["memory_mib_quarters"]
    failed = sum(report["failed"].values())
    bad = sum(sum(statuses.values()) for statuses in report["poisoned"].values())
    return (
        f"{report['minutes']:g} minutes of {report['good_clients']} clients in all four APIs, and {bad} bad requests "
        f"alongside them: {report['good']:,} whole answers, {failed} failed. The bad ones got {statuses}. Memory of "
        f"`stretto serve`: {first:.0f} MiB in the first quarter after a warm-up, {last:.0f} MiB in the last. "
        f"{report['left']} answers were left when the clients had left.\n"
    )
