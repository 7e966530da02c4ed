"""What the engine is compared with on a GPU: transformers' ways to decode one sequence, a long prompt, batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from bandwidth import synchronise
from comparison.ours import Ours
from comparison.peers import Compiled, Peer, greedy, prompt_lookup
from comparison.run import Method, Task
from measuring import Spread
from transformers import GenerationConfig

from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.serving.engine import Engine

__all__ = ["against_peers", "peers", "single"]


@contextmanager
def without_cudnn(_model: Any, _task: Task) -> Iterator[None]:
    """Keep cuDNN's attention, which plans for each new shape, away from a peer."""
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # not typed there
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def peers(model: Any, *, slots: int) -> list[Peer]:
    """Transformers as it is, and on a GPU without cuDNN's attention, and with a static cache and a compiled forward."""
    threads = torch.get_num_threads()
    found = [greedy(model, threads=threads), prompt_lookup(model, threads=threads)]
    if model.device.type != "cuda":
        return found
    lookup = {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 3}
    return [
        *found,
        Peer("transformers, no cuDNN attention", model, {}, threads=threads, around=without_cudnn),
        Peer("hf prompt lookup, no cuDNN attention", model, lookup, threads=threads, drafts=True, around=without_cudnn),
        Compiled(model, threads=threads, slots=slots, mode="reduce-overhead"),
    ]


def single(methods: Sequence[Method], tasks: Sequence[Task], repetitions: int) -> list[dict[str, Any]]:
    """Decode the same texts by each method, and once before that is not counted."""
    found = []
    for method in methods:
        speeds, tokens = [], 0.0
        for repetition in range(repetitions + 1):
            runs = [method.answer(task) for task in tasks]
            decoded, seconds = sum(run.decoded for run in runs), sum(run.decoding_s for run in runs)
            if repetition:
                speeds.append(decoded / max(seconds, 1e-9))
                tokens = decoded / max(sum(run.steps for run in runs), 1)
        speed = Spread.of(speeds)
        found.append(
            {
                "method": method.name,
                "tokens_per_s": speed,
                "tokens_per_step": tokens,
                "ms_per_token": 1e3 / max(speed.median, 1e-9),
            }
        )
    return found


def first_token(methods: Sequence[Method], length: int, repetitions: int) -> dict[str, Spread]:
    """Milliseconds to the first token of a long prompt, by method; the first time does not count."""
    found = {}
    for method in methods:
        times = [method.answer(Task(tuple(range(5, 5 + length)), 1)).first_s for _ in range(repetitions + 1)]
        found[method.name] = Spread.of([1e3 * each for each in times[1:]])
    return found


def batches_of_engine(engine: Engine, sizes: Sequence[int], tokens: int, repetitions: int) -> dict[int, Spread]:
    """Tokens a second of all requests together, short prompts included, by how many there are."""

    def run(size: int) -> float:
        began = time.perf_counter()
        with engine.announced():
            handles = [engine.submit(Generation(_prompt(number), tokens)) for number in range(size)]
        for handle in handles:
            last = list(handle)[-1]
            if not isinstance(last, Finished) or last.error is not None:
                raise RuntimeError(f"a request of a batch of {size} ended with {last}")
        return size * tokens / (time.perf_counter() - began)

    return {size: Spread.of([run(size) for _ in range(repetitions + 1)][1:]) for size in sizes}


def batches_of_peer(model: Any, sizes: Sequence[int], tokens: int, repetitions: int) -> dict[int, Spread]:
    """The same of transformers' `generate`, without cuDNN's attention."""
    make: Any = GenerationConfig  # untyped there
    config = make(max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, use_cache=True)

    def run(size: int) -> float:
        device = str(model.device.type)
        ids = torch.tensor([_prompt(number) for number in range(size)], device=model.device)
        synchronise(device)
        began = time.perf_counter()
        with torch.inference_mode(), without_cudnn(model, Task((), 0)):
            model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
        synchronise(device)
        return size * tokens / (time.perf_counter() - began)

    return {size: Spread.of([run(size) for _ in range(repetitions + 1)][1:]) for size in sizes}


def against_peers(engine: Engine, model: Any, *, tiny: bool, repetitions: int, alone: bool = False) -> dict[str, Any]:
    """All of it for one model: one sequence, a long prompt, batches; with ``alone`` the engine's figures only."""
    limit, prompt, sizes = (8, 40, (1, 2)) if tiny else (128, 2000, (1, 4, 16))
    ours = Ours(engine, "autoregressive")
    others = [] if alone else peers(model, slots=prompt + limit)
    together = {"engine": batches_of_engine(engine, sizes, limit, repetitions)}
    if not alone:
        together["transformers"] = batches_of_peer(model, sizes, limit, repetitions)
    return {
        "single": single([ours, *others], [Task(_prompt(0), limit)], repetitions),
        "prompt_tokens": prompt,
        "first_token_ms": first_token([ours, *others], prompt, repetitions),
        "batch_tokens_per_s": together,
    }


def _prompt(number: int) -> tuple[int, ...]:
    return tuple(range(5 + number, 69 + number))
