"""Whether every lossless decoding method gives, token for token, what one token at a time gives.

    python benchmarks/exactness.py                    four architectures with random weights, fp32 and fp64
    python benchmarks/exactness.py local:./folder     your own model
    python benchmarks/exactness.py local:smollm2 --dtypes default     as it is loaded without a dtype: in its few bits
    python benchmarks/exactness.py --prompts 20 --methods suffix auto
    python benchmarks/exactness.py --dtypes bfloat16  see below
    python benchmarks/exactness.py --minutes 30       stops then; the same command goes on where it stopped

Every prompt is answered one token at a time first, alone, then with every method in batches of 1, 3 and 8. One half of
them is greedy; the other is sampled at 0.7 with a seed, and the same seed must give the same answer. The random models
have a small vocabulary, so that they repeat themselves and drafts are accepted. Those of the Llama family have a random
adapter too, with which `lexical` drafts. Methods that need what your own model lacks, such as an adapter or a head, are
left out, and named.

In bfloat16, unless forwards are compiled, one of many rows rounds otherwise than one of one row, and where two tokens
are as good as equal the answers part. So there (Gemma 3) every answer is greedy, and each of its tokens is held against
a forward of one row after the same tokens: it must be the most probable one there, or its logit must be less than `GAP`
standard deviations of the row's logits below it.

What is finished is kept in a file after each model, dtype, method and batch.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tokenizers import Tokenizer, models

from stretto.local_engine.drafting.catalogue import DRAFTERS, LOSSY, DraftEquipment
from stretto.local_engine.drafting.catalogue import METHODS as CATALOGUE
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Figures, Finished, Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model, prepare
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine

ARCHITECTURES = ("llama", "qwen3", "mistral", "gemma3")
ADAPTED = ("llama", "qwen3", "mistral")  # the engine's own forward runs them, so they can have an adapter
BATCHES = (1, 3, 8)
DTYPES = ("float32", "float64")
GAP = 0.1
VOCABULARY = 48
METHODS = tuple(name for name in DRAFTERS if name not in LOSSY | {"autoregressive"})
LISTED = 40
console = Console()


@dataclass
class Cell:
    """What came of one model, dtype, method and batch.

    Attributes:
        same: answers that agree; where rounding may differ, tokens that are the most probable one or within the gap.
        of: answers, or tokens.
        tokens_per_step: committed by a forward, on average.
        widest: where rounding may differ, the widest gap seen, in standard deviations of the row's logits.
        mismatches: prompt, place and what was there, one line each.
    """

    same: int
    of: int
    tokens_per_step: float
    widest: float
    mismatches: list[str]


def tiny(architecture: str, dtype: str, noise: float = 0.0) -> LoadedModel:
    """A model with random weights, the same each time; with ``noise``, one that mostly agrees with it."""
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 3, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.2,
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
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(noise * torch.randn_like(weights))
            weights.copy_(weights.bfloat16())  # as most are published; float32 reads such ones as they are (`compiled`)
    letters = Tokenizer(models.BPE(vocab={chr(65 + token): token for token in range(VOCABULARY)}, merges=[]))
    wrap: Any = transformers.PreTrainedTokenizerFast
    ready = prepare(f"local:{architecture}", model, wrap(tokenizer_object=letters))
    if "lexical" in DRAFTERS and architecture in ADAPTED:
        assert isinstance(ready.forward, LlamaForward)
        attach_random(ready.forward, ready.dtype)
    return ready


def attach_random(forward: LlamaForward, dtype: torch.dtype) -> None:
    """Attach an adapter for `lexical` whose every part acts; what it says is chance."""
    from recipes.lexical.train import Plan, new_adapter  # noqa: PLC0415 - only where that method is
    from stretto.local_engine.research.lexical.pads import PadAdapter  # noqa: PLC0415

    generator = torch.Generator().manual_seed(13)
    parts = new_adapter(forward, Plan(tokens=4, beside=16, last=96))
    drawn = {name: 0.3 * torch.randn(part.shape, generator=generator).to(dtype) for name, part in parts.items()}
    forward.attach(PadAdapter.of(drawn))


def equipped(name: str, method: str) -> bool:
    """Whether a model has what a method needs: a model that drafts for it, an adapter or a head."""
    needs = CATALOGUE[method]
    source = find_source(name) if ":" in name else None
    folder = source.folder if source is not None else None
    if needs.drafted:
        return source is None
    if needs.missing is not None:
        return not needs.missing((source.file if source is not None else None) or folder, None)
    return not needs.adapter or name in ADAPTED or (folder is not None and (folder / needs.adapter).is_file())


def made(name: str, dtype: str) -> tuple[LoadedModel, LoadedModel | None]:
    """The model of that name, and one that drafts for it."""
    if ":" in name:
        return load_model(find_source(name), dtype=None if dtype == "default" else dtype), None
    return tiny(name, dtype), tiny(name, dtype, noise=0.02)


def questions(model: LoadedModel, count: int, length: int, *, greedy: bool) -> list[Generation]:
    """Prompts of 1 to 60 random tokens; answers of half to the whole length, so that they end at different times.

    A large vocabulary never repeats by chance, so its prompts are written three times: models go on with a fourth.
    """
    chance = random.Random(11)  # noqa: S311 - chance, not secrets
    vocabulary, repeats = (VOCABULARY, 1) if model.context_window == 512 else (len(model.tokenizer), 3)
    return [
        Generation(
            prompt=tuple(chance.randrange(vocabulary) for _ in range(chance.randint(1, 60))) * repeats,
            max_new_tokens=chance.randint(max(1, length // 2), length),
            temperature=0.0 if greedy else 0.7 * (number % 2),
            seed=number,
        )
        for number in range(count)
    ]


def answer(engine: Engine, requests: Sequence[Generation]) -> tuple[list[list[int]], list[Figures]]:
    """Run requests as one batch; their tokens, and how it went."""
    with engine.announced():
        handles = [engine.submit(request) for request in requests]
    ends = [list(handle)[-1] for handle in handles]
    for end in ends:
        assert isinstance(end, Finished)
        assert end.error is None, end.error
    figures = [end.figures for end in ends if isinstance(end, Finished) and end.figures is not None]
    assert not any(each.warnings for each in figures), figures
    return [handle.sequence.generated for handle in handles], figures


def gaps(model: LoadedModel, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """How far each token's logit is below the highest of a forward of one row, in standard deviations."""
    cache, found, keep = KeyValueCache(1), [], torch.tensor([0], device=model.device)
    text = [*prompt, *tokens]
    with torch.inference_mode():
        for start, stop in [(0, len(prompt)), *((place, place + 1) for place in range(len(prompt), len(text) - 1))]:
            ids = torch.tensor([text[start:stop]], device=model.device)
            positions = torch.arange(start, stop, device=model.device)[None]
            logits = model.forward(Rows(ids, positions, stop), cache, keep + stop - start - 1)[0, 0].float()
            found.append(float((logits.max() - logits[text[stop]]) / logits.std()))
    return found


