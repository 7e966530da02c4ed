"""Documents longer than the window: what is found in them, how long it takes, and what it needs.

    python benchmarks/long_context.py                         the pocket model, with the adapter next to its weights
    python benchmarks/long_context.py --adapter FILE --control FILE
    python benchmarks/long_context.py --only focus --documents 20 --questions 1      one code in each document
    python benchmarks/long_context.py --quick                 little of everything; writes nothing

Passkey: sentences such as "The code of Anna is 48213." are at drawn places of a document made of prose, source code
and words in no order. The question for one of them is a chat message after the document. It counts as found if greedy
decoding says the whole sentence, token by token. The numbers are drawn, so they are in no training text.

The model is the sum of its weights and of the adapter for reading next to them, if there is one.

Ways: focus reading with the adapter; with an adapter trained with the continuation loss only (`--control`), and with
projections that were not trained, which have to fail; plain truncation, where the model reads the end of the prompt
that fits into its window; full attention, also beyond the positions that were trained.

Time and memory: until the first token of an answer is known and for each token that follows, on one thread, against
full attention of the same model over the same document, far beyond the positions it was trained for. Memory is that of
keys and values.

Perplexity: of the last tokens of files that the model was not trained on, by the tokens before them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch
from measuring import IMAGES, machine, save
from plots import plot
from rich.console import Console
from rich.table import Table
from torch import Tensor

from recipes.focus.needles import NAMES, Haystack, asked_for, passkey, pocket_texts
from recipes.pocket.source import held_out_source
from recipes.reading.facts import Fact
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, fingerprint
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.formats.differences import reading_change
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.focus.document_chunks import bytes_per_token
from stretto.local_engine.research.focus.focus import FocusReader
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, read_focus
from stretto.local_engine.serving.long_prompts import FocusOptions

_NEAR = 128  # tokens between two codes that are likely to be in one chunk
CPU = torch.device("cpu")
console = Console(width=118)


class Reader(Protocol):
    """What reads a document; see `FocusReader.read`."""

    def read(self, local: Sequence[int], answer: Sequence[int] = ()) -> Iterator[Tensor | None]:
        """Score what follows."""
        ...

    @property
    def cached_bytes(self) -> int:
        """Of keys and values."""
        ...


class Full:
    """Full attention over the document, or over as much of its end as ``most`` tokens leave room for."""

    def __init__(self, forward: LlamaForward, document: Sequence[int], most: int | None = None) -> None:
        self._forward, self._most, self._document = forward, most, [*document]
        self._cache, self._known = KeyValueCache(1), 0
        self._tokens: list[int] = []

    @property
    def cached_bytes(self) -> int:
        """Of keys and values."""
        return self._known * bytes_per_token(self._forward)

    def read(self, local: Sequence[int], answer: Sequence[int] = ()) -> Iterator[Tensor | None]:
        """Read what is not known yet, 512 tokens at a time."""
        suffix = [*local, *answer]
        room = len(self._document) if self._most is None else max(0, self._most - len(local) - 32)
        tokens = [*self._document[-room:], *suffix] if room else suffix
        same = 0
        while same < min(len(tokens) - 1, len(self._tokens)) and tokens[same] == self._tokens[same]:
            same += 1
        logits = torch.empty(0)
        for start in range(same, len(tokens), 512):
            stop = min(start + 512, len(tokens))
            rows = Rows(torch.tensor([tokens[start:stop]]), torch.arange(start, stop)[None], stop)
            logits = self._forward(rows, self._cache, torch.tensor([stop - start - 1]))[0, 0]
            yield None
        self._tokens, self._known = tokens, len(tokens)
        yield logits


@dataclass(frozen=True)
class Way:
    """One way to read long documents; ``longest`` times the window is the most it is tried at."""

    name: str
    open: Callable[[Sequence[int]], Reader]
    longest: int = 64


def ways_of(model: LoadedModel, adapter: FocusAdapter, control: FocusAdapter | None) -> list[Way]:
    """All ways."""
    forward, window = model.forward, model.context_window
    assert isinstance(forward, LlamaForward)
    head = (int(model.tokenizer.bos_token_id),)

    def focus(own: FocusAdapter | None, **more: int) -> Callable[[Sequence[int]], Reader]:
        options = FocusOptions(chunk=adapter.chunk, kept_bytes=2**32, **more)
        return lambda document: FocusReader(forward, own, document, options, device=CPU, head=head)

    found = [Way("focus", focus(adapter))]
    if control is not None:
        found.append(Way("focus, continuation loss only", focus(control), 16))
    return [
        *found,
        Way("focus, untrained", focus(None), 16),
        Way("truncation", lambda document: Full(forward, [*head, *document], window)),
        Way("full attention", lambda document: Full(forward, [*head, *document]), 4),
    ]


def last(reader: Reader, local: Sequence[int], answer: Sequence[int] = ()) -> Tensor:
    """Logits after the answer so far."""
    *_, logits = reader.read(local, answer)
    assert logits is not None
    return logits


def found_by(haystack: Haystack, ways: Sequence[Way], window: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Share of the codes found, by length of the document."""
    rows: list[dict[str, Any]] = []
    for times in options.times:
        chance = random.Random(f"passkey {times}")  # noqa: S311 - chance, not secrets
        count = options.documents if times <= 16 else options.documents // 2
        documents = [hidden(haystack, chance, times * window, options.questions) for _ in range(count)]
        for way in ways:
            if times > way.longest:
                continue
            began, results = time.perf_counter(), list[tuple[Place, bool]]()
            for document, facts in documents:
                reader = way.open(document)
                for fact, place in facts.items():
                    local, answer = haystack.question(asked_for(fact)), haystack.answer(fact.sentence)
                    results.append((place, is_expected(reader, local, answer)))
            took, right = time.perf_counter() - began, sum(right for _, right in results)
            row = {"way": way.name, "times": times, "right": right, "asked": len(results), "seconds": took}
            parts = {
                "thirds": [share(right for place, right in results if place.third == part) for part in range(3)],
                "near_others": share(right for place, right in results if place.near),
                "apart": share(right for place, right in results if not place.near),
            }
            rows.append(row | parts)
            console.print(
                f"{times} x window, {way.name}: {right} of {len(results)} ({took:.0f} s); within {_NEAR} tokens of "
                f"another code {parts['near_others']}, elsewhere {parts['apart']}; by thirds {parts['thirds']}",
                highlight=False,
            )
    return rows


