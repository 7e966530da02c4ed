"""Training runs that learn a small change of a causal model's weights, on a processor or a GPU.

Batches are made ahead by other processes, from the number of their step alone, so a run goes on exactly where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import Tensor

from recipes.packing import Arrays
from recipes.pocket.optimiser import Optimiser
from recipes.program import add_arguments, announce, run_until_stopped, training_dtype, use_machine
from recipes.stacked import KINDS, Change, StackedLlama
from recipes.training import Training, read_state
from stretto.local_engine.model.adapters.adapter_files import CHANGE_FILE, fingerprint
from stretto.local_engine.model.formats.differences import changed_weights, write_differences
from stretto.local_engine.pocket import pocket_folder

__all__ = ["Ahead", "Tuning", "TuningPlan", "add_tuning_arguments", "seeded", "tune"]


Batches = TypeVar("Batches")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
_made: Callable[[int], Any]  # what a process makes batches with


def _begin(make: Callable[[], Callable[[int], Any]]) -> None:
    global _made  # noqa: PLW0603 - of this process alone
    torch.set_num_threads(1)
    _made = make()


def _make(number: int) -> Any:
    return _made(number)


class Ahead(Generic[Batches]):
    """What belongs to each step, made by other processes before it is needed.

    Args:
        make: makes, in each process, the function from a step's number to what belongs to it; it can be pickled.
        workers: processes; 0: this one makes everything when it is asked.
    """

    def __init__(self, make: Callable[[], Callable[[int], Batches]], workers: int) -> None:
        self._own = make() if workers == 0 else None
        self._pool = (
            ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=(make,))
            if workers
            else None
        )
        self._waiting: deque[tuple[int, Future[Batches]]] = deque()
        self._ahead = 4 * workers

    def step(self, number: int) -> Batches:
        """What belongs to a step."""
        if self._pool is None:
            if self._own is None:
                raise ValueError("closed")
            return self._own(number)
        if self._waiting and self._waiting[0][0] != number:
            self._waiting.clear()
        start = self._waiting[-1][0] + 1 if self._waiting else number
        for later in range(start, number + self._ahead + 1):
            self._waiting.append((later, self._pool.submit(_make, later)))
        return self._waiting.popleft()[1].result()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class TuningPlan:
    """How long a run is, its batches and its learning rates.

    Attributes:
        minutes: by the clock.
        steps: instead of minutes.
        rows: of a batch.
        length: tokens of a row.
        seed: of all that is drawn.
        save_every: seconds.
        matrix_rate: learning rate of matrices.
        other_rate: of everything else.
        warm_up: steps until the learning rate is whole.
        falling: the last part of the run, in which it falls to nothing.
        rounded: the last part, in which the forward computes with differences in four bits, as they are kept.
        held_out: examples of the measured loss.
    """

    minutes: float = 30.0
    steps: int | None = None
    rows: int = 6
    length: int = 512
    seed: int = 1
    save_every: float = 60.0
    matrix_rate: float = 0.01
    other_rate: float = 0.001
    warm_up: int = 40
    falling: float = 0.7
    rounded: float = 0.4
    held_out: int = 16


class Tuning(Training[Tensor]):
    """One run from the weights in ``base``, continued from ``folder`` if it holds a checkpoint.

    Args:
        plan: of the run.
        base: a folder as transformers writes it.
        folder: where the run is kept.
        out: where the model is written with every checkpoint; a run that is cut short leaves its last one.
        ahead: makes the batch of each step.
        held_out: batches that the loss is measured on.
        settings: further keys of the written ``config.json``.
        device: a name of torch's.
        start: a changed model of the same base to begin with.
        kinds: of the matrices that learn.
        layers: that learn; all by default.
        token: whose row of the embedding learns.
    """

    every = 20

    def __init__(
        self,
        plan: TuningPlan,
        base: Path,
        folder: Path,
        out: Path,
        *,
        ahead: Ahead[Arrays],
        held_out: Sequence[Arrays],
        settings: Mapping[str, Any],
        device: str = "cpu",
        start: Path | None = None,
        kinds: Sequence[str] = tuple(KINDS),
        layers: Sequence[int] | None = None,
        token: int | None = None,
    ) -> None:
        super().__init__(plan, folder)
        self.plan, self.base, self.out, self.device, self.settings = plan, base, out, device, settings
        self.ahead, self.held_out = ahead, held_out
        self.dtype = training_dtype(device)
        self.model = StackedLlama(base, device, self.dtype)
        self.changed = range(self.model.shape.layers) if layers is None else layers
        self.learned = self.learning(kinds, token).to(device)
        if start is not None and isinstance(self.learned, Change):
            self.learned.start_from(load_file(start / "model.safetensors"))
        self.optimiser = Optimiser(self.learned, self.dtype, matrix_rate=plan.matrix_rate, other_rate=plan.other_rate)
        self.chance = torch.Generator(device)
        """Of what is drawn on the device; it follows from the step."""
        self.seen = 0  # tokens
        self._losses: list[Tensor] = []
        self._workers = ThreadPoolExecutor(1)  # of the optimiser: threads inside operations are enough here
        if self.checkpoint.is_file():
            self._load()

    def learning(self, kinds: Sequence[str], token: int | None) -> torch.nn.Module:
        """What learns."""
        return Change(self.model, kinds=kinds, layers=self.changed, token=token)

    @abstractmethod
    def losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Losses in nats, and how much each counts # [learned] each."""

    def step(self) -> Tensor:
        """Train one step; the mean loss of a weighted token."""
        start = time.monotonic()
        self.chance.manual_seed(1_000_003 * self.plan.seed + self.number)
        if isinstance(self.learned, Change):
            self.learned.rounding = self.progress > 1 - self.plan.rounded
        batch = self.placed(self.ahead.step(self.number))
        losses, counts = self.losses(batch)
        loss = (losses * counts).sum() / counts.sum()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.seen += batch["tokens"].numel()
        torch.nn.utils.clip_grad_norm_([each for each in self.learned.parameters() if each.requires_grad], 1.0)
        warm, left = min(1.0, (self.number + 1) / self.plan.warm_up), (1 - self.progress) / self.plan.falling
        self.number += 1
        self.optimiser.step(self.number, warm * min(1.0, max(0.01, left)), self._workers)
        self.seconds += time.monotonic() - start
        return loss.detach()

    def placed(self, batch: Arrays) -> dict[str, Tensor]:
        """A batch as tensors on the device, whole numbers as torch counts with them."""
        found = {name: torch.from_numpy(array).to(self.device) for name, array in batch.items()}
        return {name: value if value.is_floating_point() else value.long() for name, value in found.items()}

    @torch.no_grad()
    def measured(self) -> float:
        """The loss on what is held out, in nats of a weighted token."""
        self.chance.manual_seed(1)
        found = [self.losses(self.placed(batch)) for batch in self.held_out]
        return float(
            sum((losses * counts).sum() for losses, counts in found) / sum(counts.sum() for _, counts in found)
        )

    def note(self, step: Tensor) -> None:
        """See `Training`."""
        self._losses.append(step)

    def report(self) -> str:
        """See `Training`; also a line of the log in the folder."""
        loss, held_out = float(torch.stack(self._losses).mean()), self.measured()
        self._losses.clear()
        speed = round(self.seen / max(self.seconds, 1e-9))
        row = {"step": self.number, "done": round(self.progress, 4), "loss": loss, "held_out": held_out}
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps({**row, "seconds": round(self.seconds), "tokens_per_second": speed}) + "\n")
        return f"step {self.number} {self.progress:.1%} {speed} tokens/s: loss {loss:.4f}, held out {held_out:.4f}"

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See `Training`."""
        tensors = {f"weights.{name}": value.detach().contiguous() for name, value in self.learned.named_parameters()}
        tensors |= {f"optimiser.{name}": value.contiguous() for name, value in self.optimiser.state.items()}
        return tensors, {"number": self.number, "seconds": self.seconds, "seen": self.seen}

    def save(self) -> None:
        """Write the checkpoint, and the model as it is now."""
        super().save()
        self.export(self.out)

    def export(self, target: Path) -> None:
        """Write the model as a folder that transformers reads, and next to it its differences to the base."""
        assert isinstance(self.learned, Change)  # noqa: S101 - other runs write adapters
        target.mkdir(parents=True, exist_ok=True)
        for name in _TOKENIZER:
            if (self.base / name).is_file() and (self.base / name) != target / name:
                shutil.copyfile(self.base / name, target / name)
        config = json.loads((self.base / "config.json").read_text(encoding="utf-8"))
        config |= {**self.settings, "dtype": "float32"}
        (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        kept = {name: value.cpu() for name, value in self.learned.kept().items()}
        write_differences(target / CHANGE_FILE, kept, fingerprint(self.base))
        new = target / "model.new"
        save_file(changed_weights(target, self.base, str(self.base)), new, metadata={"format": "pt"})
        new.replace(target / "model.safetensors")

    def _load(self) -> None:
        state, tensors = read_state(self.checkpoint), load_file(self.checkpoint, device=self.device)
        with torch.no_grad():
            for name, value in self.learned.named_parameters():
                value.copy_(tensors[f"weights.{name}"])
        self.optimiser.load({name[10:]: value for name, value in tensors.items() if name.startswith("optimiser.")})
        self.number, self.seconds, self.seen = int(state["number"]), float(state["seconds"]), int(state["seen"])


def read_causal_model(folder: Path, device: str) -> Any:
    """The model in a folder, in single precision, with attention that takes a mask of four dimensions."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - heavy

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return model.to(device)


