"""Training the pocket model from nothing: ``python -m recipes.pocket.train``.

The schedule runs by the clock (``--minutes``), so that a machine that is busy with other things trains on less text
but still ends with a small learning rate; or by a number of steps (``--steps``).  Training is seeded and resumes from
its last checkpoint in ``build/pocket`` when it is started again.

The schedule is warm-up, constant, then linear to zero (Hu et al., "MiniCPM", arXiv:2404.06395), and a short second
cycle (Loshchilov and Hutter, arXiv:1608.03983).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from recipes.pocket.batches import Feeder
from recipes.pocket.corpus import Corpus
from recipes.pocket.initial import put_copying
from recipes.pocket.network import Network, NetworkConfig
from recipes.pocket.optimiser import Optimiser
from recipes.pocket.schedule import PHASES, WEIGHTS, rate
from recipes.pocket.tokenizer import BEGIN, END, PAD, save_tokenizer, token_id, train_tokenizer
from recipes.program import (
    add_arguments,
    announce,
    run_until_stopped,
    training_dtype,
    use_machine,
)
from recipes.training import Training, read_state
from stretto.local_engine.pocket import pocket_folder

__all__ = ["Plan", "Trainer", "export", "main"]


@dataclass(frozen=True)
class Plan:
    """What a training run is: its length and its batches."""

    minutes: float = 72.0
    steps: int | None = None
    tokens: int = 6144
    micro: int = 1024
    context: int = 1536
    seed: int = 1
    save_every: float = 120.0  # seconds
    matrix_rate: float = 0.02
    other_rate: float = 0.003
    warm_up: int = 60  # steps until the learning rate is whole


class Trainer(Training[dict[str, float]]):
    """One training run, continued from ``folder`` if it holds a checkpoint."""

    every = 20

    def __init__(
        self,
        plan: Plan,
        config: NetworkConfig,
        folder: Path,
        *,
        corpus: Corpus | None = None,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int = 1,
    ) -> None:
        super().__init__(plan, folder)
        self.plan, self.config, self.device, self.dtype = plan, config, device, dtype
        corpus = corpus or Corpus()
        path = folder / "tokenizer.json"
        if not path.is_file():
            chance = random.Random(plan.seed)  # noqa: S311 - no secrets
            code = [corpus.draw("code", chance).answer for _ in range(1500)]
            made = [
                turn
                for task in ("items", "transform", "unknown")
                for _ in range(1500)
                for turn in _strings(corpus, task, chance)
            ]
            tokenizer = train_tokenizer([*corpus.texts() * 4, *code, *made], config.vocabulary)
            if tokenizer.get_vocab_size() != config.vocabulary:
                raise ValueError(
                    f"the text gives {tokenizer.get_vocab_size()} tokens, not {config.vocabulary}: "
                    "choose a smaller vocabulary"
                )
            save_tokenizer(tokenizer, folder, config.context)
        self.tokenizer = Tokenizer.from_file(str(path))
        self.feeders = [(end, Feeder(corpus, self.tokenizer, mix, plan.context, plan.seed)) for end, mix in PHASES]
        self.network = Network(config, seed=plan.seed)
        put_copying(self.network, plan.seed)
        self.network.to(device)
        self.optimiser = Optimiser(self.network, dtype, matrix_rate=plan.matrix_rate, other_rate=plan.other_rate)
        self.seen = 0  # tokens
        self._losses: dict[str, list[float]] = defaultdict(list)  # by task, since the last report
        # One core per batch: threads inside every operation would wait for each other on a busy machine.
        self.workers = ThreadPoolExecutor(threads)
        if self.checkpoint.is_file():
            self._load()

    def factor(self) -> float:
        """What the learning rates are multiplied by at this point of the run."""
        warm = min(1.0, (self.number + 1) / self.plan.warm_up)
        return warm * rate(self.progress)

    def step(self) -> dict[str, float]:
        """Train one step; the mean loss in nats of a learned token, by task."""
        start = time.monotonic()
        feeder = next(feeder for end, feeder in self.feeders if self.progress <= end)
        batches = feeder.step(self.number, self.plan.tokens, self.plan.micro)
        weights = [
            torch.tensor([WEIGHTS.get(task, 1.0) for task in batch.tasks])[batch.owners] for batch in batches
        ]  # each [learned]
        total = float(sum(weight.sum() for weight in weights))
        parameters = list(self.network.parameters())

        def work(at: int) -> tuple[Tensor, list[Tensor]]:
            batch, weight = batches[at], weights[at]
            with torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
                losses = self.network.losses(batch.packed.to(self.device), batch.targets.to(self.device), self.dtype)
            loss = (losses @ weight.to(self.device)) / total
            return losses.detach().cpu(), list(torch.autograd.grad(loss, parameters))

        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        # Largest first, so that the workers end together; summed in a fixed order, so that training repeats exactly.
        order = sorted(range(len(batches)), key=lambda at: -len(batches[at].targets))
        for at, (losses, gradients) in zip(order, self.workers.map(work, order), strict=True):
            batch = batches[at]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
            for owner, value in zip(batch.owners.tolist(), losses.tolist(), strict=True):
                entry = sums[batch.tasks[owner]]
                entry[0] += value
                entry[1] += 1
            self.seen += batch.size
        factor = self.factor()
        self.number += 1
        self.optimiser.step(self.number, factor, self.workers)
        self.seconds += time.monotonic() - start
        return {task: loss / count for task, (loss, count) in sums.items()}

    def note(self, step: dict[str, float]) -> None:
        """See `Training`."""
        for task, loss in step.items():
            self._losses[task].append(loss)

    def report(self) -> str:
        """See `Training`; also a line of the log in the folder."""
        losses = {task: round(sum(values) / len(values), 4) for task, values in sorted(self._losses.items())}
        self._losses.clear()
        speed = round(self.seen / max(self.seconds, 1e-9))
        row = {
            "step": self.number,
            "done": round(self.progress, 4),
            "seconds": round(self.seconds),
            "tokens": self.seen,
        }
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps({**row, "tokens_per_second": speed, "loss": losses}) + "\n")
        text = " ".join(f"{task} {loss:.3f}" for task, loss in losses.items())
        return f"step {self.number} {self.progress:.1%} {speed} tokens/s: {text}"

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See `Training`."""
        tensors = {f"weights.{name}": tensor.contiguous() for name, tensor in self.network.weights().items()}
        tensors |= {f"optimiser.{name}": tensor.contiguous() for name, tensor in self.optimiser.state.items()}
        return tensors, {
            "number": self.number,
            "seconds": self.seconds,
            "seen": self.seen,
            "config": self.config.as_dict(),
        }

    def _load(self) -> None:
        path = self.checkpoint
        state = read_state(path)
        if state["config"] != self.config.as_dict():
            raise ValueError(
                f"{path} was trained with other sizes: {state['config']}; choose another folder or remove it"
            )
        tensors = load_file(path, device=self.device)
        self.network.load_state_dict(
            {name[8:]: tensor for name, tensor in tensors.items() if name.startswith("weights.")}
        )
        self.optimiser.load({name[10:]: tensor for name, tensor in tensors.items() if name.startswith("optimiser.")})
        self.number, self.seconds, self.seen = int(state["number"]), float(state["seconds"]), int(state["seen"])


