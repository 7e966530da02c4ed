"""Writes what so many answers an hour need into a page of results, from the figures that the benchmarks kept.

    python docs/make_load_model.py                       writes the tables
    python docs/make_load_model.py --print               shows them only
    python docs/make_load_model.py --gpu-tokens 4000     with what a GPU of yours writes a second

Everything is of an answer in eight points of 60 words, as benchmarks/skeleton.py measures it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = RESULTS / "load_model.md"
BEGIN, END = "<!-- load model: written by `python docs/make_load_model.py` -->", "<!-- end of the load model -->"
AN_HOUR = (10**3, 10**5, 10**7)
BUSY = 0.6  # of a processor, so that answers do not queue for it
PEAK = 3  # the busiest minute against the hour's mean
GPU_TOKENS = 636  # docs/gpu.md: 16 requests in one batch of the local engine, 8 billion parameters, one H100
OPEN_FILES = 1024  # what a process may open on most systems, unless told otherwise


@dataclass(frozen=True)
class Costs:
    """What one answer takes.

    Attributes:
        calls: to the model.
        read: tokens of its prompts.
        written: tokens.
        seconds: from the question to its end.
        server_s: processor time of the server.
        redis_s: processor time of Redis for one call.
        redis_ms: what sharing adds to a call.
    """

    calls: int
    read: int
    written: int
    seconds: float
    server_s: float
    redis_s: float
    redis_ms: float

    @classmethod
    def kept(cls, strategy: str) -> Costs:
        """From the results of the benchmarks."""
        told, replicas = _result("skeleton")["http"][strategy], _result("replicas")
        usage, redis = told["usage"], replicas["redis"]
        return cls(
            calls=usage["calls"],
            read=usage["prompt_tokens"],
            written=usage["completion_tokens"],
            seconds=told["wall_s"]["median"],
            server_s=replicas["server"][strategy]["processor_ms"] / 1000,
            redis_s=redis["redis_processor_ms"] / 1000,
            redis_ms=redis["call_ms"]["median"],
        )


@dataclass(frozen=True)
class Load:
    """What so many answers an hour need, at their busiest."""

    an_hour: int
    costs: Costs
    gpu_tokens: float

    @property
    def a_second(self) -> float:
        """Answers that begin in a second."""
        return PEAK * self.an_hour / 3600

    @property
    def at_once(self) -> float:
        """Answers being written (Little's law)."""
        return self.a_second * self.costs.seconds

    @property
    def calls_at_once(self) -> float:
        """Calls under way; all but the outline's run side by side."""
        return self.at_once * max(1, self.costs.calls - 1)

    @property
    def processors(self) -> float:
        """Of the servers, busy all the time."""
        return self.a_second * self.costs.server_s

    @property
    def servers(self) -> int:
        """Processes of `stretto serve`, each on a processor."""
        return max(1, math.ceil(self.processors / BUSY))

    @property
    def files(self) -> float:
        """Open files of one of them: a connection of each client, and one of each call."""
        return (self.at_once + self.calls_at_once) / self.servers

    @property
    def tokens_a_second(self) -> float:
        """Written by the model."""
        return self.a_second * self.costs.written

    @property
    def tokens_a_minute(self) -> float:
        """Read and written, as providers count them."""
        return 60 * self.a_second * (self.costs.read + self.costs.written)

    @property
    def gpus(self) -> int:
        """That write as much."""
        return math.ceil(self.tokens_a_second / self.gpu_tokens)

    @property
    def redis(self) -> float:
        """Share of one Redis that sharing takes."""
        return self.a_second * self.costs.calls * self.costs.redis_s

    def fails_first(self) -> str:
        """What one of each does not bear, the most overloaded first."""
        single = {
            "the GPU": self.tokens_a_second / self.gpu_tokens,
            "the server's processor": self.processors / BUSY,
            f"the server's {OPEN_FILES:,} open files": (self.at_once + self.calls_at_once) / OPEN_FILES,
            "Redis": self.redis / BUSY,
        }
        over = sorted(((much, what) for what, much in single.items() if much > 1), reverse=True)
        return ", then ".join(f"{what} ({much:,.0f} times)" if much >= 2 else what for much, what in over) or "nothing"


def _result(name: str) -> dict[str, Any]:
    file = RESULTS / f"{name}.json"
    if not file.exists():
        raise SystemExit(f"There is no {file.relative_to(ROOT)}. Run: python benchmarks/{name}.py")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def table(gpu_tokens: float) -> str:
    """The tables, for the page."""
    costs = {strategy: Costs.kept(strategy) for strategy in ("skeleton", "direct")}
    parts, straight = costs["skeleton"], costs["direct"]
    loads = [Load(an_hour, parts, gpu_tokens) for an_hour in AN_HOUR]
    rows = {
        "answers a second, at the peak": [_number(each.a_second) for each in loads],
        "answers being written": [_number(each.at_once) for each in loads],
        "calls under way": [_number(each.calls_at_once) for each in loads],
        "tokens a minute, read and written": [_number(each.tokens_a_minute) for each in loads],
        "tokens written a second": [_number(each.tokens_a_second) for each in loads],
        f"GPUs at {gpu_tokens:,.0f} tokens/s": [f"{each.gpus:,}" for each in loads],
        "server processes, each on a processor": [f"{each.servers:,}" for each in loads],
        "open files of each": [_number(each.files) for each in loads],
        "of one Redis": [f"{each.redis:.1%}" if each.redis < 1 else f"{each.redis:.1f} of them" for each in loads],
        "one of each: what fails first": [each.fails_first() for each in loads],
    }
    streams = _result("server")["streams"]
    heads = " | ".join(f"{each:,} an hour" for each in AN_HOUR)
    lines = [
        f"{_result('replicas')['machine']}. One answer in eight points of 60 words, against a direct one:",
        "",
        "| | in points | in one piece |",
        "|---|---|---|",
        f"| calls | {parts.calls} | {straight.calls} |",
        f"| tokens read | {parts.read:,} | {straight.read:,} |",
        f"| tokens written | {parts.written:,} | {straight.written:,} |",
        f"| seconds, at 60 tokens/s | {parts.seconds:.1f} | {straight.seconds:.1f} |",
        f"| processor time of the server, ms | {1000 * parts.server_s:.0f} | {1000 * straight.server_s:.0f} |",
        f"| processor time of Redis, ms | {1000 * parts.calls * parts.redis_s:.2f} | {1000 * straight.redis_s:.2f} |",
        "",
        f"So many answers in points an hour, {PEAK} times as many in the busiest minute, processors busy "
        f"{BUSY:.0%} of the time:",
        "",
        f"| | {heads} |",
        "|---|" + "---|" * len(loads),
        *(f"| {name} | {' | '.join(values)} |" for name, values in rows.items()),
        "",
        f"Asking Redis adds {parts.redis_ms:.1f} ms to a call on one machine; in a network, three times the way there "
        "and back as well. "
        f"A server that writes {streams['clients']} streams at a time has {streams['memory_mib'][-1][1]:.0f} MiB.",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def filled(page: str, text: str) -> str:
    """The page with the tables in their place."""
    return re.sub(
        re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: f"{BEGIN}\n\n{text}\n{END}", page, count=1, flags=re.DOTALL
    )


def main() -> None:
    """Print the tables or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpu-tokens", type=float, default=GPU_TOKENS, help="that one GPU writes in a second")
    parser.add_argument("--print", action="store_true", help="show the tables only")
    options = parser.parse_args()
    text = table(options.gpu_tokens)
    if options.print:
        print(text)
    else:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
