"""The engine's decoding methods compared with transformers' and arctic-inference's: same weights, prompts and dtype.

    python benchmarks/decoding.py                                  everything on the pocket model and SmolLM2: hours
    python benchmarks/decoding.py --model local:pocket             about a quarter of an hour on 2 cores
    python benchmarks/decoding.py --model local:smollm2 --dtype float32 --workload code --prompts 2 --join
                                                                   a part, which replaces that one in the kept figures
    python benchmarks/decoding.py --threads 1 --clock cpu          on a machine that others use too
    python benchmarks/decoding.py --arctic FOLDER                  with that peer; see comparison/arctic.py
    python benchmarks/decoding.py --workload code --only auto suffix transformers
    python benchmarks/decoding.py --dtype float32                  in another type than the engine would take here
    python benchmarks/decoding.py --quick                          whether it runs; keeps nothing
    python benchmarks/decoding.py --redraw --update-docs           plot and document from the kept figures

Repetitions alternate between the methods, in a random order each time; a method's turn begins with a short answer that
does not count. Ours take a few turns in a repetition: theirs are as long as a peer's then. Continued are Python files
that the pocket model was not trained on, questions of its encyclopaedia, and texts to be transformed, each greedily and
sampled at temperature 0.7. A larger model with random weights shows what a step costs, over the time in which memory
can be read.

Speeds are measured from the first token to the last; speed-ups are those within one repetition. Answers are compared
with those of one token at a time: in float32 ours must be the same; in bfloat16 sums of other lengths round otherwise,
and it is counted how many are the same. What peers draw at random depends on their own generators and is not compared.
Small models loop when they decode greedily, which flatters every drafter: the share of distinct 4-grams is reported
with the speed.

The draft model, ours and the peers', is a copy of the model's own first layers unless --draft names a better one: it
shows what the method costs more than what it can gain. Nothing is remembered from one answer to the next.

``prompt lookup, resting`` is `auto` with the guesses of prompt lookup in place of the suffix automaton: what `auto` has
to beat. `benchmarks/drafts.py` compares the two without a clock.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from comparison import arctic, larger, peers
from comparison.figures import RESTING, Figures, bars, floor_bar, summarise
from comparison.memory import PeakMemory
from comparison.ours import Ours
from comparison.report import draw, fill_block, markdown, print_bars, print_table
from comparison.run import Method, Run, Task
from comparison.workloads import WORKLOADS, Workload, workloads
from measuring import IMAGES, RESULTS, machine, save
from rich.console import Console
from rich.progress import Progress
from transformers.utils import logging

from stretto.local_engine.drafting.calibration import Experience
from stretto.local_engine.drafting.catalogue import DRAFTERS, LOSSY, DraftEquipment
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.loading.dtype import chosen_dtype
from stretto.local_engine.model.loading.load import LoadedModel, prepare, read_model
from stretto.local_engine.model.loading.source import Source, find_source
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import SettingsError, StrettoError

HEATS = (0.0, 0.7)
MODELS = ("local:pocket", "local:smollm2")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
DRAFT_LAYERS = 2
COMPILE_LIMIT_S = 180
TRIAL = 12
KEPT_OPTIONS = ("tokens", "prompts", "repetitions", "turns", "quick", "clock", "threads")
RESTING_EXPERIENCE = Experience(), Experience()
console = Console(width=None if sys.stdout.isatty() else 150)


class Bench:
    """The methods, and the models they run.

    Args:
        options: of the command line.
        model: its name.
    """

    def __init__(self, options: argparse.Namespace, model: str) -> None:
        self.notes: list[str] = []
        self._options, self._clock = options, CLOCKS[options.clock]
        source = find_source(model)
        (theirs, self.tokenizer), (ours, _) = self._load(source), self._load(source)
        if options.draft:
            smaller = find_source(options.draft)
            drafts: tuple[Any, Any] = (self._load(smaller)[0], self._load(smaller)[0])
        else:
            drafts = (peers.first_layers(theirs, DRAFT_LAYERS), peers.first_layers(ours, DRAFT_LAYERS))
        small: LoadedModel | None = None
        if drafts[1] is not None:
            small = prepare(options.draft or f"{source.name}, first layers", drafts[1], self.tokenizer)
        if small is not None and not options.draft:
            self.notes.append(f"The draft model is a copy of the model's own first {DRAFT_LAYERS} layers, not trained.")
        # The folder, because an adapter for `lexical` is in it.
        self.model = replace(prepare(source.name, ours, self.tokenizer), folder=source.folder)
        drafters = {name: make for name, make in DRAFTERS.items() if name not in LOSSY} | {RESTING: _resting}
        self._engine = Engine(
            self.model, draft=small, prefix_cache_bytes=0, drafters=drafters, measure=True, threads=options.threads
        )
        self._engine.wait_measured()
        methods: list[Method] = [Ours(self._engine, name) for name in drafters if self._runs(name)]
        methods += self._peers(theirs, drafts[0])
        self.methods = [method for method in methods if not options.only or method.name in options.only]
        unknown = set(options.only or ()) - {method.name for method in methods}
        if unknown:
            self.close()
            here = ", ".join(method.name for method in methods)
            raise SettingsError(f"There is no method {min(unknown)!r} here. There are: {here}.")

    def close(self) -> None:
        """End the engine's thread."""
        self._engine.close()

    def run(self, workload: Workload, heat: float, progress: Progress) -> list[Figures]:
        """All methods on one workload, in turns."""
        options, memory = self._options, PeakMemory()
        runs: dict[str, list[list[Run]]] = {method.name: [] for method in self.methods}
        peaks: dict[str, float | None] = {}
        ours = [method for method in self.methods if not method.peer]
        turns = len(self.methods) + (options.turns - 1) * len(ours)
        task = progress.add_task(f"{workload.name}, {heat}", total=turns * options.repetitions + len(self.methods))
        for repetition in range(-1, options.repetitions):
            for turn in range(options.turns if repetition >= 0 else 1):
                methods, number = self.methods if turn == 0 else ours, options.turns * repetition + turn
                for method in random.Random(number).sample(methods, len(methods)):  # noqa: S311 - no secrets
                    progress.update(task, description=f"{workload.name}, {heat}: {method.name}", advance=1)
                    # Or it would be charged with what the method before it left in the processor's caches.
                    method.answer(Task(workload.prompts[0], TRIAL, heat, clock=self._clock))
                    if repetition < 0:
                        continue
                    if turn == 0:
                        runs[method.name].append([])
                    memory.begin()
                    runs[method.name][-1] += [
                        method.answer(Task(prompt, options.tokens, heat, 1000 * number + place, self._clock))
                        for place, prompt in enumerate(workload.prompts)
                    ]
                    peaks[method.name] = max(filter(None, (peaks.get(method.name), memory.end())), default=None)
        progress.remove_task(task)
        kinds = {method.name: method.peer for method in self.methods}
        return summarise(workload.name, heat, runs, kinds, plain_peer=peers.GREEDY, peak_mb=peaks)

    def _runs(self, decoding: str) -> bool:
        """Whether the engine has what this method needs; a note where not."""
        try:
            list(self._engine.submit(Generation((5, 6), 1, decoding=decoding)))
        except SettingsError as error:
            self.notes.append(str(error))
            return False
        return True

    def _load(self, source: Source) -> tuple[Any, Any]:
        """A model, the weights of a GGUF file unpacked, and its tokenizer."""
        model, tokenizer, _ = read_model(source, getattr(torch, self._options.dtype), trust_remote_code=False)
        return model.eval().requires_grad_(False), tokenizer

    def _peers(self, model: Any, draft: Any) -> list[Method]:
        """Those that run here; each that does not leaves a note."""
        options, slots = self._options, min(self.model.context_window, 1024)
        threads = self._threads(model)
        found: list[Method] = [
            peers.greedy(model, threads=threads),
            peers.Static(model, threads=threads, slots=slots),
            peers.prompt_lookup(model, threads=threads),
        ]
        if draft is not None:
            found.append(peers.assisted(model, draft, threads=threads))
        if options.quick and options.compile is None:
            self.notes.append("The compiled static cache is left out of a quick run.")
        elif options.compile is not False:
            reason = peers.why_not_compiled(self.model.name, options.dtype, COMPILE_LIMIT_S)
            if reason is None:
                found.append(peers.Compiled(model, threads=threads, slots=slots))
            else:
                self.notes.append(f"The compiled static cache does not run here: {reason}.")
        if options.arctic is None:
            self.notes.append("arctic-inference was not given (--arctic).")
        else:
            found.append(peers.suffix(model, arctic.candidates(options.arctic), threads=threads))
        return found

    def _threads(self, model: Any) -> int:
        """As many threads for the peers as serve them best: one, or all."""
        if self._options.threads:
            return int(self._options.threads)
        most = torch.get_num_threads()
        prompt, paces = tuple(self.tokenizer("def main():").input_ids), {}
        for threads in sorted({1, most}):
            peer = peers.greedy(model, threads=threads)
            peer.answer(Task(prompt, TRIAL))
            paces[threads] = min(peer.answer(Task(prompt, 2 * TRIAL)).decoding_s for _ in range(3))
        best = min(paces, key=lambda threads: paces[threads])
        self.notes.append(f"Threads of torch: {best} for the peers, the faster of {', '.join(map(str, paces))}; "
                          f"{self.model.threads} for the engine, by its own choice.")  # fmt: skip
        return best