def compared(got: Sequence[int], expected: Sequence[int], number: int) -> str | None:
    """Where an answer leaves the expected one; ``None`` if it does not."""
    if list(got) == list(expected):
        return None
    pairs = enumerate(zip(got, expected, strict=False))
    place = next((place for place, (one, other) in pairs if one != other), min(len(got), len(expected)))
    return f"prompt {number}, token {place}: {list(got[place : place + 3])}, not {list(expected[place : place + 3])}"


def _auto(equipment: DraftEquipment) -> Drafter:
    """Make `auto` believe that rows are cheap: by what a step of these models costs, it would draft nothing."""
    return DRAFTERS["auto"](replace(equipment, cost=StepCost({1: 10.0, 16: 10.1, 64: 20.0})))


class Run:
    """All cells of one model and dtype; the expected answers are found when they are first needed."""

    def __init__(self, name: str, dtype: str, count: int, length: int) -> None:
        self.model, draft = made(name, dtype)
        self.forced = not self.model.is_exact
        self._engine = Engine(self.model, draft=draft, drafters=DRAFTERS | {"auto": _auto})
        self._asked = questions(self.model, count, length, greedy=self.forced)
        self._expected: list[list[int]] = []

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def cell(self, method: str, batch: int) -> Cell:
        """Answer every prompt with one method, so many at once."""
        if not self._expected and not self.forced:
            self._expected = [answer(self._engine, [request])[0][0] for request in self._asked]
        cell, steps, tokens = Cell(0, 0, 0.0, 0.0, []), 0, 0
        for start in range(0, len(self._asked), batch):
            requests = [replace(request, decoding=method) for request in self._asked[start : start + batch]]
            got, figures = answer(self._engine, requests)
            steps += sum(each.steps for each in figures)
            tokens += sum(each.tokens for each in figures)
            for number, (request, generated) in enumerate(zip(requests, got, strict=True), start):
                self._judge(cell, number, request, generated)
        cell.tokens_per_step = tokens / max(steps, 1)
        return cell

    def _judge(self, cell: Cell, number: int, request: Generation, got: list[int]) -> None:
        if not self.forced:
            wrong = compared(got, self._expected[number], number)
            cell.same += wrong is None
            cell.of += 1
            cell.mismatches += [wrong] if wrong else []
            return
        for place, gap in enumerate(gaps(self.model, request.prompt, got)):
            cell.same += gap <= GAP
            cell.of += 1
            cell.widest = max(cell.widest, gap)
            if gap > GAP:
                cell.mismatches.append(f"prompt {number}, token {place}: {gap:.3f} standard deviations below the best")


