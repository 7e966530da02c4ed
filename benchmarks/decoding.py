"""How many tokens a step of each decoding method commits, and how long a token takes, on one model and machine.

    python benchmarks/decoding.py                          every method on ``local:pocket``
    python benchmarks/decoding.py --model local:./folder --methods auto suffix --tokens 200

Same weights, prompts and engine for all; repetitions alternate between the methods, and the first is not counted.
Continued are Python files that the pocket model was not trained on, an encyclopaedic question, and a text to be
repeated; each greedily, and sampled at temperature 0.7 with a seed. In float32 the answers are checked to be the same
under every method; in bfloat16 sums of other lengths round otherwise, so it is told how many are.

Small models loop when they decode greedily, which flatters every drafter: the share of 4-grams of the answer that
are distinct is told beside the speed.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from sysconfig import get_path

from measuring import Spread, machine, save
from rich.console import Console
from rich.table import Table

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.engine import Engine
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.load import LoadedModel, load_model
from stretto.local_engine.pocket.source import HELD_OUT_FILES
from stretto.local_engine.source import find_source

METHODS = [name for name in DRAFTERS if name != "draft_model"]
CODE_PROMPT = 1500
QUESTION = "How do I look after a bicycle?"
REPEATED = (
    "Repeat this text word for word:\nThe bicycle lives in a dry place. Its chain is oiled each month, its tyres "
)
REPEATED += "are filled each week, and its brakes are looked at before each ride."
console = Console(width=110)


@dataclass
class Case:
    """One prompt, at one temperature."""

    workload: str
    prompt: tuple[int, ...]
    temperature: float


@dataclass
class Result:
    """What one method did on one workload."""

    milliseconds: list[float] = field(default_factory=list)  # a token, prompt left out; one for each repetition
    steps: int = 0
    rows: int = 0
    tokens: int = 0
    answers: list[list[int]] = field(default_factory=list)


def cases(model: LoadedModel, files: int) -> list[Case]:
    """The prompts of all workloads."""
    found = [file for name in HELD_OUT_FILES if (file := Path(get_path("stdlib")) / name).is_file()][:files]
    texts = [("code", file.read_text(encoding="utf-8")[:CODE_PROMPT]) for file in found]
    prompts = [(workload, model.tokenizer(text).input_ids) for workload, text in texts]
    for workload, question in (("question", QUESTION), ("repeat", REPEATED)):
        message = [{"role": "user", "content": question}]
        given = model.tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)
        prompts.append((workload, given["input_ids"]))
    return [Case(name, tuple(ids), heat) for heat in (0.0, 0.7) for name, ids in prompts]


def run(engine: Engine, case: Case, method: str, tokens: int) -> tuple[Finished, list[int], float]:
    """One answer: its account, its tokens, and the milliseconds from the first piece of text to the end."""
    handle = engine.submit(
        Generation(case.prompt, tokens, temperature=case.temperature, seed=7, decoding=method, end_ids=frozenset())
    )
    first = 0.0
    for event in handle:
        first = first or time.perf_counter()
        if isinstance(event, Finished):
            assert event.error is None, event.error
            return event, handle.sequence.generated, (time.perf_counter() - first) * 1e3
    raise AssertionError("a generation ends with its account")


def measure(engine: Engine, methods: list[str], given: list[Case], tokens: int, repetitions: int) -> dict[str, Result]:
    """All methods on the cases of one workload, one after the other, again and again."""
    results: dict[str, Result] = defaultdict(Result)
    for repetition in range(repetitions + 1):
        for method in methods:
            spent, result = 0.0, results[method]
            for case in given:
                finished, answer, milliseconds = run(engine, case, method, tokens)
                spent += milliseconds
                if repetition == 0:
                    assert finished.figures is not None
                    result.steps += finished.figures.steps
                    result.rows += finished.figures.rows
                    result.tokens += finished.figures.tokens
                    result.answers.append(answer)
            if repetition:
                result.milliseconds.append(spent / result.tokens)
    return results


def distinct(answers: list[list[int]]) -> float:
    """Share of the answers' 4-grams that are not there twice."""
    grams = [tuple(answer[start : start + 4]) for answer in answers for start in range(len(answer) - 3)]
    return len(set(grams)) / max(len(grams), 1)


def main() -> None:
    """Measure, show and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    methods = list(dict.fromkeys(["autoregressive", *arguments.methods]))
    model = load_model(find_source(arguments.model), dtype=arguments.dtype)
    saved = []
    engine = Engine(model)
    given = cases(model, arguments.files)
    for workload, heat in dict.fromkeys((case.workload, case.temperature) for case in given):
        chosen = [case for case in given if (case.workload, case.temperature) == (workload, heat)]
        results = measure(engine, methods, chosen, arguments.tokens, arguments.repetitions)
        base = results["autoregressive"]
        table = Table(title=f"{workload}, temperature {heat}", title_justify="left")
        for column in ("method", "tokens/step", "rows/step", "ms/token", "speed-up", "same answers", "distinct"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for method, result in results.items():
            time_spread = Spread.of(result.milliseconds)
            same = sum(own == plain for own, plain in zip(result.answers, base.answers, strict=True))
            assert same == len(base.answers) or "float32" not in str(model.dtype), (method, workload)
            row = {
                "tokens_per_step": result.tokens / result.steps,
                "rows_per_step": result.rows / result.steps,
                "ms_per_token": time_spread,
                "speed_up": Spread.of(base.milliseconds).median / time_spread.median,
                "same_answers": same,
                "distinct_4_grams": distinct(result.answers),
            }
            saved.append({"workload": workload, "temperature": heat, "method": method, **row})
            table.add_row(
                *(method, f"{row['tokens_per_step']:.2f}", f"{row['rows_per_step']:.1f}", str(time_spread)),
                *(f"{row['speed_up']:.2f}", f"{same} of {len(base.answers)}", f"{row['distinct_4_grams']:.2f}"),
            )
        console.print(table)
    engine.close()
    options = {"tokens": arguments.tokens, "files": arguments.files, "repetitions": arguments.repetitions}
    console.print(f"{model.name}, {model.dtype}, {machine()}")
    save("decoding", {"machine": machine(), "model": model.name, "dtype": str(model.dtype), **options, "rows": saved})


if __name__ == "__main__":
    main()
