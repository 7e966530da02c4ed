"""Whether every lossless decoding method gives, token for token, what one token at a time gives.

    python benchmarks/exactness.py                    four architectures with random weights, fp32 and fp64
    python benchmarks/exactness.py local:./folder     a model of your own
    python benchmarks/exactness.py --prompts 20 --methods suffix auto

Every prompt is answered one token at a time first, alone, then with every method in batches of 1, 3 and 8. One half of
them is greedy; the other is sampled at 0.7 with a seed, and the same seed must give the same answer. The random models
have a small vocabulary, so that they repeat themselves and drafts are accepted.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, models

from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.engine import Engine
from stretto.local_engine.generation import Figures, Finished, Generation
from stretto.local_engine.load import LoadedModel, load_model, prepare
from stretto.local_engine.source import find_source

BATCHES = (1, 3, 8)
DTYPES = ("float32", "float64")
VOCABULARY = 48
METHODS = tuple(name for name in DRAFTERS if name not in EQUIPPED | {"autoregressive"})
console = Console()


def tiny(architecture: str, dtype: str) -> LoadedModel:
    """A model with random weights, the same each time."""
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "head_dim": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.3,
    }  # fmt: skip
    kinds: dict[str, Any] = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    configs: dict[str, Callable[[], Any]] = {
        "llama": lambda: transformers.LlamaConfig(**sizes),
        "qwen3": lambda: transformers.Qwen3Config(**sizes),
        "mistral": lambda: transformers.MistralConfig(**sizes, sliding_window=12),
        "gemma3": lambda: transformers.Gemma3TextConfig(**sizes, sliding_window=12, **kinds),
    }
    torch.manual_seed(7)
    make: Any = transformers.AutoModelForCausalLM.from_config
    model = make(configs[architecture](), dtype=getattr(torch, dtype))
    letters = Tokenizer(models.BPE(vocab={chr(65 + token): token for token in range(VOCABULARY)}, merges=[]))
    wrap: Any = transformers.PreTrainedTokenizerFast
    return prepare(f"local:{architecture}", model, wrap(tokenizer_object=letters))


def candidates(names: Sequence[str]) -> Iterator[tuple[str, str, LoadedModel]]:
    """Name, dtype and model of everything to be tried."""
    for name in names or ("llama", "qwen3", "mistral", "gemma3"):
        for dtype in DTYPES:
            yield name, dtype, load_model(find_source(name), dtype=dtype) if ":" in name else tiny(name, dtype)


def answer(engine: Engine, requests: Sequence[Generation]) -> tuple[list[list[int]], list[Figures]]:
    """Run requests as one batch; their tokens, and how it went."""
    with engine.announced():
        handles = [engine.submit(request) for request in requests]
    ends = [list(handle)[-1] for handle in handles]
    for end in ends:
        assert isinstance(end, Finished)
        assert end.error is None, end.error
    figures = [end.figures for end in ends if isinstance(end, Finished) and end.figures is not None]
    return [handle.sequence.generated for handle in handles], figures


def check(model: LoadedModel, methods: Sequence[str], count: int, length: int) -> dict[str, tuple[int, int, float]]:
    """For each method: answers that agree, answers, tokens per step."""
    chance = random.Random(11)  # noqa: S311 - chance, not secrets
    vocabulary = VOCABULARY if model.context_window == 512 else len(model.tokenizer)
    asked = [
        Generation(
            prompt=tuple(chance.randrange(vocabulary) for _ in range(chance.randint(1, 60))),
            max_new_tokens=length,
            temperature=0.7 * (number % 2),
            seed=number,
        )
        for number in range(count)
    ]
    results: dict[str, tuple[int, int, float]] = {}
    engine = Engine(model)
    try:
        expected = [answer(engine, [request])[0][0] for request in asked]
        for method in methods:
            same = steps = tokens = done = 0
            for batch in BATCHES:
                for start in range(0, count, batch):
                    chosen = slice(start, start + batch)
                    requests = [replace(request, decoding=method) for request in asked[chosen]]
                    got, figures = answer(engine, requests)
                    same += sum(one == other for one, other in zip(got, expected[chosen], strict=True))
                    done += len(got)
                    steps += sum(each.steps for each in figures)
                    tokens += sum(each.tokens for each in figures)
            results[method] = same, done, tokens / max(steps, 1)
    finally:
        engine.close()
    return results


def main() -> None:
    """Print a table; the exit status says whether all answers agreed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="local: names; by default tiny models with random weights")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS, metavar="METHOD")
    given = parser.parse_args()
    table = Table("model", "dtype", "method", "identical", "of", "tokens per step")
    wrong = 0
    for name, dtype, model in candidates(given.models):
        for method, (same, done, per_step) in check(model, given.methods, given.prompts, given.tokens).items():
            wrong += done - same
            table.add_row(name, dtype, method, str(same), str(done), f"{per_step:.2f}")
    console.print(table)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
