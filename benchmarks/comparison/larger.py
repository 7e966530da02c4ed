"""A larger model with random weights: what a step costs, over the time in which its weights can be read."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from bandwidth import floor_ms, read_bandwidth, weight_bytes
from measuring import Spread
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from comparison.ours import Ours
from comparison.peers import greedy
from comparison.run import Run, Task
from stretto.local_engine.model.loading.load import LoadedModel, prepare
from stretto.local_engine.serving.engine import Engine
from stretto.local_engine.serving.step_timing import measure_step_cost

__all__ = ["LARGE", "SMALL", "Shape", "StepCosts", "random_model", "step_costs"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int
    tied: bool = True


LARGE = Shape(2048, 5632, 8, 16, 8, 32_000)  # 443 million parameters, 0.89 GB in bfloat16
SMALL = Shape(64, 128, 2, 4, 2, 512)
_LEAST = 9  # repetitions: memory is not as fast at every moment


@dataclass(frozen=True)
class StepCosts:
    """What was measured; milliseconds.

    Attributes:
        gigabytes: of the weights as they are published; no step can read less.
        bandwidth: gigabytes a second, the better of before and after each repetition's steps of the engine.
        ours: a plain step of the engine, one value for each repetition.
        over_floor: each of these by the time in which memory gave the weights then: it may give twice as much at one
            moment as at another, where a machine is shared.
        transformers: a plain step of transformers' ``generate``.
        rows: a forward alone, by its rows.
        threads: of torch, for all of them.
    """

    gigabytes: float
    bandwidth: Spread
    ours: Spread
    over_floor: Spread
    transformers: Spread
    rows: dict[int, float]
    threads: int


def random_model(shape: Shape, dtype: torch.dtype, device: str = "cpu", window: int = 2048) -> tuple[Any, Any]:
    """A Llama of this shape with random weights, and a tokenizer that has a word for each id.

    The weights are drawn in bfloat16, in which most models are published, whatever they become.
    """
    config = transformers.LlamaConfig(
        hidden_size=shape.hidden, intermediate_size=shape.intermediate, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.key_value_heads, vocab_size=shape.vocabulary,
        max_position_embeddings=window, tie_word_embeddings=shape.tied, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(3)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model: Any = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    words = Tokenizer(WordLevel({str(token): token for token in range(shape.vocabulary)}, unk_token="0"))  # noqa: S106 - a token
    wrap: Any = transformers.PreTrainedTokenizerFast
    return model.to(dtype).eval(), wrap(tokenizer_object=words, eos_token="2", pad_token="0")  # noqa: S106 - tokens


def step_costs(shape: Shape, dtype: torch.dtype, *, tokens: int, repetitions: int) -> StepCosts:
    """Measure in turns; a random model has no end, so each answer has all its tokens."""
    model, tokenizer = random_model(shape, dtype)
    size = weight_bytes(model) * torch.bfloat16.itemsize // dtype.itemsize  # as published: float32 need not read more
    model.generation_config.eos_token_id = None
    loaded: LoadedModel = replace(prepare("local:random", copy.deepcopy(model), tokenizer), end_ids=frozenset())
    threads = loaded.threads or torch.get_num_threads()
    prompt = tuple(range(5, 37))
    engine = Engine(loaded, threads=threads, prefix_cache_bytes=0)
    try:
        methods = (Ours(engine, "autoregressive"), greedy(model, threads=threads))
        times: dict[str, list[float]] = {method.name: [] for method in methods}
        bandwidths, megabytes = [], max(size // 1_000_000, 1)
        for repetition in range(max(repetitions, _LEAST) + 1):
            for method in methods:
                before = read_bandwidth(megabytes, threads=threads)
                run: Run = method.answer(Task(prompt, tokens if repetition else 3))
                if repetition:
                    times[method.name].append(1e3 * run.decoding_s / max(run.decoded, 1))
                if repetition and not method.peer:
                    bandwidths.append(max(before, read_bandwidth(megabytes, threads=threads)))
    finally:
        engine.close()
    torch.set_num_threads(threads)
    rows = measure_step_cost(loaded)
    ours, theirs = (Spread.of(times[method.name]) for method in methods)
    floors = [floor_ms(size, bandwidth) for bandwidth in bandwidths]
    over = [step / floor for step, floor in zip(times[methods[0].name], floors, strict=True)]
    return StepCosts(
        gigabytes=size / 1e9, bandwidth=Spread.of(bandwidths), ours=ours, over_floor=Spread.of(over),
        transformers=theirs, rows={count: rows(count) for count in (1, 2, 4, 8, 16, 32, 64)}, threads=threads,
    )  # fmt: skip
