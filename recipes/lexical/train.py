"""Training the [PAD] rows of lexical unit decoding: ``python -m recipes.lexical.train``.

The recipe of Sun et al., arXiv:2405.15208, on a frozen model. The model reads texts, and continuations that it wrote
itself. Runs of tokens that it gives a high probability are lexical units. [PAD] rows after many positions of each
text, all in one forward under a four-dimensional mask, learn to predict the further tokens of the unit. Tokens outside
units count less: from them the rows learn when not to be sure.

What is trained is a small adapter (see `stretto.local_engine.research.lexical.pads`), written next to the weights and
bound to them by their SHA-256. The weights of a GGUF file are unpacked into a folder first. Training is seeded and goes
on from its last checkpoint when it is started again.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn.functional import cross_entropy

from recipes.lexical.packing import TextCache, inside_units, pack
from recipes.lexical.texts import Texts, continuations, keep, kept, pieces, questions
from recipes.pocket.batches import Encoded
from recipes.pocket.corpus import Corpus
from recipes.program import add_arguments, announce, folder_of, forget_checkpoint, train_adapter, use_machine
from recipes.training import AdapterTraining, llama_forward
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.adapters.adapter_files import fingerprint
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model, read_model
from stretto.local_engine.model.loading.source import Source, find_source
from stretto.local_engine.research.lexical import FILE
from stretto.local_engine.research.lexical.pads import PadAdapter, write_adapter
from stretto.values.errors import SettingsError, StrettoError

__all__ = ["Plan", "Shares", "Trainer", "main", "new_adapter"]


@dataclass(frozen=True)
class Plan:
    """The settings of a training run."""

    minutes: float = 30.0
    steps: int | None = None  # instead of minutes
    tokens: int = 4  # k, of a unit at most
    threshold: float = 0.5  # above it a token belongs to the unit
    outside: float = 0.2  # weight of a token outside units
    texts: int = 8  # in a step
    anchors: int = 128  # positions of a text that get [PAD]s in one step
    beside: int = 256  # units alongside a feed-forward layer
    last: int = 1024  # units of the last layer
    rate: float = 0.003
    seed: int = 1
    save_every: float = 60.0  # seconds


@dataclass
class Shares:
    """How well the [PAD]s of some texts predicted, by position.

    Attributes:
        loss: in nats of a weighted token, summed over the texts.
        texts: their number.
        units: tokens inside units # [pads]
        right: of these, those that were predicted # [pads]
    """

    loss: float
    texts: int
    units: Tensor
    right: Tensor

    def __add__(self, other: Shares) -> Shares:
        return Shares(
            self.loss + other.loss, self.texts + other.texts, self.units + other.units, self.right + other.right
        )

    def __str__(self) -> str:
        shares = (self.right / self.units.clamp(min=1)).tolist()
        return f"loss {self.loss / self.texts:.2f}, right inside units: " + ", ".join(f"{one:.1%}" for one in shares)


def new_adapter(forward: LlamaForward, plan: Plan) -> dict[str, Tensor]:
    """The tensors of an adapter that adds nothing yet, by the names of `PadAdapter.tensors`."""
    vocabulary, hidden, layers = forward.sizes
    generator = torch.Generator().manual_seed(plan.seed)

    def units(prefix: str, count: int, read: int) -> dict[str, Tensor]:
        drawn = torch.randn(count, read, generator=generator) / math.sqrt(read)
        return {f"{prefix}.units_in": drawn, f"{prefix}.units_out": torch.zeros(hidden, count)}

    device = forward.family.frequencies.device
    base = forward.read_in(torch.arange(vocabulary, device=device)).float().cpu()
    tensors = {"places": base.mean(0) + base.std() * torch.randn(plan.tokens - 1, hidden, generator=generator)}
    for number in range(layers // 2, layers):
        tensors |= units(f"layers.{number}", plan.beside, hidden)
    tensors |= units("last", plan.last, 2 * hidden)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


class Trainer(AdapterTraining[Shares]):
    """One training run, continued from ``folder`` if it holds a checkpoint.

    Raises `SettingsError` for a model that can have no adapter, and for a checkpoint of another base or plan.
    """

    def __init__(
        self, plan: Plan, model: LoadedModel, texts: Texts, folder: Path, *, base: str = "", threads: int = 1
    ) -> None:
        self.plan, self.model, self.texts = plan, model, texts
        self.forward = llama_forward(model)
        tensors = new_adapter(self.forward, plan)
        super().__init__(plan, folder, tensors, base, rate=plan.rate, weight_decay=0.01)
        self._shares: Shares | None = None
        # One core per text: threads inside every operation would wait for each other. A GPU has one queue for all.
        self.workers = ThreadPoolExecutor(threads if model.device.type == "cpu" else 1)
        if self.checkpoint.is_file():
            self.load()

    def adapter(self) -> PadAdapter:
        """What has been trained so far, in the model's number type."""
        tensors = {name: tensor.detach().to(self.model.dtype) for name, tensor in self.tensors.items()}
        return PadAdapter.of(tensors)

    def step(self) -> Shares:
        """Train one step."""
        start = time.monotonic()
        chance = random.Random(f"{self.plan.seed}: step {self.number}")  # noqa: S311 - no secrets
        drawn = [(self.texts.draw(chance), chance.random()) for _ in range(self.plan.texts)]
        # Separate leaves, in the model's number type, so that the texts' graphs have nothing in common.
        leaves = {name: tensor.detach().to(self.model.dtype) for name, tensor in self.tensors.items()}
        self.forward.adapter = PadAdapter.of({name: tensor.requires_grad_() for name, tensor in leaves.items()})
        total: Shares | None = None
        for gradients, shares in self.workers.map(lambda one: self._work(one[0], one[1], list(leaves.values())), drawn):
            for tensor, gradient in zip(self.tensors.values(), gradients, strict=True):
                own = gradient.to(tensor.dtype) / len(drawn)
                tensor.grad = own if tensor.grad is None else tensor.grad.add_(own)
            total = shares if total is None else total + shares
        self.update(falling=0.7, least=0.01)
        self.seconds += time.monotonic() - start
        if total is None:
            raise ValueError("a step needs at least one text")
        return total

    def _work(self, text: Encoded, where: float, leaves: Sequence[Tensor]) -> tuple[list[Tensor], Shares]:
        """One text: its gradients, and how it went."""
        plan, forward, pads, device = self.plan, self.forward, self.plan.tokens - 1, self.model.device
        ids = torch.tensor(text.tokens, device=device)
        length = len(ids)
        first = max(text.learned - 1, 0)
        first += int(where * max(length - 1 - first - plan.anchors, 0))
        last = min(first + plan.anchors + pads, length - 1)
        every, cache = torch.arange(length, device=device), KeyValueCache(1)
        confidence = torch.zeros(length, device=device)
        with torch.no_grad():
            states = forward.states(Rows(ids[None], every[None], length), cache, every)  # [1, length, hidden]
            chances = forward.read_out(states[0, first:last]).float().softmax(-1)
            confidence[first + 1 : last + 1] = chances.gather(1, ids[first + 1 : last + 1, None])[:, 0]
        anchors = every[first : min(first + plan.anchors, length - 1)]
        inside = inside_units(confidence, anchors, pads, plan.threshold)  # [anchors, pads]
        wanted = anchors[:, None] + 2 + every[:pads]
        targets = ids[wanted.clamp(max=length - 1)]
        weights = torch.where(inside, 1.0, plan.outside) * (wanted < length)
        rows = pack(anchors, pads, states)
        with torch.enable_grad():
            own = forward.states(rows, TextCache(cache), torch.arange(rows.tokens.shape[1], device=device))
            logits = forward.read_out(own)[0].float()  # [anchors * pads, vocabulary]
            losses = cross_entropy(logits, targets.reshape(-1), reduction="none")
            loss = losses @ weights.reshape(-1) / weights.sum().clamp(min=1)
            gradients = list(torch.autograd.grad(loss, leaves))
        right = logits.detach().argmax(-1).view(targets.shape) == targets
        return gradients, Shares(loss.item(), 1, inside.sum(0).cpu(), (right & inside).sum(0).cpu())

    def note(self, step: Shares) -> None:
        """See `Training`."""
        self._shares = step if self._shares is None else self._shares + step

    def report(self) -> str:
        """See `Training`."""
        shares, self._shares = self._shares, None
        return f"step {self.number}, {self.progress:.0%}: {shares}"