@dataclass(frozen=True)
class Place:
    """Where a code is: in which third of its document, and whether near another one."""

    third: int
    near: bool


def share(found: Iterable[bool]) -> str:
    """How many of them."""
    every = [*found]
    return f"{sum(every)} of {len(every)}"


def hidden(haystack: Haystack, chance: random.Random, length: int, count: int) -> tuple[list[int], dict[Fact, Place]]:
    """A document of so many tokens with ``count`` codes in it, and the place of each."""
    facts = [passkey(chance, name) for name in chance.sample(NAMES, count)]
    needles = [haystack.needle(fact) for fact in facts]
    hay = haystack.hay(chance, length - sum(map(len, needles)))
    ends = sorted(chance.randint(0, len(hay)) for _ in needles)
    found: list[int] = []
    start = 0
    for needle, end in zip(needles, ends, strict=True):
        found += [*hay[start:end], *needle]
        start = end
    gaps = [length, *(end - start for start, end in pairwise(ends)), length]
    near = [min(before, after) < _NEAR for before, after in pairwise(gaps)]
    places = [Place(min(2, 3 * end // max(1, len(hay))), close) for end, close in zip(ends, near, strict=True)]
    return [*found, *hay[start:]], dict(zip(facts, places, strict=True))


def is_expected(reader: Reader, local: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether greedy decoding says what is expected."""
    return all(int(last(reader, local, expected[:count]).argmax()) == token for count, token in enumerate(expected))


def times_of(haystack: Haystack, ways: Sequence[Way], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds to the first token and for each that follows, and bytes held, by length."""
    chance, rows = random.Random("times"), []  # noqa: S311 - chance, not secrets
    chosen = [way for way in ways if way.name in ("focus", "full attention")]
    local, answer = haystack.question("What is the code of Anna?"), haystack.answer("The code of Anna is 12345.")
    for length in options.lengths:
        document = haystack.hay(chance, length)
        for way in chosen:
            firsts, others = list[float](), list[float]()
            for _ in range(options.runs):
                reader = way.open(document)
                began = time.perf_counter()
                last(reader, local)
                firsts.append(time.perf_counter() - began)
                began = time.perf_counter()
                for count in range(1, 5):
                    last(reader, local, answer[:count])
                others.append((time.perf_counter() - began) / 4)
            size_bytes, row = reader.cached_bytes, {"way": way.name, "tokens": length}
            first, each = median(firsts), median(others)
            rows.append(
                row | {"first_s": first, "token_s": each, "bytes": size_bytes, "firsts": firsts, "others": others}
            )
            console.print(
                f"{length} tokens, {way.name}: {first:.2f} s ({min(firsts):.2f} to {max(firsts):.2f}), "
                f"{each * 1e3:.0f} ms a token ({min(others) * 1e3:.0f} to {max(others) * 1e3:.0f}), "
                f"{size_bytes / 2**20:.0f} MiB",
                highlight=False,
            )
    return rows


def slope(rows: Sequence[dict[str, Any]], way: str, field: str) -> float:
    """The exponent with which a figure grows with the length, over the longer half."""
    points = [(math.log(row["tokens"]), math.log(max(row[field], 1e-9))) for row in rows if row["way"] == way]
    points = points[len(points) // 2 - 1 :] if len(points) > 3 else points
    if len(points) < 2:
        return math.nan
    across, up = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return float(sum((x - across) * (y - up) for x, y in points) / sum((x - across) ** 2 for x, _ in points))


def perplexity(model: LoadedModel, ways: Sequence[Way], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Perplexity of the last 16 tokens of held-out source files, by what is before them."""
    text = "\n\n".join(held_out_source().values())
    ids = model.tokenizer(text, add_special_tokens=False, verbose=False).input_ids
    rows = []
    for before in options.before:
        for way in ways:
            if way.name == "focus, untrained" or before > way.longest * model.context_window:
                continue
            total, count = 0.0, 0
            for place in range(options.files):
                end = before + 64 + 16 + place * (len(ids) - before - 80) // max(1, options.files)
                reader = way.open(ids[end - before - 80 : end - 80])
                local, wanted = ids[end - 80 : end - 16], ids[end - 16 : end]
                for step, token in enumerate(wanted):
                    total -= float(last(reader, local, wanted[:step]).float().log_softmax(-1)[token])
                    count += 1
            rows.append({"way": way.name, "before": before, "perplexity": math.exp(total / count)})
            console.print(
                f"{before} tokens before, {way.name}: perplexity {rows[-1]['perplexity']:.1f}", highlight=False
            )
    return rows


def draw(found: Sequence[dict[str, Any]], timed: Sequence[dict[str, Any]], scored: Sequence[dict[str, Any]]) -> None:
    """Found codes, times, memory and perplexity, by length."""
    plot(IMAGES / "long-context", lambda plt, _: _drawn(plt, found, timed, scored))


def _drawn(
    plt: Any, found: Sequence[dict[str, Any]], timed: Sequence[dict[str, Any]], scored: Sequence[dict[str, Any]]
) -> Any:
    figure, panels = plt.subplots(1, 4, figsize=(15, 3.8))
    colours = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(row["way"] for row in found))}

    def line(axes: Any, rows: Sequence[dict[str, Any]], across: str, up: Callable[[dict[str, Any]], float]) -> None:
        for way in dict.fromkeys(row["way"] for row in rows):
            own = [row for row in rows if row["way"] == way]
            xs, ys = [row[across] for row in own], [up(row) for row in own]
            axes.plot(xs, ys, marker=".", label=way, color=colours.get(way))

    line(panels[0], found, "times", lambda row: row["right"] / row["asked"])
    panels[0].set(title="codes found", xlabel="document, in windows of the model", ylim=(-0.03, 1.03))
    line(panels[1], timed, "tokens", lambda row: row["first_s"])
    panels[1].set(title="seconds to the first token", xlabel="tokens", yscale="log")
    line(panels[2], timed, "tokens", lambda row: row["bytes"] / 2**20)
    panels[2].set(title="MiB of keys and values", xlabel="tokens", yscale="log")
    line(panels[3], scored, "before", lambda row: row["perplexity"])
    panels[3].set(title="perplexity", xlabel="tokens before", yscale="log")
    for axes in panels:
        axes.set_xscale("log", base=2)
    panels[0].legend(fontsize=7)
    return figure


def show(found: Sequence[dict[str, Any]]) -> None:
    """A table of the codes found."""
    every = sorted({row["times"] for row in found})
    table = Table("way", *(f"{times} x" for times in every), title="codes found", title_justify="left")
    for way in dict.fromkeys(row["way"] for row in found):
        own = {row["times"]: f"{row['right']}/{row['asked']}" for row in found if row["way"] == way}
        table.add_row(way, *(own.get(times, "not run") for times in every))
    console.print(table)


def main() -> None:
    """Measure, show, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--adapter", type=Path, help=f"by default {FOCUS_FILE} next to the weights")
    parser.add_argument("--control", type=Path, help="adapter trained with --losses continuation")
    parser.add_argument("--times", nargs="+", type=int, default=[1, 4, 16, 64], help="windows of a document")
    parser.add_argument("--documents", type=int, default=2, help="of each length; half beyond 16 windows")
    parser.add_argument("--questions", type=int, default=10, help="about each document")
    parser.add_argument("--lengths", nargs="+", type=int, default=[1024, 2048, 4096, 8192])
    parser.add_argument("--runs", type=int, default=3, help="of each timing, of which the median counts")
    parser.add_argument("--before", nargs="+", type=int, default=[256, 1024, 4096])
    parser.add_argument("--files", type=int, default=6, help="places of the source files")
    parser.add_argument("--only", nargs="+", help="ways by name: the codes they find; writes no result and no plot")
    parser.add_argument("--quick", action="store_true", help="little of everything; writes no result and no plot")
    options = parser.parse_args()
    if options.quick:
        options.times, options.documents, options.questions, options.lengths = [1], 1, 3, [512, 1024]
        options.before, options.files, options.runs = [256], 1, 1
    torch.set_num_threads(1)
    source = find_source(options.model)
    assert source.folder is not None
    change = reading_change(source.folder, source.name)
    model = load_model(source, dtype="float32", device="cpu", change=change)
    assert isinstance(model.forward, LlamaForward)
    base = fingerprint(source.folder, reading=True)
    path = options.adapter or source.folder / FOCUS_FILE
    if not path.is_file():
        sys.exit(f"{path} is missing. Train it with: python -m recipes.focus.train {options.model}")
    adapter = read_focus(path, base, source.name, model.forward, CPU)
    control = None if options.control is None else read_focus(options.control, base, source.name, model.forward, CPU)
    ways = [way for way in ways_of(model, adapter, control) if not options.only or way.name in options.only]
    haystack = Haystack(model, pocket_texts())
    with torch.inference_mode():
        found = found_by(haystack, ways, model.context_window, options)
        if options.only:
            show(found)
            return
        timed = times_of(haystack, ways, options)
        scored = perplexity(model, ways, options)
    show(found)
    slopes = {
        way: {field: slope(timed, way, field) for field in ("first_s", "token_s", "bytes")}
        for way in dict.fromkeys(row["way"] for row in timed)
    }
    console.print(slopes)
    if not options.quick:
        about = {"machine": machine(), "model": source.name, "window": model.context_window, "chunk": adapter.chunk}
        save("long_context", {**about, "passkey": found, "times": timed, "slopes": slopes, "perplexity": scored})
        draw(found, timed, scored)


if __name__ == "__main__":
    main()
