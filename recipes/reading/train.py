"""Training the pocket model to read documents: ``python -m recipes.reading.train``.

The weights are frozen. A product of two thin matrices is learned for each matrix of the layers (Hu et al., "LoRA",
arXiv:2106.09685). Lessons are the library's prompts for documents, over texts with hidden facts; every turn of the
assistant is learned. They get longer at first. The learning rate warms up, stays, and falls to zero. Training is seeded
and goes on from its last checkpoint when it is started again.

The adapter is written beside the weights, with their SHA-256.
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

import torch
from rich.console import Console
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.func import functional_call

from recipes.pocket.network import Network, NetworkConfig, Packed
from recipes.pocket.tokenizer import ASSISTANT, BEGIN, END, token_id
from recipes.program import (
    add_arguments,
    announce,
    forget_checkpoint,
    train_adapter,
    training_dtype,
    use_machine,
)
from recipes.reading.lessons import Lesson, Lessons, training_hay
from recipes.training import AdapterTraining
from stretto.local_engine.model.adapter_files import READING_FILE, fingerprint
from stretto.local_engine.model.reading import write_reading
from stretto.local_engine.pocket import MODEL_FOLDER

__all__ = ["Plan", "Trainer", "encoded", "main"]


Sums = dict[str, tuple[float, int]]
"""By task, the sum of losses in nats and the number of tokens."""


@dataclass(frozen=True)
class Plan:
    """The settings of a training run."""

    minutes: float = 45.0
    steps: int | None = None  # instead of minutes
    rank: int = 32
    tokens: int = 4096  # of a step
    micro: int = 1024  # of a batch, or one lesson that is longer
    rate: float = 0.002
    warm_up: int = 40  # steps
    fall: float = 0.4  # of the run, in which the rate falls
    harder: float = 0.4  # of the run, in which lessons get longer
    seed: int = 1
    save_every: float = 60.0  # seconds


class _Losses(torch.nn.Module):
    """Has a network's losses as its forward, so that `functional_call` can pass other weights."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, packed: Packed, targets: Tensor, dtype: torch.dtype) -> Tensor:
        return self.network.losses(packed, targets, dtype)


