"""Training the projections of focus reading: ``python -m recipes.focus.train MODEL``.

The recipe of Li et al., arXiv:2408.11745, on a frozen model: a document is cut into chunks, each gives a candidate to
the frozen decoder over the local context, and only the projections at the candidate positions learn. Every step has all
kinds of loss: *continuation*, where the local context follows the memory; *repetition*, where it is a part of the
memory; and questions about needles in it. Many tokens of each local context carry loss, each with candidates that have
not read it. One more loss asks the candidate of the chunk with the answer for the answer itself. Chunks, of random
sizes, run without a gradient; it goes through the candidates only. Matrices learn by Muon. Where the folder has an
adapter for reading documents, the frozen model is its sum with the weights: one that can look something up in a chunk.

Only some chunks of a long document are computed. A candidate also represents the left out ones up to the next: the
logarithm of their number is added to its attention scores.

The adapter is written next to the weights, with the SHA-256 of both. Training is seeded and goes on from its last
checkpoint when it is started again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recipes.focus.losses import chunks_of, lesson_losses, lookup_losses
from recipes.focus.needles import Haystack, Job, Lessons, pocket_texts, texts_in
from recipes.pocket.optimiser import Optimiser
from recipes.program import (
    add_arguments,
    announce,
    folder_of,
    forget_checkpoint,
    train_adapter,
    training_dtype,
)
from recipes.training import MuonTraining, llama_forward
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, fingerprint
from stretto.local_engine.model.formats.differences import reading_change
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, new_tensors, read_focus, write_focus
from stretto.values.errors import SettingsError, StrettoError

__all__ = ["LOSSES", "Plan", "Shares", "Trainer", "main"]

LOSSES = ("question", "repetition", "continuation")


@dataclass(frozen=True)
class Plan:
    """The settings of a training run."""

    minutes: float = 62.0
    steps: int | None = None  # instead of minutes
    rank: int | None = None  # of the matrix added to a projection; None for a full matrix
    losses: tuple[str, ...] = LOSSES
    chunk: int = 256  # tokens at most
    appended: int = 64
    learned: int = 5  # tokens of a local context that carry loss in one step
    skilled: tuple[float, float] = (0.75, 0.85)  # shares of recalled tokens that are right; below the first, lessons
    climb: float = 0.02  # get easier by this in a step, and above the second harder; 1 is the hardest level
    rate: float = 0.03
    warm_up: int = 20  # steps
    fall: float = 0.5  # of the run, in which the rate falls
    seed: int = 1
    save_every: float = 60.0  # seconds


@dataclass
class Shares:
    """Sums over the tokens with loss of some lessons, by kind of loss."""

    loss: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Shares) -> Shares:
        return Shares(self.loss + other.loss, self.right + other.right, self.tokens + other.tokens)

    def __str__(self) -> str:
        kinds = [kind for kind in ("lookup", *LOSSES) if self.tokens[kind]]
        parts = (
            f"{kind} {self.loss[kind] / self.tokens[kind]:.2f} ({self.right[kind] / self.tokens[kind]:.0%} right)"
            for kind in kinds
        )
        return "loss of " + ", ".join(parts)


def _chosen(chance: random.Random, job: Job, count: int) -> list[int]:
    """The indices of the tokens with loss in one step: mostly those that only the memory can give."""
    every, recalled = range(job.learned, len(job.tokens)), range(*job.recalled)
    if job.loss != "question":
        return sorted(chance.sample(every, min(len(every), count // 2)))
    chosen = chance.sample(recalled, min(len(recalled), count - 1 if chance.random() < 0.7 else count // 2))
    others = [place for place in every if place not in chosen]
    return sorted([*chosen, *chance.sample(others, min(len(others), count - len(chosen)))])


class Projections(nn.Module):
    """The tensors of an adapter, with query, key and value apart: Muon would make their changes equally large."""

    def __init__(self, forward: LlamaForward, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        heads, stored = forward.heads
        self._rows = [heads * forward.head_width, stored * forward.head_width, stored * forward.head_width]
        self._names = [*tensors]
        self.take(tensors)

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the numbers of an adapter."""
        for name, tensor in tensors.items():
            parts = torch.split(tensor, self._rows) if _is_joined(name) else [tensor]
            for number, part in enumerate(parts):
                self.register_parameter(_key(name, number), nn.Parameter(part.detach().float().clone()))

    def joined(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The tensors of the adapter by name."""
        return {
            name: torch.cat(
                [self.get_parameter(_key(name, number)) for number in range(3 if _is_joined(name) else 1)]
            ).to(dtype)
            for name in self._names
        }


def _is_joined(name: str) -> bool:
    return name.endswith("query_key_value.outer")


def _key(name: str, number: int) -> str:
    return f"{name.replace('.', '-')}-{number}"


class Trainer(MuonTraining[Shares]):
    """One training run, continued from ``folder`` if it holds a checkpoint.

    Args:
        plan: the settings of the run.
        model: with unpacked weights, for gradients.
        lessons: draws what it learns from.
        folder: of the checkpoint.
        base: fingerprint of the weights.
        plain: the same model for what needs no gradient; packed, it is faster.

    Raises `SettingsError` for a model that can have no adapter, and for a checkpoint of another base or plan.
    """

    def __init__(
        self,
        plan: Plan,
        model: LoadedModel,
        lessons: Lessons,
        folder: Path,
        *,
        base: str = "",
        plain: LoadedModel | None = None,
    ) -> None:
        self.plan, self.lessons = plan, lessons
        self.forward, self.plain = llama_forward(model), llama_forward(model if plain is None else plain)
        self.projections = Projections(self.forward, new_tensors(self.forward, plan.rank, plan.seed))
        optimiser = Optimiser(self.projections, self.forward.dtype, matrix_rate=plan.rate, decay=0.0)
        super().__init__(plan, folder, dict(self.projections.named_parameters()), optimiser, base=base)
        self._workers = ThreadPoolExecutor(1)
        self.level, self.skill = 0.0, 0.0  # how hard the lessons are, and the recent share of right tokens
        self._shares = Shares()
        if self.checkpoint.is_file():
            self.load()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Of the adapter, by name."""
        return self.projections.joined(torch.float32)

    def adapter(self) -> FocusAdapter:
        """The adapter as trained so far."""
        tensors = {name: tensor.detach() for name, tensor in self.projections.joined(self.forward.dtype).items()}
        return FocusAdapter.of(tensors, self.plan.chunk, self.plan.appended)

    def begin_with(self, adapter: FocusAdapter) -> None:
        """Start from the adapter of an earlier run. Raises `SettingsError` for one of other sizes."""
        found = adapter.tensors()
        if {name: each.shape for name, each in found.items()} != {
            name: each.shape for name, each in self.tensors.items()
        }:
            raise SettingsError("The adapter to begin with has other sizes. Choose the same --rank, or begin without.")
        for name, parameter in Projections(self.forward, found).named_parameters():
            self.projections.get_parameter(name).data.copy_(parameter)

    def step(self) -> Shares:
        """Train one step: one lesson."""
        start = time.monotonic()
        chance = random.Random(f"{self.plan.seed}: step {self.number}")  # noqa: S311 - no secrets
        lesson = self.lessons.draw(chance, ease=1 - self.level)
        chosen = [_chosen(chance, job, self.plan.learned) for job in lesson.jobs]
        adapter = FocusAdapter.of(self.projections.joined(self.forward.dtype))
        shares = Shares()
        total, count, right, asked = torch.zeros(()), sum(map(len, chosen)), 0, 0
        cache = chunks_of(self.plain, lesson)
        found = lesson_losses(self.plain, self.forward, adapter, lesson, chosen, cache=cache)
        alone = lookup_losses(self.plain, self.forward, adapter, lesson, cache)
        for wanted, logits in alone:
            loss = cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="sum")
            total = total + loss / sum(each.numel() for each, _ in alone)
            hits = int((logits.argmax(-1) == wanted).sum())
            shares += Shares(
                Counter({"lookup": loss.item()}), Counter({"lookup": hits}), Counter({"lookup": wanted.numel()})
            )
        for job, (wanted, logits) in zip(lesson.jobs, found, strict=True):
            loss = cross_entropy(logits.float(), wanted, reduction="sum")
            total = total + job.weight * loss / count
            hits = int((logits.argmax(-1) == wanted).sum())
            if job.weight == 1 or "repetition" not in self.plan.losses:
                right, asked = right + hits, asked + len(wanted)
            shares += Shares(
                Counter({job.loss: loss.item()}),
                Counter({job.loss: hits}),
                Counter({job.loss: len(wanted)}),
            )
        total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for parameter in self.projections.parameters():
            if parameter.grad is None:  # the last output changes nothing but what lookups read
                parameter.grad = torch.zeros_like(parameter)
        warm, left = min(1.0, (self.number + 1) / self.plan.warm_up), (1 - self.progress) / self.plan.fall
        self.number += 1
        self.optimiser.step(self.number, warm * min(1.0, max(0.02, left)), self._workers)
        self.skill = 0.9 * self.skill + 0.1 * right / max(1, asked)
        low, high = self.plan.skilled
        if not low < self.skill < high:
            self.level = min(1.0, max(0.0, self.level + self.plan.climb * (1 if self.skill >= high else -1)))
        self.seconds += time.monotonic() - start
        return shares

    def note(self, step: Shares) -> None:
        """See `Training`."""
        self._shares += step

    def report(self) -> str:
        """See `Training`."""
        shares, self._shares = self._shares, Shares()
        return f"step {self.number}, {self.seconds / 60:.1f} min, {self.progress:.0%}, level {self.level:.2f}: {shares}"

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See `Training`."""
        tensors, state = super().kept()
        return tensors, state | {"level": self.level, "skill": self.skill}

    def load(self) -> dict[str, Any]:
        """See `MuonTraining`."""
        state = super().load()
        self.level, self.skill = float(state["level"]), float(state["skill"])
        return state


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) the projections of focus reading for a model of the Llama family."""
    parser = argparse.ArgumentParser(prog="python -m recipes.focus.train", description=main.__doc__)
    parser.add_argument("model", nargs="?", default="local:pocket", help="local:pocket or local:./folder")
    parser.add_argument(
        "--texts", type=Path, help="folder of text files to hide needles in; needed but for local:pocket"
    )
    add_arguments(parser, minutes=Plan.minutes, folder=Path("build/focus"))
    parser.add_argument("--rank", type=int, help="of what is added to each projection; by default whole matrices")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES), help="by default all")
    parser.add_argument("--chunk", type=int, default=256, help="tokens of a chunk at most (default 256)")
    parser.add_argument("--appended", type=int, default=64, help="local tokens after each chunk (default 64)")
    parser.add_argument("--tokens", type=int, default=1536, help="of the chunks of a step (default %(default)s)")
    parser.add_argument("--start", type=Path, help="adapter of the same sizes to begin with")
    parser.add_argument("--rate", type=float, default=Plan.rate, help="learning rate (default %(default)s)")
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint to --target and stop")
    parser.add_argument("--target", type=Path, help=f"adapter to write; by default {FOCUS_FILE} next to the weights")
    chosen = parser.parse_args(arguments)
    try:
        _train(chosen)
    except StrettoError as error:
        sys.exit(str(error))


