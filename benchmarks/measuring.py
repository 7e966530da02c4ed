"""What the benchmarks share: a scripted server in a separate process, medians with spread, the machine's name."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
RESULTS = ROOT / "benchmarks" / "results"
os.environ.setdefault("STRETTO_COMPILED", "1")  # no figure depends on how far a compiler is
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_INSTRUCTIONS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")


@dataclass(frozen=True)
class Spread:
    """Median, least and most of repeated measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.least:.3f}-{self.most:.3f})"


@contextmanager
def scripted_server(
    rules: Sequence[tuple[str, str]],
    *,
    time_to_first_token_s: float,
    tokens_per_second: float,
    token_characters: int | None = None,
    slots: float | None = None,
    record: Path | None = None,
) -> Iterator[str]:
    """A server in a separate process, so that it does not share the client's event loop; gives its base URL.

    ``token_characters``: of a token, instead of a word; ``slots``: answers that it writes at a time, others wait;
    ``record``: where it writes the times of each request.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "replies.json"
        file.write_text(json.dumps([{"pattern": pattern, "reply": reply} for pattern, reply in rules]))
        command = [
            *(sys.executable, "-m", "stretto.testing", "--replies", str(file)),
            *("--time-to-first-token", str(time_to_first_token_s), "--tokens-per-second", str(tokens_per_second)),
            *(("--token-characters", str(token_characters)) if token_characters else ()),
            *(("--slots", str(slots)) if slots else ()),
            *("--exact", *(("--record", str(record)) if record else ())),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()


def offer_clock(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be timed by its processor time, on a machine that others use too: `CLOCKS` has both."""
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")


def machine() -> str:
    """Processor with its widest instructions, and cores, for the head of every result."""
    name, info = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        fields = {key.strip(): value.strip() for key, _, value in lines}
        flags = fields.get("flags", "").split()
        widest = next((each for each in _INSTRUCTIONS if each in flags), None)
        name = fields.get("model name", name) + (f" with {widest}" if widest else "")
    return f"{name or 'unnamed processor'}, {os.cpu_count()} cores, Python {platform.python_version()}"


def save(name: str, result: object) -> Path:
    """Keep a result as JSON next to the benchmarks."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.json"
    file.write_text(json.dumps(result, indent=1, default=vars) + "\n")
    return file