def encoded(lesson: Lesson, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """A lesson in tokens, and what should follow each of them: -1 where nothing is learned."""
    end = token_id(tokenizer, END)
    tokens = tokenizer.encode(BEGIN, add_special_tokens=False).ids
    wanted = [-1] * (len(tokens) - 1)
    for role, text in lesson.turns:
        if role == "assistant":
            given = tokenizer.encode(f"{ASSISTANT}\n", add_special_tokens=False).ids
            said = [*tokenizer.encode(text, add_special_tokens=False).ids, end]
            tokens += given
            wanted += [-1] * len(given) + said
            tokens += [*said, *tokenizer.encode("\n", add_special_tokens=False).ids]
            wanted += [-1]
        else:
            found = tokenizer.encode(f"<|{role}|>\n{text.strip()}{END}\n", add_special_tokens=False).ids
            tokens += found
            wanted += [-1] * len(found)
    return tokens[:-1], wanted[: len(tokens) - 1]


class Trainer(AdapterTraining[Sums]):
    """One training run, continued from ``folder`` if it holds a checkpoint."""

    every = 20

    def __init__(
        self, plan: Plan, base: Path, folder: Path, lessons: Lessons, *, dtype: torch.dtype, threads: int = 1
    ) -> None:
        self.plan, self.lessons, self.dtype = plan, lessons, dtype
        self.tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        network = Network(_config(base))
        network.load_state_dict(
            {name: tensor.float() for name, tensor in load_file(base / "model.safetensors").items()}
        )
        network.requires_grad_(requires_grad=False)
        self.network = _Losses(network)
        self.weights = {
            name: parameter
            for name, parameter in network.named_parameters()
            if parameter.ndim == 2 and "embed" not in name
        }
        generator = torch.Generator().manual_seed(plan.seed)
        tensors: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            outputs, inputs = weight.shape
            tensors[f"{name}.inner"] = torch.randn(plan.rank, inputs, generator=generator) / inputs**0.5
            tensors[f"{name}.outer"] = torch.zeros(outputs, plan.rank)
        super().__init__(plan, folder, tensors, fingerprint(base), rate=plan.rate, weight_decay=0.0)
        self._sums: Sums = {}
        self.workers = ThreadPoolExecutor(threads)
        if self.checkpoint.is_file():
            self.load()

    def step(self) -> Sums:
        """Train one step; by task the sum of losses in nats, and the number of tokens."""
        start = time.monotonic()
        plan = self.plan
        batches = self._batches()
        total = sum(int((targets >= 0).sum()) for _, targets, _ in batches)

        def work(at: int) -> tuple[Tensor, list[Tensor]]:
            packed, targets, _ = batches[at]
            merged = {
                f"network.{name}": weight + self.tensors[f"{name}.outer"] @ self.tensors[f"{name}.inner"]
                for name, weight in self.weights.items()
            }
            with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == torch.bfloat16):
                losses = functional_call(self.network, merged, (packed, targets, self.dtype))
            return losses.detach(), list(torch.autograd.grad(losses.sum() / total, list(self.tensors.values())))

        sums: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        order = sorted(range(len(batches)), key=lambda at: -len(batches[at][1]))
        for at, (losses, gradients) in zip(order, self.workers.map(work, order), strict=True):
            for tensor, gradient in zip(self.tensors.values(), gradients, strict=True):
                tensor.grad = gradient if tensor.grad is None else tensor.grad.add_(gradient)
            for task, loss in zip(batches[at][2], losses.tolist(), strict=True):
                before, count = sums[task]
                sums[task] = (before + loss, count + 1)
        self.update(falling=plan.fall, least=0.01, warm_up=plan.warm_up)
        self.seconds += time.monotonic() - start
        return sums

    def _batches(self) -> list[tuple[Packed, Tensor, list[str]]]:
        """The batches of one step: packed tokens, what follows each, and the task of each learned token."""
        chance = random.Random(f"{self.plan.seed}: step {self.number}")  # noqa: S311 - no secrets
        ease = max(0.0, 1 - self.progress / self.plan.harder)
        drawn, left = [], self.plan.tokens
        while left > 0:
            lesson = self.lessons.draw(chance, ease)
            tokens, wanted = encoded(lesson, self.tokenizer)
            drawn.append((tokens, wanted, lesson.task))
            left -= len(tokens)
        drawn.sort(key=lambda one: len(one[0]))
        groups: list[list[tuple[list[int], list[int], str]]] = []
        for one in drawn:
            size = sum(len(tokens) for tokens, _, _ in groups[-1]) if groups else 0
            if not groups or size + len(one[0]) > self.plan.micro or len(one[0]) > 1.5 * len(groups[-1][0][0]):
                groups.append([])
            groups[-1].append(one)
        found = []
        for group in groups:
            packed = Packed.of([tokens for tokens, _, _ in group])
            targets = torch.full_like(packed.tokens, -1)
            flat = [token for _, wanted, _ in group for token in wanted]
            targets[: len(flat)] = torch.tensor(flat)
            owners = [task for _, wanted, task in group for token in wanted if token >= 0]
            found.append((packed, targets, owners))
        return found

    def note(self, step: Sums) -> None:
        """See `Training`."""
        for task, (loss, count) in step.items():
            before, counted = self._sums.get(task, (0.0, 0))
            self._sums[task] = before + loss, counted + count

    def report(self) -> str:
        """See `Training`."""
        sums, self._sums = self._sums, {}
        text = " ".join(f"{task} {loss / count:.4f}" for task, (loss, count) in sorted(sums.items()))
        return f"step {self.number}, {self.seconds / 60:.1f} min, {self.progress:.0%}: loss of {text}"


def _config(base: Path) -> NetworkConfig:
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    return NetworkConfig(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        key_value_heads=config["num_key_value_heads"],
        intermediate=config["intermediate_size"],
        context=config["max_position_embeddings"],
        rope_theta=config["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) the adapter with which the pocket model reads documents."""
    parser = argparse.ArgumentParser(prog="python -m recipes.reading.train", description=main.__doc__)
    add_arguments(parser, minutes=Plan.minutes, folder=Path("build/reading"))
    parser.add_argument("--rank", type=int, default=Plan.rank, help="of what is added (default %(default)s)")
    parser.add_argument(
        "--base", type=Path, default=MODEL_FOLDER, help="folder of the weights; default: the pocket model's"
    )
    parser.add_argument("--target", type=Path, help=f"adapter to write; by default {READING_FILE} beside the weights")
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint to --target and stop")
    chosen = parser.parse_args(arguments)
    forget_checkpoint(chosen)
    # Batches have many shapes; kernels are kept for all of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
    use_machine()
    console, dtype = Console(), training_dtype("cpu")
    announce(console, "cpu", dtype, chosen.threads)
    plan = Plan(minutes=chosen.minutes, steps=chosen.steps, rank=chosen.rank, seed=chosen.seed)
    trainer = Trainer(plan, chosen.base, chosen.folder, Lessons(training_hay()), dtype=dtype, threads=chosen.threads)

    def write(file: Path) -> None:
        write_reading(file, {name: tensor.detach() for name, tensor in trainer.tensors.items()}, trainer.base)

    train_adapter(trainer, console, chosen.target or chosen.base / READING_FILE, write, train=not chosen.export_only)


if __name__ == "__main__":
    main()
