"""What the training programs share: their arguments, how they use the machine, and how they are stopped."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch
from rich.console import Console
from torch import Tensor

from stretto.local_engine.model.loading.dtype import chosen_dtype
from stretto.local_engine.model.loading.source import Source
from stretto.values.errors import SettingsError

__all__ = [
    "Run",
    "add_arguments",
    "announce",
    "folder_of",
    "forget_checkpoint",
    "run_until_stopped",
    "train_adapter",
    "training_dtype",
    "use_machine",
]


class Run(Protocol):
    """A training run that can be stopped between two steps."""

    stopping: bool
    """Set to save and leave :meth:`run` after the step at hand."""

    def run(self, console: Console) -> None:
        """Train to the end of the plan."""


class AdapterRun(Run, Protocol):
    """A training run of an adapter."""

    number: int

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Of the adapter, by name."""
        ...


def add_arguments(parser: argparse.ArgumentParser, *, minutes: float, folder: Path) -> None:
    """Add how long to train, on how many threads, from which seed, and where the run is kept."""
    parser.add_argument(
        "--minutes", type=float, default=minutes, help="how long to train, by the clock (default %(default)s)"
    )
    parser.add_argument("--steps", type=int, help="how many steps to train, instead of --minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=folder, help="where the run is kept (default %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="begin anew even if there is a checkpoint")


def forget_checkpoint(chosen: argparse.Namespace) -> None:
    """Begin anew, if that was asked for."""
    if chosen.fresh:
        (chosen.folder / "checkpoint.safetensors").unlink(missing_ok=True)


def folder_of(source: Source, texts: Path | None, *, like: str) -> Path:
    """The folder of a model, where its adapter will be.

    Args:
        source: the model.
        texts: folder of text files, which only the pocket model needs not.
        like: what these files should be like.

    Raises `SettingsError` where there is no folder, or where texts are missing.
    """
    if source.folder is None:
        raise SettingsError(
            f"{source.name} is a hub name. Save the model in a folder; the adapter will be written into it."
        )
    if texts is None and source.name != "local:pocket":
        raise SettingsError(f"{source.name} needs --texts, a folder of text files like {like}.")
    return source.folder


def training_dtype(device: str) -> torch.dtype:
    """bfloat16 where ``device`` computes in it, else float32: in float16, losses would have to be scaled."""
    return torch.bfloat16 if chosen_dtype(None, torch.device(device)) == torch.bfloat16 else torch.float32


def use_machine() -> None:
    """Make the process ready for threads that work on a batch each; before anything is computed."""
    torch.set_num_threads(1)
    # Let the allocator of Linux reuse large blocks: asking the system for each anew cost a quarter of the time.
    if sys.platform == "linux":
        allocator = ctypes.CDLL(None)
        if hasattr(allocator, "mallopt"):
            for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
                allocator.mallopt(option, 1 << 30)


def announce(console: Console, device: str, dtype: torch.dtype, threads: int) -> None:
    """Say what the run will compute in, and how many batches at a time."""
    name = str(dtype).removeprefix("torch.")
    console.print(f"training on {device} in {name}, threads: {threads}", highlight=False)


def run_until_stopped(run: Run, console: Console) -> bool:
    """Train; Ctrl-C or a termination stops the run after a step. Returns whether it came to its end."""

    def stop(number: int, frame: object) -> None:  # noqa: ARG001 - the form of a signal handler
        run.stopping = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    run.run(console)
    return not run.stopping


def train_adapter(
    trainer: AdapterRun, console: Console, target: Path, write: Callable[[Path], None], *, train: bool = True
) -> None:
    """Train an adapter and write it; a run that is stopped writes nothing. Without ``train``, the last checkpoint."""
    size = sum(tensor.numel() for tensor in trainer.tensors.values())
    console.print(f"{size / 1e6:.2f} million parameters, from step {trainer.number}", highlight=False)
    if train and not run_until_stopped(trainer, console):
        return
    write(target)
    console.print(f"wrote {target}", highlight=False)