def _resting(equipment: DraftEquipment) -> Drafter:
    """Prompt lookup with the rule of `auto`, and with a separate experience."""
    from stretto.local_engine.drafting.auto import Auto  # noqa: PLC0415 - numba, only where it is used

    assert equipment.cost is not None
    return Auto(equipment.cost, experience=RESTING_EXPERIENCE, source=PromptLookup())


def measure(options: argparse.Namespace, model: str = MODELS[0]) -> dict[str, Any]:
    """Run everything on one model; the results as they are kept."""
    found: list[Figures] = []
    threads = torch.get_num_threads()
    bench = Bench(options, model)
    try:
        chosen = workloads(bench.tokenizer, options.prompts, tuple(options.workload or WORKLOADS))
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            for workload in chosen:
                for heat in HEATS:
                    found += (rows := bench.run(workload, heat, progress))
                    progress.console.print()
                    print_table(progress.console, [_plain(row) for row in rows])
    finally:
        bench.close()
    torch.set_num_threads(threads)  # a peer may have been better off with fewer
    return {
        "machine": machine(),
        "versions": versions(options.arctic),
        "model": bench.model.name,
        "dtype": options.dtype,
        "exact": bench.model.is_exact,
        "options": {name: getattr(options, name) for name in KEPT_OPTIONS},
        "notes": bench.notes,
        "rows": [_plain(row) for row in found],
        "larger": None,
        "bars": [_plain(bar) | {"met": bar.met} for bar in bars(found)],
    }


