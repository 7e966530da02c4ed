"""Training the projections of focus reading: ``python -m recipes.focus.train MODEL``.

The recipe of Li et al., arXiv:2408.11745, on a frozen model: a document is cut into chunks, each hands a candidate to
the frozen decoder over the local context, and only the projections at the candidate positions learn. In every step
there are all kinds of loss: *continuation*, where the local context follows the memory; *repetition*, where it is a
span of the memory; and questions about needles in it. Many tokens of each local context carry loss, each with
candidates that have not read it. Beside them, the candidate of the chunk that holds an answer has to say it by
itself. Chunks, of drawn sizes, run without a gradient: it goes through the candidates alone.

Of a document of a thousand chunks only some are computed: a candidate counts as often as there are places up to the
next one, which adds the logarithm of that number to the scores with which it is attended to.

The adapter is written beside the weights and bound to them by their SHA-256. Training is seeded and goes on from its
last checkpoint when it is started again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor
from torch.nn.functional import cross_entropy

from recipes.focus.needles import Haystack, Job, Lesson, Lessons, pocket_texts, texts_in
from recipes.program import add_arguments, announce, run_until_stopped, training_dtype
from recipes.training import AdapterTraining, llama_forward
from stretto.errors import SettingsError, StrettoError
from stretto.local_engine.long_context.adapter import FocusAdapter, new_tensors, read_focus, write_focus
from stretto.local_engine.long_context.decoder import attention, run
from stretto.local_engine.long_context.focus import Candidates, candidates, candidates_and_states
from stretto.local_engine.model.adapter_files import FOCUS_FILE, fingerprint
from stretto.local_engine.model.cache import KeyValueCache, Rows
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.load import LoadedModel, load_model
from stretto.local_engine.model.source import find_source

__all__ = ["LOSSES", "Plan", "Shares", "Trainer", "chunks_of", "lesson_losses", "lookup_losses", "main"]

LOSSES = ("question", "repetition", "continuation")


@dataclass(frozen=True)
class Plan:
    """What a training run is."""

    minutes: float = 25.0
    steps: int | None = None  # instead of minutes
    rank: int | None = None  # of what is added to a projection; None for whole matrices
    losses: tuple[str, ...] = LOSSES
    chunk: int = 256  # tokens at most
    appended: int = 64
    learned: int = 5  # tokens of a local context that carry loss in one step
    skilled: tuple[float, float] = (0.88, 0.94)  # shares of the memory's tokens said right: below the first lessons
    climb: float = 0.01  # become easier, above the second harder, by so much in a step; at 1 they are at their hardest
    rate: float = 0.001
    seed: int = 1
    save_every: float = 60.0  # seconds


@dataclass
class Shares:
    """What the tokens with loss of some lessons came to, by kind of loss."""

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


def lesson_losses(
    plain: LlamaForward,
    forward: LlamaForward,
    adapter: FocusAdapter,
    lesson: Lesson,
    chosen: Sequence[Sequence[int]],
    *,
    cache: KeyValueCache | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """Run each job of a lesson; what is wanted and what is said, with a gradient to the adapter.

    Args:
        plain: runs what needs no gradient; the same model, which may be packed.
        forward: the frozen decoder, through which gradients go.
        adapter: the projections.
        lesson: document and jobs.
        chosen: for each job, places of its tokens that carry loss.
        cache: of the chunks, if they are read already; what stands behind them is written over.

    Returns:
        for each job the tokens # [chosen] and the logits # [chosen, vocabulary]
    """
    found = []
    count, length = len(lesson.chunks), len(lesson.chunks[0])
    if cache is None:
        cache = chunks_of(plain, lesson)
    for job, wanted in zip(lesson.jobs, chosen, strict=True):
        first = max(0, job.learned - job.appended)
        behind = job.tokens[first : max(wanted)]
        with torch.no_grad():
            _read(plain, cache, [behind] * count, length)
        at = torch.tensor(wanted) - 1  # the candidate of each learned token stands at the token before it
        slots = length + at - first
        tokens = torch.tensor([job.tokens[place] for place in at.tolist()])
        past = candidates(
            forward, adapter.layers, tokens.expand(count, -1), cache, slots=slots, places=torch.tensor(lesson.places)
        )
        states = _decode(forward, past, lesson, job, int(at[-1]) + 1)
        logits = forward.read_out(states[torch.arange(len(at)), at])
        found.append((torch.tensor([job.tokens[place] for place in wanted]), logits))
    return found


def lookup_losses(
    plain: LlamaForward, forward: LlamaForward, adapter: FocusAdapter, lesson: Lesson, cache: KeyValueCache
) -> list[tuple[Tensor, Tensor]]:
    """What the candidates of the chunks that hold an answer say by themselves, without the decoder behind them.

    Finding the answer in its chunk was what projections learned last, because the gradient came to them through the
    decoder only, past all other candidates. Here it comes at once, for many questions at the price of one.

    Returns:
        for each group of questions the tokens # [questions, told] and the logits # [questions, told, vocabulary]
    """
    length, layers = len(lesson.chunks[0]), range(forward.sizes[2])
    groups: dict[tuple[int, int], list[Job]] = defaultdict(list)
    for job in lesson.lookups:
        groups[job.told].append(job)
    found = []
    for (start, stop), jobs in groups.items():
        sources = torch.tensor([job.source for job in jobs])
        known = [[cache.layer(number, length)[kind][sources] for number in layers] for kind in (0, 1)]
        own = KeyValueCache.of(known[0], known[1], length + stop)
        with torch.no_grad():
            _read(plain, own, [job.tokens[: stop - 1] for job in jobs], length)
        at = torch.arange(start - 1, stop - 1)
        tokens = torch.tensor([job.tokens for job in jobs])
        _, states = candidates_and_states(
            forward,
            adapter.layers,
            tokens[:, at],
            own,
            slots=length + at,
            places=torch.zeros(len(jobs), dtype=torch.long),
        )
        found.append((tokens[:, start:stop], forward.read_out(states)))
    return found


def chunks_of(plain: LlamaForward, lesson: Lesson) -> KeyValueCache:
    """The chunks of a lesson, read, with room for its jobs behind them."""
    cache = KeyValueCache(len(lesson.chunks))
    cache.capacity = len(lesson.chunks[0]) + max(len(job.tokens) for job in lesson.jobs)
    with torch.no_grad():
        _read(plain, cache, lesson.chunks, 0)
    return cache


def _read(plain: LlamaForward, cache: KeyValueCache, tokens: Sequence[Sequence[int]], start: int) -> None:
    """Write the keys and values of rows that need no gradient."""
    ids = torch.tensor([[*row] for row in tokens])
    stop = start + ids.shape[1]
    rows = Rows(ids, torch.arange(start, stop).repeat(len(ids), 1), stop)
    plain(rows, cache, torch.tensor([ids.shape[1] - 1]))


def _decode(forward: LlamaForward, past: Candidates, lesson: Lesson, job: Job, length: int) -> Tensor:
    """The local context behind each set of candidates, of which there is one for each learned token.

    Returns:
        final states # [learned, length, hidden]
    """
    learned, count = past[0][0].shape[1], len(lesson.places)
    places = torch.tensor([*lesson.places, lesson.total])
    weights = places.diff().float().log()  # a candidate counts as often as there are places up to the next
    weights[job.source] = 0.0
    rows = torch.arange(length)
    bias = torch.cat((weights.expand(length, -1), torch.where(rows <= rows[:, None], 0.0, -torch.inf)), 1)

    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
        before = [kind[layer].transpose(0, 1) for kind in past]  # [learned, chunks, key_value_heads, head_dim]
        both = [torch.cat((old, new), 1) for old, new in zip(before, (keys, values), strict=True)]
        seen = bias
        if window is not None:
            slots = torch.cat((places[:count], lesson.total + rows))
            seen = bias.masked_fill(slots <= (lesson.total + rows - window)[:, None], -torch.inf)
        return attention(queries, both[0], both[1], bias=seen)[0].flatten(2)

    tokens = torch.tensor([job.tokens[:length]] * learned)
    return run(forward, tokens, (lesson.total + rows).expand(learned, -1), attend)


def _chosen(chance: random.Random, job: Job, count: int) -> list[int]:
    """The places that carry loss in one step: mostly those that only the memory tells."""
    places, told = range(job.learned, len(job.tokens)), range(*job.told)
    if told and chance.random() < 0.75:
        return [*told[:count]]
    return sorted(chance.sample(places, min(len(places), count if told else count // 2)))


class Trainer(AdapterTraining[Shares]):
    """One training run, continued from ``folder`` if it holds a checkpoint.

    Args:
        plan: of the run.
        model: with its weights as they are, for gradients.
        lessons: what it learns from.
        folder: where the run is kept.
        base: fingerprint of the weights.
        plain: the same model, for what needs no gradient; packed, it is faster.

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
        tensors = new_tensors(self.forward, plan.rank, plan.seed)
        super().__init__(plan, folder, tensors, base, rate=plan.rate, weight_decay=0.0)
        self.level, self.skill = 0.0, 0.0  # how hard the lessons are, and the share of tokens predicted right lately
        self._shares = Shares()
        if self.checkpoint.is_file():
            state = self.load()
            self.level, self.skill = float(state["level"]), float(state["skill"])

    def adapter(self) -> FocusAdapter:
        """What has been trained so far."""
        tensors = {name: tensor.detach().to(self.forward.dtype) for name, tensor in self.tensors.items()}
        return FocusAdapter.of(tensors, self.plan.chunk, self.plan.appended)

    def begin_with(self, adapter: FocusAdapter) -> None:
        """Go on from what an earlier run has trained. Raises `SettingsError` for an adapter of other sizes."""
        found = adapter.tensors()
        if {name: each.shape for name, each in found.items()} != {
            name: each.shape for name, each in self.tensors.items()
        }:
            raise SettingsError("The adapter to begin with has other sizes. Choose the same --rank, or begin without.")
        for name, tensor in self.tensors.items():
            tensor.data.copy_(found[name])

    def step(self) -> Shares:
        """Train one step: one lesson."""
        start = time.monotonic()
        chance = random.Random(f"{self.plan.seed}: step {self.number}")  # noqa: S311 - no secrets
        lesson = self.lessons.draw(chance, ease=1 - self.level)
        chosen = [_chosen(chance, job, self.plan.learned) for job in lesson.jobs]
        adapter = FocusAdapter.of({name: each.to(self.forward.dtype) for name, each in self.tensors.items()})
        shares = Shares()
        total, count, right, asked = torch.zeros(()), sum(map(len, chosen)), 0, 0
        cache = chunks_of(self.plain, lesson)
        found = lesson_losses(self.plain, self.forward, adapter, lesson, chosen, cache=cache)
        alone = lookup_losses(self.plain, self.forward, adapter, lesson, cache)
        for wanted, logits in alone:
            loss = cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="sum")
            total = total + loss / sum(each.numel() for each, _ in alone)
            said = int((logits.argmax(-1) == wanted).sum())
            shares += Shares(
                Counter({"lookup": loss.item()}), Counter({"lookup": said}), Counter({"lookup": wanted.numel()})
            )
        for job, (wanted, logits) in zip(lesson.jobs, found, strict=True):
            loss = cross_entropy(logits.float(), wanted, reduction="sum")
            total = total + job.weight * loss / count
            said = int((logits.argmax(-1) == wanted).sum())
            if job.weight == 1 or "repetition" not in self.plan.losses:
                right, asked = right + said, asked + len(wanted)
            shares += Shares(
                Counter({job.loss: loss.item()}),
                Counter({job.loss: said}),
                Counter({job.loss: len(wanted)}),
            )
        total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.update(falling=0.4, least=0.02)
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
    parser.add_argument("--appended", type=int, default=64, help="local tokens behind each chunk (default 64)")
    parser.add_argument("--tokens", type=int, default=1024, help="of the chunks of a step (default %(default)s)")
    parser.add_argument("--start", type=Path, help="adapter of the same sizes to begin with")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate (default %(default)s)")
    parser.add_argument("--target", type=Path, help=f"adapter to write; by default {FOCUS_FILE} beside the weights")
    chosen = parser.parse_args(arguments)
    try:
        _train(chosen)
    except StrettoError as error:
        sys.exit(str(error))


