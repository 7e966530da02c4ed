"""What the first answer that is held to a JSON schema or a regular expression waits for, and what others wait for.

    python benchmarks/formats.py                     the pocket model, and a vocabulary of 150,000 made-up tokens
    python benchmarks/formats.py --model FOLDER      your own model

The first format makes llguidance's view of the tokenizer; it stays. "Theirs" is llguidance's own function for that,
"ours" is `stretto.local_engine.text.vocabulary`, in turns. "Held" is the longest time in which no other thread of the
process got on, seen by one that wants to every millisecond.
"""

from __future__ import annotations

import argparse
import random
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from measuring import machine
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.text.vocabulary import vocabulary

SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}'
LARGE = 150_000
console = Console()


def made_up(tokens: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE whose merges join two known tokens at random, of 12 bytes together at most."""
    choice = random.Random(0).choice  # noqa: S311 - no secret
    known = sorted(pre_tokenizers.ByteLevel.alphabet())
    seen, merges = set(known), []
    while len(known) < tokens:
        one, other = choice(known), choice(known)
        if len(one + other) <= 12 and one + other not in seen:
            known.append(one + other)
            seen.add(one + other)
            merges.append((one, other))
    inner = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(known)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner)  # type: ignore[no-untyped-call]  # transformers' own


def watched(work: Callable[[], Any]) -> tuple[float, float]:
    """How long the work took, and the longest time another thread was held meanwhile, in milliseconds."""
    over, worst = threading.Event(), 0.0

    def watch() -> None:
        nonlocal worst
        last = time.perf_counter()
        while not over.wait(0.001):
            now = time.perf_counter()
            worst, last = max(worst, now - last), now
        worst = max(worst, time.perf_counter() - last)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    over.set()
    watcher.join()
    return took * 1e3, worst * 1e3


def first_mask(known: Any) -> None:
    """Compile a schema and ask what may begin an answer."""
    LLMatcher(known, LLMatcher.grammar_from_json_schema(SCHEMA), log_level=0).compute_bitmask()


def spread(figures: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(figures):,.0f} ({min(figures):,.0f}-{max(figures):,.0f})"


def main() -> None:
    """Measure and print a table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--model", default="local:pocket")
    asked.add_argument("--repeats", type=int, default=7)
    given = asked.parse_args()
    source = find_source(given.model)
    tokenizers: list[tuple[str, Any]] = [
        (source.name, AutoTokenizer.from_pretrained(source.folder or source.name.removeprefix("local:")))
    ]
    if given.model == "local:pocket":
        tokenizers.append((f"{LARGE:,} made-up tokens", made_up(LARGE)))
    table = Table("tokenizer", "what", "ms: median (range)", "held, ms: median (range)", title=machine())
    for name, tokenizer in tokenizers:
        ends = [0 if tokenizer.eos_token_id is None else tokenizer.eos_token_id]
        ways: dict[str, Callable[[], Any]] = {
            "view of the tokenizer, theirs": partial(from_tokenizer, tokenizer, eos_token=ends),
            "view of the tokenizer, ours": partial(vocabulary, tokenizer, ends),
            "a schema and the first mask": partial(first_mask, vocabulary(tokenizer, ends)),
        }
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(given.repeats):
            for way, work in ways.items():
                found[way].append(watched(work))
        for way, times in found.items():
            table.add_row(name, way, *(spread(list(each)) for each in zip(*times, strict=True)))
    console.print(table)


if __name__ == "__main__":
    main()
