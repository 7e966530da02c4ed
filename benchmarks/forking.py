"""A model that forks its answer by itself, beside an outline with points, and beside writing straight on.

    python benchmarks/forking.py                                   local:pocket-forking
    python benchmarks/forking.py --model local:build/forking-model
    python benchmarks/forking.py --topics 10

The same questions on the pocket model's 100 topics and the same weights: direct, skeleton, forking, and forking whose
paths are placed behind each other instead of being read again (``join``). The score is the share of the points of each
topic that stand in the answer. The critical path is counted in tokens: those written before and behind the parts, and
those of the longest part; it stands over the tokens of the straight answer to the same question. Tags count as tokens.
What a join costs: the tokens that are read for it, and the time from there to its first token.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
from measuring import Spread, machine, save
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from recipes.denoise.evaluate import asked, points_present
from recipes.pocket.corpus import Corpus, Topic
from stretto import Answer, AsyncStretto, StrettoError
from stretto.local import LocalBackend

READ, BEHIND, BESIDE = "forking, paths read again", "forking, behind each other", "forking, beside each other"
WAYS: Mapping[str, dict[str, Any]] = {
    "direct": {"strategy": "direct"},
    "skeleton": {"strategy": "skeleton"},
    READ: {"strategy": "forking", "strategy_options": {"join": "read"}},
    BEHIND: {"strategy": "forking", "strategy_options": {"join": "behind"}},
    BESIDE: {"strategy": "forking", "strategy_options": {"join": "beside"}},
}
MOST_TOKENS = 900
console = Console(width=110)


@dataclass(frozen=True)
class Row:
    """One answer."""

    way: str
    topic: str
    written: str  # by this strategy in the end
    score: float
    calls: int
    tokens: int
    critical: int
    parts: int
    seconds: float
    first_s: float
    ends: bool  # with the last sentence of the topic
    join_read: int | None  # tokens
    join_ms: float | None


def critical_path(answer: Answer) -> int:
    """Tokens that have to be written one after the other: all outside of parts, and the longest part."""
    parts = [branch.usage.completion_tokens for branch in answer.branches if branch.kind == "point"]
    return answer.usage.completion_tokens - sum(parts) + max(parts, default=0)


async def ask(stretto: AsyncStretto, way: str, topic: Topic, question: str) -> Row:
    """One answer. A failure scores nothing."""
    try:
        answer = await stretto.ask(question, temperature=0.0, max_tokens=MOST_TOKENS, **WAYS[way])
    except StrettoError as error:
        console.print(f"[yellow]{way}, {topic.id}: {error}")
        return Row(way, topic.id, "failed", 0.0, 0, 0, 0, 0, 0.0, 0.0, False, None, None)
    join = answer.branches[-1] if way in (READ, BEHIND, BESIDE) and len(answer.branches) > 1 else None
    span = None if join is None else join.span
    begun = None if span is None or span.first_token_s is None else 1e3 * (span.first_token_s - (span.admitted_s or 0))
    return Row(
        way,
        topic.id,
        answer.strategy,
        points_present([(topic, question)], [answer.text]),
        answer.usage.calls,
        answer.usage.completion_tokens,
        critical_path(answer),
        sum(branch.kind == "point" for branch in answer.branches),
        answer.timeline.total_s,
        answer.timeline.first_text_s or 0.0,
        answer.text.rstrip().endswith(topic.closing),
        None if join is None else join.usage.prompt_tokens - join.usage.cached_tokens,
        begun,
    )


async def measure(model: str, questions: Sequence[tuple[Topic, str]], minutes: float) -> list[Row]:
    """All ways to answer each question, one after the other; as many questions as there is time for."""
    rows, began = list[Row](), time.monotonic()
    async with AsyncStretto(LocalBackend(model, decoding="autoregressive")) as stretto:
        await stretto.ask("Hello", strategy="direct", max_tokens=8)
        with Progress(console=console) as progress:
            bar = progress.add_task(model, total=len(questions))
            for topic, question in questions:
                if time.monotonic() - began > 60 * minutes:
                    break
                rows += [await ask(stretto, way, topic, question) for way in WAYS]
                progress.advance(bar)
    return rows


def summary(rows: Sequence[Row], way: str) -> dict[str, Any]:
    """The answers of one way beside the straight ones."""
    straight = {row.topic: row for row in rows if row.way == "direct"}
    own = [row for row in rows if row.way == way]
    beside = [straight[row.topic] for row in own]
    whole = [(row, other) for row, other in zip(own, beside, strict=True) if row.tokens and other.tokens]
    return {
        "way": way,
        "in this way": sum(way.startswith(row.written) and (way == "direct" or row.parts > 0) for row in own),
        "right end": sum(row.ends for row in own),
        "score": statistics.fmean(row.score for row in own),
        "calls": statistics.fmean(row.calls for row in own),
        "tokens": statistics.fmean(row.tokens for row in own),
        "critical over straight": Spread.of([row.critical / other.tokens for row, other in whole] or [0.0]),
        "time over straight": Spread.of([row.seconds / other.seconds for row, other in whole] or [0.0]),
        "first text, s": Spread.of([row.first_s for row in own]),
        "join: tokens read": Spread.of([row.join_read for row in own if row.join_read is not None] or [0.0]),
        "join: ms to its first token": Spread.of([row.join_ms for row in own if row.join_ms is not None] or [0.0]),
    }


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket-forking")
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further question is asked")
    chosen = parser.parse_args()
    questions = asked(Corpus(with_source=False))[: chosen.topics]
    rows = anyio.run(measure, chosen.model, questions, chosen.minutes)
    console.print(
        f"{chosen.model}, {len({row.topic for row in rows})} questions, greedy, one token at a time; {machine()}"
    )
    found = [summary(rows, way) for way in WAYS]
    shown = Table(*found[0])
    for each in found:
        shown.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in each.values()))
    console.print(shown)
    result = {"model": chosen.model, "machine": machine(), "summaries": found, "rows": [asdict(row) for row in rows]}
    console.print(f"kept in {save('forking', result).name}")


if __name__ == "__main__":
    main()