def _train(chosen: argparse.Namespace) -> None:
    source, console = find_source(chosen.model), Console()
    if source.folder is None:
        raise SettingsError(f"{source.name} is a hub name. Save the model in a folder; the adapter will stand in it.")
    if chosen.texts is None and source.name != "local:pocket":
        raise SettingsError(f"{source.name} needs --texts, a folder of text files like the documents it will read.")
    if chosen.fresh:
        (chosen.folder / "checkpoint.safetensors").unlink(missing_ok=True)
    names = ("minutes", "steps", "rank", "chunk", "appended", "rate", "seed")
    given = {name: getattr(chosen, name) for name in names}
    plan = Plan(**given, losses=tuple(chosen.losses))
    torch.set_num_threads(chosen.threads)
    dtype = training_dtype("cpu")
    name = str(dtype).removeprefix("torch.")
    model = load_model(source, device="cpu", dtype=name, packed=False)
    plain = load_model(source, device="cpu", dtype=name)
    base = fingerprint(source.folder)
    announce(console, "cpu", dtype, chosen.threads)
    draw = pocket_texts() if chosen.texts is None else texts_in(chosen.texts)
    lessons = Lessons(Haystack(model, draw), plan.losses, plan.chunk, plan.appended, chosen.tokens)
    trainer = Trainer(plan, model, lessons, chosen.folder, base=base, plain=plain)
    if chosen.start is not None and trainer.number == 0:
        trainer.begin_with(read_focus(chosen.start, base, source.name, trainer.forward, torch.device("cpu")))
    size = sum(tensor.numel() for tensor in trainer.tensors.values())
    console.print(f"{size / 1e6:.2f} million parameters, from step {trainer.number}", highlight=False)
    if not run_until_stopped(trainer, console):
        return
    target = chosen.target or source.folder / FOCUS_FILE
    write_focus(target, trainer.adapter(), base)
    console.print(f"wrote {target}", highlight=False)


if __name__ == "__main__":
    main()
