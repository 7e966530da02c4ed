"""Training the pocket model to read documents: ``python -m recipes.reading.train``.

The weights stay as they are. A copy of the matrices of their layers learns, by Muon, and the difference is the adapter.
Lessons are the library's own prompts for documents, over texts in which facts are hidden; every turn of the assistant
is learned. Lessons get longer at first. The learning rate warms up, stays, and falls to zero. Training is seeded and
goes on from its last checkpoint when it is started again.

The adapter is written next to the weights, four bits a number, and bound to them by their SHA-256.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from recipes.pocket.network import Network, NetworkConfig, Packed
from recipes.pocket.optimiser import Optimiser
from recipes.pocket.tokenizer import ASSISTANT, BEGIN, END, token_id
from recipes.program import (
    add_arguments,
    announce,
    forget_checkpoint,
    run_until_stopped,
    training_dtype,
    use_machine,
)
from recipes.reading.lessons import Lesson, Lessons, training_hay
from recipes.training import MuonTraining
from stretto.local_engine.model.adapters.adapter_files import READING_FILE, fingerprint
from stretto.local_engine.model.formats.differences import write_differences
from stretto.local_engine.pocket import pocket_folder

__all__ = ["Plan", "Trainer", "encoded", "main"]


Sums = dict[str, tuple[float, int, int, int]]
"""By task: losses in nats, of how many tokens; turns of the assistant without an unlikely token, and all turns."""

_LIKELY = math.log(2)  # a token with a smaller loss is likelier than all others together


@dataclass(frozen=True)
class Plan:
    """The settings of a training run."""

    minutes: float = 70.0
    steps: int | None = None  # instead of minutes
    tokens: int = 4096  # of a step
    micro: int = 1024  # of a batch, or one lesson that is longer
    rate: float = 0.007
    warm_up: int = 40  # steps
    fall: float = 0.4  # of the run, in which the rate falls
    harder: float = 0.4  # of the run, in which lessons get longer
    seed: int = 1
    save_every: float = 60.0  # seconds


def encoded(lesson: Lesson, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """A lesson in tokens, and what should follow each of them: -1 where nothing is learned."""
    end = token_id(tokenizer, END)
    tokens = tokenizer.encode(BEGIN, add_special_tokens=False).ids
    wanted = [-1] * (len(tokens) - 1)
    for role, text in lesson.turns:
        if role == "assistant":
            given = tokenizer.encode(f"{ASSISTANT}\n", add_special_tokens=False).ids
            answer = [*tokenizer.encode(text, add_special_tokens=False).ids, end]
            tokens += given
            wanted += [-1] * len(given) + answer
            tokens += [*answer, *tokenizer.encode("\n", add_special_tokens=False).ids]
            wanted += [-1]
        else:
            found = tokenizer.encode(f"<|{role}|>\n{text.strip()}{END}\n", add_special_tokens=False).ids
            tokens += found
            wanted += [-1] * len(found)
    return tokens[:-1], wanted[: len(tokens) - 1]


def _turns(wanted: Sequence[int]) -> list[int]:
    """How many tokens of each turn are learned."""
    return [len([*run]) for learned, run in itertools.groupby(wanted, lambda token: token >= 0) if learned]


class Trainer(MuonTraining[Sums]):
    """One training run, continued from ``folder`` if it holds a checkpoint."""

    every = 20

    def __init__(
        self, plan: Plan, base: Path, folder: Path, lessons: Lessons, *, dtype: torch.dtype, threads: int = 1
    ) -> None:
        self.plan, self.lessons, self.dtype = plan, lessons, dtype
        self.tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        self.network = Network(_config(base))
        self.network.load_state_dict(
            {name: tensor.float() for name, tensor in load_file(base / "model.safetensors").items()}
        )
        self.network.requires_grad_(requires_grad=False)
        layers = self.network.model.layers
        learning = {
            f"model.layers.{name}": parameter.requires_grad_()
            for name, parameter in layers.named_parameters()
            if parameter.ndim == 2
        }
        self.before = {name: parameter.detach().clone() for name, parameter in learning.items()}
        matrices = nn.ModuleList(module for module in layers.modules() if isinstance(module, nn.Linear))
        optimiser = Optimiser(matrices, dtype, matrix_rate=plan.rate, decay=0.0)
        super().__init__(plan, folder, learning, optimiser, base=fingerprint(base))
        self._sums: Sums = {}
        self.workers = ThreadPoolExecutor(threads)
        if self.checkpoint.is_file():
            self.load()

    def differences(self) -> dict[str, Tensor]:
        """What has been learned: by name of the weight, what is to be added to it."""
        return {name: parameter.detach() - self.before[name] for name, parameter in self.learning.items()}

    def step(self) -> Sums:
        """Train one step."""
        start = time.monotonic()
        batches = self._batches()
        total = sum(int((targets >= 0).sum()) for _, targets, _ in batches)

        def work(at: int) -> tuple[Tensor, tuple[Tensor, ...]]:
            packed, targets, _ = batches[at]
            with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == torch.bfloat16):
                losses = self.network.losses(packed, targets, self.dtype)
            return losses.detach(), torch.autograd.grad(losses.sum() / total, list(self.learning.values()))

        sums: Sums = {}
        order = sorted(range(len(batches)), key=lambda at: -len(batches[at][1]))
        for at, (losses, gradients) in zip(order, self.workers.map(work, order), strict=True):
            for parameter, gradient in zip(self.learning.values(), gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
            _count(sums, losses, batches[at][2])
        warm, left = min(1.0, (self.number + 1) / self.plan.warm_up), (1 - self.progress) / self.plan.fall
        self.number += 1
        self.optimiser.step(self.number, warm * min(1.0, max(0.01, left)), self.workers)
        self.seconds += time.monotonic() - start
        return sums

    def _batches(self) -> list[tuple[Packed, Tensor, list[tuple[str, int]]]]:
        """The batches of one step: packed tokens, what follows each, and task and size of each turn that is learned."""
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
            found.append((packed, targets, [(task, size) for _, wanted, task in group for size in _turns(wanted)]))
        return found

    def note(self, step: Sums) -> None:
        """See `Training`."""
        for task, counted in step.items():
            self._sums[task] = _added(self._sums.get(task, _NONE), counted)

    def report(self) -> str:
        """See `Training`."""
        sums, self._sums = self._sums, {}
        text = ", ".join(
            f"{task} {loss / tokens:.4f} ({right}/{turns})"
            for task, (loss, tokens, right, turns) in sorted(sums.items())
        )
        return f"step {self.number}, {self.seconds / 60:.1f} min, {self.progress:.0%}: loss (turns right) of {text}"


_NONE = (0.0, 0, 0, 0)


def _added(one: tuple[float, int, int, int], other: tuple[float, int, int, int]) -> tuple[float, int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _count(sums: Sums, losses: Tensor, turns: Sequence[tuple[str, int]]) -> None:
    """Add the losses of the turns of a batch, each with its task and its number of tokens."""
    start = 0
    for task, count in turns:
        part = losses[start : start + count]
        start += count
        right = int(part.max() < _LIKELY)
        sums[task] = _added(sums.get(task, _NONE), (float(part.sum()), count, right, 1))


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
    parser.add_argument(
        "--base", type=Path, default=pocket_folder(), help="folder of the weights; default: the pocket model's"
    )
    parser.add_argument("--target", type=Path, help=f"adapter to write; by default {READING_FILE} next to the weights")
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint to --target and stop")
    chosen = parser.parse_args(arguments)
    forget_checkpoint(chosen)
    # Batches have many shapes; kernels are kept for all of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
    use_machine()
    console, dtype = Console(), training_dtype("cpu")
    announce(console, "cpu", dtype, chosen.threads)
    plan = Plan(minutes=chosen.minutes, steps=chosen.steps, seed=chosen.seed)
    trainer = Trainer(plan, chosen.base, chosen.folder, Lessons(training_hay()), dtype=dtype, threads=chosen.threads)
    size = sum(parameter.numel() for parameter in trainer.learning.values())
    console.print(f"{size / 1e6:.2f} million parameters, from step {trainer.number}", highlight=False)
    if chosen.export_only or run_until_stopped(trainer, console):
        target = chosen.target or chosen.base / READING_FILE
        write_differences(target, trainer.differences(), trainer.base)
        console.print(f"wrote {target}", highlight=False)


if __name__ == "__main__":
    main()