def wanted(names: Sequence[str], dtypes: Sequence[str], methods: Sequence[str]) -> Iterator[tuple[str, str, str, int]]:
    """Every cell that can be filled."""
    for name in names:
        for dtype in dtypes:
            for method in methods:
                if equipped(name, method):
                    yield from ((name, dtype, method, batch) for batch in BATCHES)


def kept(path: Path, asked: dict[str, int], *, fresh: bool) -> dict[str, Cell]:
    """The finished cells of an earlier run."""
    if fresh or not path.exists():
        return {}
    saved = json.loads(path.read_text(encoding="utf-8"))
    if saved["asked"] != asked:
        console.print(f"{path} is of another run ({saved['asked']}, not {asked}). Give --fresh, or another --file.")
        sys.exit(2)
    return {name: Cell(**cell) for name, cell in saved["cells"].items()}


def work(given: argparse.Namespace) -> tuple[dict[str, Cell], int]:
    """Fill the cells that are not filled; those asked for, and how many are left."""
    asked = {"prompts": given.prompts, "tokens": given.tokens}
    cells = kept(given.file, asked, fresh=given.fresh)
    models = given.models or ARCHITECTURES
    for model in models:
        if lacking := [method for method in given.methods if not equipped(model, method)]:
            console.print(f"{model} lacks what these need: {', '.join(lacking)}.")
    todo = list(wanted(models, given.dtypes, given.methods))
    names = [" ".join(map(str, cell)) for cell in todo]
    until = time.monotonic() + 60 * given.minutes
    run, current = None, ("", "")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    given.file.parent.mkdir(parents=True, exist_ok=True)
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(todo), completed=sum(name in cells for name in names))
        for name, (model, dtype, method, batch) in zip(names, todo, strict=True):
            if name in cells:
                continue
            if time.monotonic() > until:
                break
            progress.update(bar, description=name)
            if run is None or current != (model, dtype):
                if run is not None:
                    run.close()
                run, current = Run(model, dtype, given.prompts, given.tokens), (model, dtype)
            cells[name] = run.cell(method, batch)
            saved = {"asked": asked, "cells": {one: asdict(cell) for one, cell in cells.items()}}
            part = given.file.with_suffix(".part")
            part.write_text(json.dumps(saved, indent=1), encoding="utf-8")
            part.replace(given.file)
            progress.advance(bar)
    if run is not None:
        run.close()
    return {name: cells[name] for name in names if name in cells}, sum(name not in cells for name in names)


def report(cells: dict[str, Cell]) -> int:
    """Print what agrees and, if something does not, what; how many that are."""
    table = Table("model", "dtype", "method", "batch", "same", "of", "tokens/step", "widest gap")
    table.columns[2].no_wrap = True
    wrong = Table("model", "dtype", "method", "batch", "where it parts", title="mismatches")
    for name, cell in cells.items():
        widest = f"{cell.widest:.3f}" if " bfloat16 " in name else ""
        table.add_row(*name.rsplit(maxsplit=3), str(cell.same), str(cell.of), f"{cell.tokens_per_step:.2f}", widest)
        for mismatch in cell.mismatches[: max(0, LISTED - wrong.row_count)]:
            wrong.add_row(*name.rsplit(maxsplit=3), mismatch)
    console.print(table)
    count = sum(cell.of - cell.same for cell in cells.values())
    if count:
        console.print(wrong)
    console.print(f"{sum(cell.same for cell in cells.values())} of {sum(cell.of for cell in cells.values())} agree.")
    return count


def main() -> None:
    """Print tables; the exit status is 1 if something differs, 3 if the time was up before all was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="local: names; by default tiny models with random weights")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=48, help="of each answer at most")
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS, metavar="METHOD")
    choices = (*DTYPES, "bfloat16", "default")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES, choices=choices, metavar="DTYPE")
    parser.add_argument("--minutes", type=float, default=240, help="stop after the cell that is then worked on")
    parser.add_argument("--file", type=Path, default=Path("build/exactness.json"), help="where finished cells are kept")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    cells, left = work(given)
    wrong = report(cells)
    if left:
        console.print(f"{left} cells are left; the same command goes on with them.")
    sys.exit(1 if wrong else 3 if left else 0)


if __name__ == "__main__":
    main()
