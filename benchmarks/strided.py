"""I-DLM's lossless form: strided decoding by an adapter, beside one token at a time.

    python -m recipes.denoise.introspect                     trains the adapter of the pocket model, in build/idlm
    python benchmarks/strided.py                             reads it there
    python benchmarks/strided.py --adapter FOLDER --model ./FOLDER
    python benchmarks/strided.py --threads 1 --clock cpu     on a machine that others use too

Known questions in changed words, greedy and at temperature 0.8. Both ways answer each question in turn. Answers have to
be equal token by token; tokens a step and the time over that of one token at a time are told.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import CLOCKS, Spread, machine, offer_clock, save
from rich.console import Console
from rich.progress import track
from rich.table import Table

from recipes.denoise.evaluate import asked
from recipes.pocket.corpus import Corpus
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.source import find_source
from stretto.local_engine.pocket import MODEL_FOLDER
from stretto.local_engine.serving.engine import Engine

PLAIN, STRIDED = "autoregressive", "strided"
CHANCES: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature 0.8": {"temperature": 0.8, "seed": 3},
}
console = Console(width=110)


@dataclass(frozen=True)
class Result:
    """All answers at one temperature.

    Attributes:
        equal: questions whose answers are the same, token by token.
        tokens_a_step: of all strided answers together.
        time: of a strided answer over that of one token at a time.
    """

    chance: str
    questions: int
    equal: int
    tokens_a_step: float
    time: Spread


def with_adapter(model: Path, adapter: Path, target: Path) -> Path:
    """A folder that holds the model, and the adapter where strided decoding looks for it."""
    target.mkdir()
    for file in model.iterdir():
        if file.is_file():
            shutil.copyfile(file, target / file.name)
    shutil.copytree(adapter, target / STRIDED)
    return target


def measure(
    engine: Engine, prompts: Sequence[tuple[int, ...]], chance: str, length: int, clock: Callable[[], float]
) -> Result:
    """Both ways on each question, in turn; the first question is asked once before, to warm up."""
    found: list[tuple[bool, int, int, float]] = []
    for number, prompt in enumerate(track([prompts[0], *prompts], chance, console=console)):
        tokens, seconds, figures = {}, {}, None
        for method in (PLAIN, STRIDED) if number % 2 else (STRIDED, PLAIN):
            began = clock()
            request = Generation(prompt, length, decoding=method, end_ids=engine.model.end_ids, **CHANCES[chance])
            handle = engine.submit(request)
            end = list(handle)[-1]
            seconds[method], tokens[method] = clock() - began, handle.sequence.generated
            figures = end.figures if isinstance(end, Finished) and method == STRIDED else figures
        if number and figures is not None:
            found.append(
                (tokens[PLAIN] == tokens[STRIDED], figures.tokens, figures.steps, seconds[STRIDED] / seconds[PLAIN])
            )
    same, written, steps, ratios = zip(*found, strict=True)
    return Result(chance, len(found), sum(same), sum(written) / sum(steps), Spread.of(ratios))


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", type=Path, default=Path("build/idlm"), help="folder (default: %(default)s)")
    parser.add_argument("--model", type=Path, default=MODEL_FOLDER, help="folder of the model (default: pocket)")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=300, help="of an answer, at most")
    parser.add_argument("--threads", type=int)
    offer_clock(parser)
    chosen = parser.parse_args()
    if not (chosen.adapter / "adapter_config.json").is_file():
        parser.error(f"there is no adapter in {chosen.adapter}. Train one: python -m recipes.denoise.introspect")
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    clock = CLOCKS[chosen.clock]
    corpus = asked(Corpus(with_source=False))
    questions = [question for _, question in corpus[:: max(1, len(corpus) // chosen.questions)]][: chosen.questions]
    with tempfile.TemporaryDirectory() as folder:
        source = with_adapter(chosen.model, chosen.adapter, Path(folder) / "model")
        model = load_model(find_source(str(source)))
        prompts = [model.chat.encode([{"role": "user", "content": question}]) for question in questions]
        engine = Engine(model, threads=chosen.threads)
        try:
            results = [measure(engine, prompts, chance, chosen.tokens, clock) for chance in CHANCES]
        finally:
            engine.close()
    shown = Table("chance", "equal answers", "tokens a step", "time over one at a time")
    for each in results:
        shown.add_row(each.chance, f"{each.equal} of {each.questions}", f"{each.tokens_a_step:.2f}", str(each.time))
    console.print(f"{chosen.adapter}, {chosen.clock} time, {chosen.threads or 'all'} threads; {machine()}")
    console.print(shown)
    found = {"machine": machine(), "clock": chosen.clock, "threads": chosen.threads}
    console.print(f"kept in {save('strided', {**found, 'results': [asdict(each) for each in results]}).name}")


if __name__ == "__main__":
    main()