def add_tuning_arguments(parser: argparse.ArgumentParser, plan: TuningPlan, *, folder: Path, out: Path) -> None:
    """Add what `tune` reads: `add_arguments`, the base, where to write, the device and the sizes of batches."""
    add_arguments(parser, minutes=plan.minutes, folder=folder)
    parser.add_argument("--base", type=Path, default=pocket_folder(), help="the model to start from (default: pocket)")
    parser.add_argument("--out", type=Path, default=out, help="where the model is written (default %(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches (default %(default)s)")
    parser.add_argument("--rows", type=int, default=plan.rows, help="of a batch (default %(default)s)")
    parser.add_argument("--length", type=int, default=plan.length, help="tokens of a row (default %(default)s)")
    parser.add_argument("--rate", type=float, default=plan.matrix_rate, help="of the matrices (default %(default)s)")
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint to --out and stop")


def plan_of(chosen: argparse.Namespace, plan: TuningPlan) -> TuningPlan:
    """The plan that the arguments describe; the other rates follow that of the matrices."""
    return replace(
        plan, minutes=chosen.minutes, steps=chosen.steps, rows=chosen.rows, length=chosen.length, seed=chosen.seed,
        matrix_rate=chosen.rate, other_rate=plan.other_rate * chosen.rate / plan.matrix_rate,
    )  # fmt: skip


def tune(chosen: argparse.Namespace, plan: TuningPlan, make: Callable[[TuningPlan], Tuning]) -> None:
    """Run what ``make`` makes of the plan, as the arguments say."""
    if chosen.fresh:
        (chosen.folder / "checkpoint.safetensors").unlink(missing_ok=True)
    use_machine()
    torch.set_num_threads(chosen.threads)
    console = Console()
    announce(console, chosen.device, training_dtype(chosen.device), chosen.threads)
    run = make(plan_of(chosen, plan))
    try:
        size = sum(parameter.numel() for parameter in run.learned.parameters())
        console.print(f"{size / 1e6:.2f} million parameters, from step {run.number}", highlight=False)
        if chosen.export_only:
            run.export(chosen.out)
        elif run_until_stopped(run, console):
            console.print(f"held out {run.measured():.4f}; wrote {chosen.out}", highlight=False)
    finally:
        run.ahead.close()


def seeded(*parts: object) -> random.Random:
    """A generator whose numbers follow from ``parts`` alone."""
    return random.Random(": ".join(map(str, parts)))  # noqa: S311 - no secrets