def _strings(corpus: Corpus, task: str, chance: random.Random) -> list[str]:
    example = corpus.draw(task, chance)
    return [example.answer, *(content for _, content in example.turns)]


def export(folder: Path, target: Path) -> None:
    """Write the checkpoint in ``folder`` as a transformers folder with bfloat16 weights to ``target``."""
    path = folder / "checkpoint.safetensors"
    config = NetworkConfig(**read_state(path)["config"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pad, begin, end = (token_id(tokenizer, token) for token in (PAD, BEGIN, END))
    target.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, target, config.context)
    settings = config.as_transformers(pad=pad, begin=begin, ends=[end])
    (target / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    generation = {"bos_token_id": begin, "eos_token_id": [end], "pad_token_id": pad, "do_sample": False}
    (target / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")
    weights = {name[8:]: tensor.bfloat16() for name, tensor in load_file(path).items() if name.startswith("weights.")}
    new = target / "model.new"  # the file that is there may be mapped into a running program's memory
    save_file(weights, new, metadata={"format": "pt"})
    new.replace(target / "model.safetensors")


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) the pocket model and export it."""
    parser = argparse.ArgumentParser(prog="python -m recipes.pocket.train", description=main.__doc__)
    add_arguments(parser, minutes=Plan.minutes, folder=Path("build/pocket"))
    parser.add_argument("--target", type=Path, default=pocket_folder(), help="where the finished model is written")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="TOPIC",
        help="topics that were changed after the run, to be drawn every fourth time; give more --minutes than it had",
    )  # fmt: skip
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint to --target and stop")
    chosen = parser.parse_args(arguments)
    if chosen.export_only:
        export(chosen.folder, chosen.target)
        return
    if chosen.fresh:
        for name in ("checkpoint.safetensors", "tokenizer.json", "log.jsonl"):
            (chosen.folder / name).unlink(missing_ok=True)
    # Batches have many shapes; kernels are kept for all of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
    use_machine()
    console, device = Console(), "cuda" if torch.cuda.is_available() else "cpu"
    dtype = training_dtype(device)
    announce(console, device, dtype, chosen.threads)
    plan = Plan(minutes=chosen.minutes, steps=chosen.steps, seed=chosen.seed)
    trainer = Trainer(
        plan, NetworkConfig(), chosen.folder, corpus=Corpus(again=tuple(chosen.again)),
        device=device, dtype=dtype, threads=chosen.threads,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in trainer.network.parameters())
    console.print(f"{size / 1e6:.2f} million parameters, from step {trainer.number}", highlight=False)
    if run_until_stopped(trainer, console):
        export(chosen.folder, chosen.target)


if __name__ == "__main__":
    main()
