"""Staged and superposed drafts beside a plain draft model: whether a draft model that is helped itself would pay.

    python benchmarks/staged.py staged                 SmolLM2 in bfloat16, drafted for by itself as it is stored
    python benchmarks/staged.py superposed             SmolLM2, drafted for by itself without some of its layers
    python benchmarks/staged.py superposed --leave-out 4 10

Neither is a method of the engine; this is what was tried before one would have been written.

Staged (Spector and Re, arXiv:2308.04623): the draft model's own tokens are drafted, here by prompt lookup, and its
forwards verify these. Times are processor time of one thread, by answer, over one token at a time.

Superposed (Shen et al., arXiv:2405.18400): the draft model reads a mixture of the input vectors of its likeliest
tokens, weighted by their probability, and so follows several paths in the forwards of one. At each place of greedy
answers it is counted how many drafted tokens are right. A draft of N tokens takes N forwards of the draft model, each
as dear as its share of the layers, and a step of as many rows as it has nodes, which is measured. So the time is worked
out: (forwards + step) over tokens, beside a step of one row. SmolLM2 without layers is a poor draft model; the ways
have it in common.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import torch
from big_little import QUESTIONS, shortened
from decoding_real import WORKLOADS, Timed, answer, cost_of_rows, prompt
from measuring import machine
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from transformers import DynamicCache

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.draft_model import DraftModel
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving.engine import Engine

MODEL = "local:smollm2"
WAYS = {
    "one at a time": "autoregressive",
    "prompt lookup": "prompt_lookup",
    "draft model": "draft_model",
    "staged": "draft_model",
    "the draft model alone": "autoregressive",
}
LENGTH, PATHS = 3, 3
"""Tokens of a draft, and candidates for each."""
console = Console(width=120)


class Staged(DraftModel):
    """A chain of a draft model's tokens, whose forwards read what prompt lookup has found."""

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`; greedy."""
        tree, tokens, parent, survival = DraftTree(), list(context.tokens), ROOT, 1.0
        committed, most = len(tokens), min(2 * self._length, rows)
        for _ in range(self._length):
            ended = len(tokens) > committed and tokens[-1] in context.ends
            if ended or len(tree) >= most or len(tokens) >= self._window or survival < self._floor:
                break
            lookup = PromptLookup()  # a new one, since some of these tokens may be taken back
            found = lookup.propose(DraftContext(tokens, 0, 1 << 30), most - len(tree) - 1)
            guess = list(found.tokens) if lookup.evidence > 1 else []
            chances = self._chances(tokens, guess, context.vocabulary)
            for place, own in enumerate(chances):
                token = int(own.argmax())
                survival *= float(own[token])
                parent = tree.add(token, parent, survival)
                tokens.append(token)
                if (place < len(guess) and guess[place] != token) or token in context.ends:
                    break
        return tree

    def _chances(self, tokens: list[int], guess: list[int], vocabulary: int) -> Tensor:
        """What the draft model says behind the text and behind each guessed token # [1 + guessed, vocabulary]."""
        limit = min(len(self._cached), len(tokens) - 1)
        held = next((place for place in range(limit) if self._cached[place] != tokens[place]), limit)
        whole = [*tokens, *guess]
        rows = Rows(torch.tensor([whole[held:]]), torch.arange(held, len(whole))[None], len(whole))
        logits = self._forward(rows, self._cache, torch.arange(len(tokens) - 1 - held, len(whole) - held))
        self._cached = whole
        return logits[0, :, :vocabulary].float().softmax(-1)


def _staged(equipment: DraftEquipment) -> Staged:
    assert equipment.draft is not None
    return Staged(equipment.draft)


def staged(options: argparse.Namespace) -> None:
    """Time a plain draft model and a staged one."""
    big = load_model(find_source(MODEL), dtype="bfloat16", device="cpu", compiled=True)
    little = load_model(find_source(MODEL), device="cpu", compiled=True)
    plain = Engine(big, prefix_cache_bytes=0, threads=1)
    engines = defaultdict(lambda: plain)
    engines["draft model"] = Engine(big, draft=little, prefix_cache_bytes=0, threads=1)
    drafters = {**DRAFTERS, "draft_model": _staged}
    engines["staged"] = Engine(big, draft=little, drafters=drafters, prefix_cache_bytes=0, threads=1)
    engines["the draft model alone"] = Engine(little, prefix_cache_bytes=0, threads=1)
    table = Table("question", "way", "ms a token", "over one at a time", "tokens a step", "same")
    try:
        for name in track(("advice", "rename"), "answering", console=console, transient=True):
            ids, runs = prompt(big, WORKLOADS[name]), defaultdict[str, list[Timed]](list)
            for number in range(options.repetitions):
                for way in random.Random(number).sample([*WAYS], len(WAYS)):  # noqa: S311 - an order
                    runs[way].append(answer(engines[way], ids, WAYS[way], options.tokens, time.process_time))
            for way, own in runs.items():
                base = runs["one at a time"]
                ratio = statistics.median(one.ms / two.ms for one, two in zip(own, base, strict=True))
                ms, same = statistics.median(one.ms for one in own), own[0].tokens == base[0].tokens
                cells = (f"{ms:.1f}", f"{ratio:.2f}", f"{own[0].per_step:.2f}", "yes" if same else "no")
                table.add_row(name, way, *cells)
    finally:
        for engine in {plain, *engines.values()}:
            engine.close()
    console.print(table)


class Drafts:
    """Drafts of a model of transformers behind each place of a text."""

    def __init__(self, model: Any, text: Sequence[int]) -> None:
        self._model, self._vectors = model, model.get_input_embeddings()
        self._cache: Any = DynamicCache(config=model.config)
        model(torch.tensor([text]), past_key_values=self._cache)

    def behind(self, token: int) -> dict[str, tuple[list[list[int]], int]]:
        """Paths, and how many forwards they took, by each way; the token is read for good."""
        first = self._said(self._vectors(torch.tensor(token)))
        held = self._cache.get_seq_length()
        best = first.topk(PATHS)
        chains = [self._chain(int(start), held) for start in best.indices]
        levels = self._mixed(best.values, best.indices, held)
        paired = [[level[rank] for level in levels] for rank in range(PATHS)]
        return {
            "a chain": (chains[:1], LENGTH),
            "three chains": (chains, 1 + PATHS * (LENGTH - 1)),
            "superposed": (paired, LENGTH),
        }

    def _said(self, vector: Tensor) -> Tensor:
        """Probabilities of what follows an input vector # [hidden] -> [vocabulary]."""
        found: Tensor = self._model(inputs_embeds=vector[None, None], past_key_values=self._cache).logits[0, -1]
        return found.softmax(-1)

    def _chain(self, start: int, held: int) -> list[int]:
        path = [start]
        while len(path) < LENGTH:
            path.append(int(self._said(self._vectors(torch.tensor(path[-1]))).argmax()))
        self._cache.crop(held - self._cache.get_seq_length())
        return path

    def _mixed(self, weights: Tensor, tokens: Tensor, held: int) -> list[list[int]]:
        levels = [tokens.tolist()]
        while len(levels) < LENGTH:
            mixture = (weights / weights.sum()) @ self._vectors(tokens)
            weights, tokens = self._said(mixture).topk(PATHS)
            levels.append(tokens.tolist())
        self._cache.crop(held - self._cache.get_seq_length())
        return levels


def right(paths: Sequence[Sequence[int]], text: Sequence[int]) -> int:
    """How many tokens of the best path are right."""
    return max(len([*takewhile(lambda pair: pair[0] == pair[1], zip(path, text, strict=True))]) for path in paths)


@torch.inference_mode()
def superposed(options: argparse.Namespace) -> None:
    """Count what drafts get right, and work out the time."""
    big = load_model(find_source(MODEL), device="cpu", compiled=True)
    rows = (1, 1 + LENGTH, 1 + LENGTH * PATHS)
    steps = {own: took["median"] for own, took in cost_of_rows(big, 9, time.process_time, rows).items()}
    engine, texts = Engine(big, prefix_cache_bytes=0, threads=1), []
    try:
        for question in QUESTIONS:
            ids = prompt(big, question)
            texts.append((ids, answer(engine, ids, "autoregressive", options.tokens, time.process_time).tokens))
    finally:
        engine.close()
    table = Table("layers left out", "way", "right of 3", "forwards", "rows", "over one at a time")
    for left_out in options.leave_out:
        small, _ = shortened(MODEL, left_out)
        share = small.config.num_hidden_layers / (small.config.num_hidden_layers + left_out)
        found: dict[str, list[int]] = defaultdict(list)
        made: Mapping[str, tuple[list[list[int]], int]] = {}
        for ids, own in track(texts, f"without {left_out} layers", console=console, transient=True):
            drafts = Drafts(small, ids)
            for place in range(len(own) - LENGTH):
                made = drafts.behind(own[place])
                for way, (paths, _) in made.items():
                    found[way].append(right(paths, own[place + 1 : place + 1 + LENGTH]))
        for way, (paths, forwards) in made.items():
            mean, nodes = statistics.mean(found[way]), len(paths) * LENGTH
            took = (forwards * share * steps[1] + steps[1 + nodes]) / (1 + mean) / steps[1]
            table.add_row(str(left_out), way, f"{mean:.2f}", str(forwards), str(1 + nodes), f"{took:.2f}")
    console.print(table)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("staged", "superposed"))
    parser.add_argument("--tokens", type=int, default=60, help="of an answer at most")
    parser.add_argument("--repetitions", type=int, default=2, help="of staged drafts")
    parser.add_argument("--leave-out", nargs="+", type=int, default=[4, 10], help="layers, of superposed drafts")
    options = parser.parse_args()
    limit_threads(1)
    torch.set_num_threads(1)
    console.print(f"{MODEL}, {machine()}", highlight=False)
    {"staged": staged, "superposed": superposed}[options.what](options)


if __name__ == "__main__":
    main()
