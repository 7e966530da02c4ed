"""Benchmark of the decoding methods with one model on this machine, by kind of prompt.

    from stretto.local_engine.measuring.bench import bench
    from stretto.local_engine.model.loading.load import load_model
    from stretto.local_engine.model.loading.source import find_source

    report = bench(load_model(find_source("local:pocket")))

All methods share weights, prompts, seed and engine. Each repetition runs every method on every prompt and starts with
another method than the previous one, so that other load on the machine affects all methods alike. The first
repetition is a warm-up that supplies the figures that do not depend on time; the others are timed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.generation import Figures, Finished, Generation, Piece
from stretto.local_engine.measuring.bench_prompts import PROMPTS, BenchPrompt
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import SettingsError

__all__ = ["PLAIN", "PROMPTS", "BenchPrompt", "Report", "Row", "Spread", "bench"]

PLAIN = "autoregressive"
_SEED = 7


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, minimum and maximum over the repetitions."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one method on the prompts of one kind.

    Attributes:
        kind: kind of the prompts.
        method: name of the decoding method.
        ms_per_token: milliseconds per token after the first; ``None`` if the model wrote no second one.
        first_token_ms: milliseconds from the request to the first text.
        speed_up: speed relative to that without drafts, by the medians.
        tokens_per_step: tokens committed per forward.
        rows_per_step: rows evaluated per forward.
        tokens: tokens written in one repetition.
        same: whether the answers equal those without drafts; in bfloat16 rounding alone can make them differ.
    """

    kind: str
    method: str
    ms_per_token: Spread | None
    first_token_ms: Spread
    speed_up: float | None
    tokens_per_step: float
    rows_per_step: float
    tokens: int
    same: bool


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a benchmark.

    Attributes:
        model: name of the model.
        dtype: dtype of its weights.
        exact: whether rounding is ruled out as the reason for a different answer.
        device: device it ran on.
        threads: torch's threads; ``None`` on a GPU.
        tokens: maximum length of an answer.
        repeats: timed repetitions.
        temperature: sampling temperature; 0 takes the most probable token.
        rows: results by kind of prompt, the methods in the order of the catalogue.
        left_out: methods that cannot be used with this model, and why.
    """

    model: str
    dtype: str
    exact: bool
    device: str
    threads: int | None
    tokens: int
    repeats: int
    temperature: float
    rows: tuple[Row, ...]
    left_out: Mapping[str, str]


@dataclass(slots=True)
class _Cell:
    """Measurements of one method on one kind of prompt so far."""

    ms: list[float] = field(default_factory=list)  # per token, one for each timed repetition
    first_ms: list[float] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)


def bench(
    model: LoadedModel,
    *,
    draft: LoadedModel | None = None,
    head: Path | None = None,
    prompts: Sequence[BenchPrompt] = PROMPTS,
    tokens: int = 96,
    repeats: int = 3,
    temperature: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int, int, str], None] = lambda done, whole, doing: None,  # noqa: ARG005 - named for the caller
) -> Report:
    """Measure every method that can be used with the model, except lossy ones, which give another answer.

    Args:
        model: loaded by `stretto.local_engine.model.loading.load.load_model`.
        draft: a smaller model with the same tokenizer, for ``draft_model``.
        head: folder of a head of the model.
        prompts: what to answer; results of one kind are added up.
        tokens: maximum length of each answer, as far as the context window allows.
        repeats: timed repetitions, at least 1.
        temperature: 0 takes the most probable token; above, a fixed seed samples the same answer under every method.
        threads: maximum for one forward; by default chosen by the model's size.
        progress: called before each generation with the number done, the total, and what is next.

    Raises `SettingsError` for a model that drafts nothing and for a draft model with another tokenizer,
    `ContextOverflowError` for a prompt that does not fit into the model, and any error of a generation.
    """
    if model.diffusion is not None:
        raise SettingsError(
            f"{model.name} writes blocks of tokens at once ({model.diffusion.family}) and drafts nothing, so there are "
            "no methods to compare. docs/parallel-models.md says what its rules are."
        )
    if draft is not None:
        check_vocabulary(model, draft)
    methods, left_out = _selectable(DraftEquipment(model=model, draft=draft, head=head))
    encoded = [(prompt.kind, _encoded(model, prompt)) for prompt in prompts]
    cells = {(kind, method): _Cell() for kind in dict.fromkeys(kind for kind, _ in encoded) for method in methods}
    done, whole = 0, (repeats + 1) * len(methods) * len(encoded)
    # No prefix cache: with it, a prompt that was answered before would be read in no time.
    engine = Engine(model, draft=draft, head=head, prefix_cache_bytes=0, measure=True, threads=threads)
    engine.wait_measured()
    try:
        for repetition in range(repeats + 1):
            first = repetition % len(methods)
            for method in (*methods[first:], *methods[:first]):
                for kind in dict.fromkeys(kind for kind, _ in encoded):
                    runs = []
                    for ids in (ids for own, ids in encoded if own == kind):
                        progress(done, whole, f"{kind}, {method}")
                        runs.append(_run(engine, ids, method, tokens, temperature))
                        done += 1
                    _enter(cells[kind, method], runs, timed=repetition > 0)
        progress(done, whole, "")
    finally:
        engine.close()
    return Report(
        model=model.name,
        dtype=str(model.dtype).removeprefix("torch."),
        exact=model.is_exact,
        device=str(model.device),
        threads=threads or model.threads,
        tokens=tokens,
        repeats=repeats,
        temperature=temperature,
        rows=tuple(_row(kind, method, cell, cells[kind, PLAIN]) for (kind, method), cell in cells.items()),
        left_out=left_out,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One answer: milliseconds to its first text and from there to its end, tokens after the first, and its figures."""

    first_ms: float
    rest_ms: float
    rest_tokens: int
    answer: list[int]
    figures: Figures