def _train(chosen: argparse.Namespace) -> None:
    source, console = find_source(chosen.model), Console()
    folder = folder_of(source, chosen.texts, like="the documents it will read")
    forget_checkpoint(chosen)
    names = ("minutes", "steps", "rank", "chunk", "appended", "rate", "seed")
    given = {name: getattr(chosen, name) for name in names}
    plan = Plan(**given, losses=tuple(chosen.losses))
    torch.set_num_threads(chosen.threads)
    dtype = training_dtype("cpu")
    name = str(dtype).removeprefix("torch.")
    change = reading_change(folder, source.name)
    model = load_model(source, device="cpu", dtype=name, packed=False, change=change)
    plain = load_model(source, device="cpu", dtype=name, change=change)
    base = fingerprint(folder, reading=True)
    announce(console, "cpu", dtype, chosen.threads)
    draw = pocket_texts() if chosen.texts is None else texts_in(chosen.texts)
    lessons = Lessons(Haystack(model, draw), plan.losses, plan.chunk, plan.appended, chosen.tokens)
    trainer = Trainer(plan, model, lessons, chosen.folder, base=base, plain=plain)
    if chosen.start is not None and trainer.number == 0:
        trainer.begin_with(read_focus(chosen.start, base, source.name, trainer.forward, torch.device("cpu")))
    target = chosen.target or folder / FOCUS_FILE
    train_adapter(
        trainer, console, target, lambda file: write_focus(file, trainer.adapter(), base), train=not chosen.export_only
    )


if __name__ == "__main__":
    main()
