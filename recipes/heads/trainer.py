"""Trains a head on texts that its model wrote."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor
from torch.nn.functional import cross_entropy

from recipes.heads.network import Head
from recipes.heads.target import Target
from recipes.heads.texts import Batch, Texts
from recipes.pocket.optimiser import Optimiser
from recipes.training import MuonTraining

__all__ = ["Plan", "Shares", "Trainer", "guesses"]


@dataclass(frozen=True)
class Plan:
    """The settings of a training run."""

    minutes: float = 30.0
    steps: int | None = None  # instead of minutes
    tokens: int = 2048  # of the texts of a step
    fading: float = 0.8  # weight of a guess over that of the one before it
    rate: float = 0.02  # of matrices, by Muon
    other_rate: float = 0.001  # of norms and the output matrix, by Adam
    warm_up: int = 40  # steps
    least: float = 0.02  # what the rates fall to
    seed: int = 1
    save_every: float = 60.0  # seconds


@dataclass
class Shares:
    """How some steps went; tensors, so that a GPU need not be waited for.

    Attributes:
        loss: summed over the guesses of a token, and over the steps.
        right: tokens that were guessed as the model would say them, by guess # [depth]
        tokens: that were to be guessed.
        steps: their number.
    """

    loss: Tensor
    right: Tensor
    tokens: int
    steps: int = 1

    def __add__(self, other: Shares) -> Shares:
        return Shares(
            self.loss + other.loss, self.right + other.right, self.tokens + other.tokens, self.steps + other.steps
        )

    def __str__(self) -> str:
        shares = (self.right / max(1, self.tokens)).tolist()
        return f"loss {self.loss.item() / self.steps:.2f}, right: " + ", ".join(f"{one:.1%}" for one in shares)


def guesses(target: Target, head: Head, batch: Batch) -> tuple[list[Tensor], Tensor]:
    """What a head says of the guessed tokens of a batch, and what the model says of them.

    Returns:
        for each guess the logits # [guessed, words], and the probabilities # [guessed, words]
    """
    seen = target.seen(batch)
    chances = target.chances(seen.last[batch.rows, batch.places - 1], head.words)
    states = head.states(seen)
    return [head.logits(each[batch.rows, batch.places - 2 - number]) for number, each in enumerate(states)], chances


class Trainer(MuonTraining[Shares]):
    """One training run, continued from ``folder`` if it holds a checkpoint.

    Args:
        plan: the settings of the run.
        target: the frozen model.
        head: to be trained.
        texts: that the model wrote.
        folder: of the checkpoint.
        base: fingerprint of the weights.
        export: writes the head as it will be used, at each checkpoint.

    Raises `SettingsError` for a checkpoint of other weights or sizes.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        head: Head,
        texts: Texts,
        folder: Path,
        *,
        base: str = "",
        export: Callable[[Head], object] = id,
    ) -> None:
        self.plan, self.target, self.head, self.texts = plan, target, head, texts
        self._export = export
        small = target.dtype in (torch.bfloat16, torch.float16)
        optimiser = Optimiser(
            head,
            target.dtype if small else torch.float32,
            matrix_rate=plan.rate,
            other_rate=plan.other_rate,
            decay=0.0,
        )
        super().__init__(plan, folder, dict(head.named_parameters()), optimiser, base=base)
        self._type = torch.autocast(target.device.type, torch.bfloat16, enabled=small)
        self._workers = ThreadPoolExecutor(1)
        self._shares: Shares | None = None
        if self.checkpoint.is_file():
            self.load()

    def step(self) -> Shares:
        """Train one step."""
        start = time.monotonic()
        chance = random.Random(f"{self.plan.seed}: step {self.number}")  # noqa: S311 - no secrets
        batch = self.texts.draw(chance, self.plan.tokens)
        with self._type:
            found, chances = guesses(self.target, self.head, batch)
        # The small vocabulary says nothing of a token outside it.
        inside = torch.isin(batch.tokens[batch.rows, batch.places], self.head.words).float()
        losses, right, best = [], [], chances.argmax(-1)
        for number, logits in enumerate(found):
            each = cross_entropy(logits.float(), chances, reduction="none") @ inside / inside.sum().clamp(min=1)
            losses.append(each * self.plan.fading**number)
            right.append(((logits.detach().argmax(-1) == best) & (inside > 0)).sum())
        loss = torch.stack(losses).sum()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.number += 1
        warm = min(1.0, self.number / self.plan.warm_up)
        self.optimiser.step(self.number, warm * max(self.plan.least, 1 - self.progress), self._workers)
        self.seconds += time.monotonic() - start
        return Shares(loss.detach(), torch.stack(right), len(inside))

    def note(self, step: Shares) -> None:
        """See `Training`."""
        self._shares = step if self._shares is None else self._shares + step

    def report(self) -> str:
        """See `Training`."""
        shares, self._shares = self._shares, None
        return f"step {self.number}, {self.seconds / 60:.1f} min, {self.progress:.0%}: {shares}"

    def save(self) -> None:
        """Write the checkpoint, and the head as it will be used."""
        super().save()
        self._export(self.head)

    def run(self, console: Console) -> None:
        """See `Training`."""
        size = sum(parameter.numel() for parameter in self.head.parameters())
        console.print(f"{size / 1e6:.2f} million parameters, from step {self.number}", highlight=False)
        super().run(console)