def _selectable(equipment: DraftEquipment) -> tuple[list[str], dict[str, str]]:
    """Return the methods to measure, and for the others why they are left out."""
    methods, left_out = [], {}
    for name, make in DRAFTERS.items():
        if name.endswith("_lossy"):
            left_out[name] = "It is lossy: it gives another answer, at a speed that cannot be compared."
            continue
        try:
            make(equipment)
        except SettingsError as error:
            left_out[name] = str(error)
        else:
            methods.append(name)
    return methods, left_out


def _encoded(model: LoadedModel, prompt: BenchPrompt) -> tuple[int, ...]:
    if prompt.chat:
        return model.chat.encode([{"role": "user", "content": prompt.text}])
    return tuple(model.tokenizer(prompt.text)["input_ids"])


def _run(engine: Engine, ids: tuple[int, ...], method: str, tokens: int, temperature: float) -> _Run:
    model = engine.model
    events: list[tuple[float, Piece | Finished]] = []  # the first piece and the end
    ended = threading.Event()

    def listen(event: Piece | Finished) -> None:
        # Runs in the engine's thread: a reader woken by every piece would take time from what is measured.
        if isinstance(event, Finished) or not events:
            events.append((time.perf_counter(), event))
        if isinstance(event, Finished):
            ended.set()

    began = time.perf_counter()
    request = Generation(
        prompt=ids,
        max_new_tokens=max(1, min(tokens, model.context_window - len(ids), model.cache_tokens - len(ids))),
        end_ids=model.ends,
        temperature=temperature,
        seed=_SEED,
        decoding=method,
        **model.penalties,
    )
    handle = engine.submit(request, listen)
    try:
        ended.wait()
    except BaseException:  # Ctrl-C: the engine is closed next, which waits for what runs
        handle.cancel()
        raise
    (first_s, first), (end_s, last) = events[0], events[-1]
    assert isinstance(last, Finished)  # noqa: S101 - for the type checker: it is what ended the wait
    if last.error is not None:
        raise last.error
    answer = list(handle.sequence.generated)
    begun = len(first.tokens) if isinstance(first, Piece) else len(answer)
    figures = last.figures or Figures(method)
    return _Run((first_s - began) * 1e3, (end_s - first_s) * 1e3, len(answer) - begun, answer, figures)


def _enter(cell: _Cell, runs: Sequence[_Run], *, timed: bool) -> None:
    if not timed:
        cell.answers = [run.answer for run in runs]
        cell.figures = [run.figures for run in runs]
        return
    cell.first_ms.append(fmean(run.first_ms for run in runs))
    if tokens := sum(run.rest_tokens for run in runs):
        cell.ms.append(sum(run.rest_ms for run in runs) / tokens)


def _row(kind: str, method: str, cell: _Cell, plain: _Cell) -> Row:
    steps = sum(figures.steps for figures in cell.figures) or 1
    return Row(
        kind=kind,
        method=method,
        ms_per_token=Spread.of(cell.ms) if cell.ms else None,
        first_token_ms=Spread.of(cell.first_ms),
        speed_up=median(plain.ms) / median(cell.ms) if cell.ms and plain.ms else None,
        tokens_per_step=sum(figures.tokens for figures in cell.figures) / steps,
        rows_per_step=sum(figures.rows for figures in cell.figures) / steps,
        tokens=sum(map(len, cell.answers)),
        same=cell.answers == plain.answers,
    )