def _texts(chosen: argparse.Namespace, model: LoadedModel, named: Source, base: str, console: Console) -> Texts:
    """Have the model continue texts and answer questions, or read what it wrote when the run began."""
    source, count = chosen.texts, chosen.own
    pocket = source is None and model.name == "local:pocket"
    path = chosen.folder / f"own-{base[:12]}-{count}-{chosen.seed}.json"
    if not path.is_file():
        columns = (TextColumn("continuing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            shown = bar.add_task("continuing", total=count)
            chance = random.Random(chosen.seed)  # noqa: S311 - no secrets
            prompts = pieces(model, source, count, chance)
            if not pocket and getattr(model.tokenizer, "chat_template", None) is not None:
                prompts[::2] = questions(model, len(prompts[::2]), chance)
            path.parent.mkdir(parents=True, exist_ok=True)
            # On a processor compiled code writes many times as fast, and cannot be trained through.
            limit_threads(chosen.threads)
            writer = load_model(named, device="cpu") if model.device.type == "cpu" else model
            keep(path, continuations(writer, prompts, lambda done: bar.advance(shown, done)))
    return Texts(kept(path), Corpus(), model.tokenizer.backend_tokenizer) if pocket else Texts(kept(path))


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) the [PAD] rows of a model of the Llama family."""
    parser = argparse.ArgumentParser(prog="python -m recipes.lexical.train", description=main.__doc__)
    parser.add_argument("--model", default="local:pocket", help="local:pocket, local:./folder or a GGUF file")
    parser.add_argument("--unpacked", type=Path, help="folder for the weights of a GGUF file; the adapter goes there")
    parser.add_argument("--texts", type=Path, help="folder of text files to continue; needed but for local:pocket")
    add_arguments(parser, minutes=Plan.minutes, folder=Path("build/lexical"))
    parser.add_argument("--tokens", type=int, default=4, help="k, of a unit at most (default 4)")
    parser.add_argument("--threshold", type=float, default=0.5, help="above it a token belongs to a unit (default 0.5)")
    parser.add_argument("--rate", type=float, default=0.003, help="learning rate (default 0.003)")
    parser.add_argument("--own", type=int, default=600, help="continuations the model writes first (default 600)")
    parser.add_argument("--together", type=int, default=Plan.texts, help="texts of a step (default %(default)s)")
    parser.add_argument("--target", type=Path, help=f"adapter to write; by default {FILE} next to the weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args(arguments)
    try:
        _train(chosen)
    except StrettoError as error:
        sys.exit(str(error))


def _train(chosen: argparse.Namespace) -> None:
    source, console = find_source(chosen.model), Console()
    if source.file is not None:
        source = _unpacked(source, chosen.unpacked)
    folder = folder_of(source, chosen.texts, like="those it will continue")
    if chosen.tokens < 2:
        raise SettingsError(f"--tokens {chosen.tokens} cannot be used: a unit has at least 2.")
    forget_checkpoint(chosen)
    use_machine()
    names = ("minutes", "steps", "tokens", "threshold", "rate", "seed")
    plan = Plan(**{name: getattr(chosen, name) for name in names}, texts=chosen.together)
    model = load_model(source, device=chosen.device, packed=False, compiled=False, cuda_graphs=False)
    base = fingerprint(folder)
    announce(console, chosen.device, model.dtype, chosen.threads)
    texts = _texts(chosen, model, source, base, console)
    trainer = Trainer(plan, model, texts, chosen.folder, base=base, threads=chosen.threads)
    target = chosen.target or folder / FILE
    train_adapter(trainer, console, target, lambda file: write_adapter(file, trainer.adapter(), base))


def _unpacked(source: Source, folder: Path | None) -> Source:
    """Write the weights of a GGUF file into a folder, unless they are there; the folder as a source."""
    if folder is None:
        raise SettingsError(
            f"{source.name} is a GGUF file. No adapter can be trained for its packed weights. Name a folder for "
            "the unpacked weights and the adapter: --unpacked build/unpacked"
        )
    if not (folder / "config.json").is_file():
        model, tokenizer, _ = read_model(source, torch.bfloat16, trust_remote_code=False)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return find_source(f"local:{folder.resolve()}")


if __name__ == "__main__":
    main()