def joined(kept: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a run with the workloads of a part in place of its own."""
    new = {row["workload"] for row in part["rows"]}
    rows = [row for row in kept["rows"] if row["workload"] not in new] + part["rows"]
    rows.sort(key=lambda row: WORKLOADS.index(row["workload"]))
    own = [bar for bar in kept["bars"] if not any(f": {workload}, " in bar["name"] for workload in new)]
    return {**part, "rows": rows, "larger": kept["larger"], "bars": [*own, *part["bars"]]}


def measure_larger(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Put what a step of the larger model costs into the results, and its bar last."""
    shape = larger.SMALL if options.quick else larger.LARGE
    costs = larger.step_costs(
        shape, getattr(torch, options.dtype), tokens=5 if options.quick else 25, repetitions=options.repetitions
    )
    results["larger"] = _plain(costs)
    if not options.quick:
        bar = floor_bar(costs.over_floor.median)
        others = [own for own in results["bars"] if own["name"] != bar.name]
        results["bars"] = [*others, _plain(bar) | {"met": bar.met}]


def versions(folder: Path | None) -> dict[str, str]:
    """Of what is compared."""
    found = {name: importlib.metadata.version(name) for name in ("stretto", "torch", "transformers")}
    return found if folder is None else found | {"arctic-inference": arctic.version(folder)}


def broken(rows: Sequence[Mapping[str, Any]], *, exact: bool) -> list[str]:
    """Our methods whose answers differ from those of one token at a time where they must not."""
    return [
        f"{row['method']} ({row['workload']}, temperature {row['temperature']}): {row['same']} of {row['answers']}"
        for row in rows
        if exact and not row["peer"] and row["same"] not in {None, row["answers"]}
    ]


def _plain(value: object) -> dict[str, Any]:
    """As JSON has it: what is printed now is what is drawn from the file later."""
    return dict(json.loads(json.dumps(value, default=vars)))


def try_compiled(options: argparse.Namespace) -> None:
    """Compile and use the static cache once; see `peers.why_not_compiled`."""
    source = find_source(options.model[0])
    model, _, _ = read_model(source, getattr(torch, options.dtype), trust_remote_code=False)
    peer = peers.Compiled(model.eval(), threads=torch.get_num_threads(), slots=256)
    for length in (8, 9):
        peer.answer(Task(tuple(range(5, 5 + length)), 8))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--draft", help="a smaller model with the same tokenizer")
    usual_dtype = str(chosen_dtype(None, torch.device("cpu"))).removeprefix("torch.")
    parser.add_argument("--dtype", default=usual_dtype, choices=("bfloat16", "float32"))
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS)
    parser.add_argument("--only", nargs="+", metavar="METHOD", help=f"ours ({', '.join(DRAFTERS)}), or a peer by name")
    parser.add_argument("--arctic", type=Path, metavar="FOLDER", help="where arctic-inference was built")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="the compiled static cache")
    parser.add_argument("--tokens", type=int, help="of an answer at most (112)")
    parser.add_argument("--prompts", type=int, help="of each workload (4)")
    parser.add_argument("--repetitions", type=int, help="that count (3)")
    parser.add_argument("--turns", type=int, help="of ours in a repetition (3)")
    parser.add_argument("--quick", action="store_true", help="small numbers; results are not kept")
    parser.add_argument("--larger", action="store_true", help="only the larger model; the other results are the kept")
    parser.add_argument("--join", action="store_true", help="let the workloads of this run replace those that are kept")
    parser.add_argument("--threads", type=int, help="of everybody; by default as serves each best")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--redraw", action="store_true", help="measure nothing, use the kept results")
    parser.add_argument("--update-docs", action="store_true", help="write the figures into benchmarks/results")
    parser.add_argument("--try-compile", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    for name, small, usual in (("tokens", 12, 112), ("prompts", 1, 4), ("repetitions", 1, 3), ("turns", 1, 3)):
        if getattr(options, name) is None:
            setattr(options, name, small if options.quick else usual)
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Measure or read, show, keep, draw; 1 where a lossless method was not lossless."""
    options = arguments(given)
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if options.try_compile:
        try_compiled(options)
        return 0
    if options.threads:
        limit_threads(options.threads)
        torch.set_num_threads(options.threads)
    return max(_of_one_model(options, model) for model in options.model)


def named(model: str, dtype: str) -> str:
    """What the files with the figures of a model are called."""
    parts = ["decoding", *([] if model == MODELS[0] else [Path(model.removeprefix("local:")).name])]
    return "-".join([*parts, *([] if dtype == "bfloat16" else [dtype])])


def _of_one_model(options: argparse.Namespace, model: str) -> int:
    name, part = named(model, options.dtype), bool(options.only or options.workload)
    kept, keeps = RESULTS / f"{name}.json", not (options.quick or part) or options.join
    with_larger = model == MODELS[0] and not part
    if options.redraw or options.larger:
        results: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if options.larger:
            measure_larger(options, results)
            save(name, results)
        for rows in {(row["workload"], row["temperature"]): None for row in results["rows"]}:
            print_table(console, [row for row in results["rows"] if (row["workload"], row["temperature"]) == rows])
    else:
        console.print(f"{model}; {machine()}; {', '.join(' '.join(pair) for pair in versions(options.arctic).items())}")
        try:
            results = measure(options, model)
        except (StrettoError, ImportError) as error:
            console.print(f"[red]{error}[/]")
            return 2
        if with_larger:
            measure_larger(options, results)
        if options.join and kept.exists():
            results = joined(json.loads(kept.read_text(encoding="utf-8")), results)
        if keeps:
            save(name, results)
    for note in results["notes"]:
        console.print(f"[dim]{note}[/]")
    print_bars(console, results["bars"])
    if options.redraw or options.larger or keeps:
        draw(results, IMAGES / name)
        if options.update_docs:
            fill_block(RESULTS / f"{name}.md", markdown(results))
    wrong = broken(results["rows"], exact=results.get("exact", True))
    for line in wrong:
        console.print(f"[red]not the answers of one token at a time:[/] {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
