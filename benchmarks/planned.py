"""How soon answers in sections are there, compared with straight ones and points, with texts that a strong model wrote.

    python benchmarks/planned.py                      60 and 150 tokens a second: about fifteen minutes
    python benchmarks/planned.py --rates 60 --questions 5

The real OpenAI SDK against a scripted server in another process, which answers the prompts of a plan, of a section,
of an outline and of a point with the recorded ones (`data/`), and any other with the recorded straight answer. So the
lengths of all parts are a strong model's; what a real server does to many calls at once is not seen. Every question is
asked in each way, one after the other, by one client; several clients run at once. Two checks show whether they delay
each other: straight answers next to the time that the server's parameters give, and some questions once more with
nothing else running.

A silence is the time between two pieces of text that reach the reader, after the first. Headings end one, so the
longest one is shown once more without them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import anyio
from measuring import IMAGES, RESULTS, ROOT, machine, save, scripted_server
from plots import plot, recorded
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import Progress

from stretto import AsyncStretto
from stretto.backends.registry import open_backend
from stretto.display.palette import Palette
from stretto.strategies.skeleton.plan import PlanParser

TEXTS = ROOT / "benchmarks" / "data" / "strong_answers.jsonl"
KEY = "benchmark"
FIRST_S = 0.4  # to the first token of each call
CHARACTERS = 4  # of a token
ANEW = "Agree on it in writing before the first day, and look at it again together after a month."
TOKENS_A_SECOND_AT_ONCE, MOST_AT_ONCE = 700, 7  # of straight answers, so that a client of one core keeps up
WAYS: dict[str, dict[str, Any]] = {
    "straight": {"strategy": "direct"},
    "points": {"strategy": "skeleton", "strategy_options": {"form": "points"}},
    "planned, fastest": {"strategy": "skeleton", "preference": "fastest"},
    "planned, balanced": {"strategy": "skeleton", "preference": "balanced"},
}
_POINT = re.compile(r"^\d+\. \*\*.+?\*\*:? *", re.MULTILINE)
_HEADING = re.compile(r"\s*## [^\n]*\s*")
console = Console()


@dataclass(frozen=True)
class Asked:
    """One answer: seconds from the question on, and tokens.

    ``of``: the set of questions; ``silence_s``: the longest, headings counting as text; ``bare_s``: headings counting
    as none, and ``after``: the text before that one; ``whole``: all recorded parts are in the answer.
    """

    question: str
    of: str
    way: str
    rate: float
    repeat: int
    wall_s: float
    first_s: float
    silence_s: float
    bare_s: float
    after: str
    prompt_tokens: int
    completion_tokens: int
    warnings: Sequence[str]
    whole: bool


def headings_of(plan: str) -> Sequence[str]:
    """As the prompts of sections name them."""
    parser = PlanParser()
    parser.feed(plan)
    parser.finish()
    return parser.headings


def points_of(text: Mapping[str, Any]) -> list[str]:
    """The texts of the merged points; the closing of the outline follows the last one."""
    points = [point.strip() for point in _POINT.split(text["by_points"])[1:]]
    _, found, closing = text["outline"].partition("Closing:")
    return [*points[:-1], points[-1].removesuffix(closing.strip()).strip()] if found else points


def parts_of(text: Mapping[str, Any], way: str) -> list[str]:
    """What the answer is to consist of."""
    if way == "straight":
        return [text["direct"]]
    return points_of(text) if way == "points" else text["sections"]


def letters(text: str) -> str:
    """All that is left of a text once its layout is taken off."""
    return "".join(character for character in text if character.isalnum())


def rules(texts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Patterns of prompts and what each is answered with; the first that is found decides."""
    yield "Write this one sentence or line anew", ANEW
    for each in texts:
        question = f"(?s){re.escape(each['question'])}"
        yield f"{question}.*You plan the answer", each["plan"]
        sections = list(zip(headings_of(each["plan"]), each["sections"], strict=True))
        for heading, section in sections:
            yield f'{question}.*Write the section "{re.escape(heading)}" and nothing else', section
        for first, end in combinations(range(len(sections) + 1), 2):
            named = re.escape(" | ".join(f'"{heading}"' for heading, _ in sections[first:end]))
            text = "\n\n".join(f"## {heading}\n\n{section}" for heading, section in sections[first:end])
            yield f"{question}.*Write the sections {named} and nothing else", text
        if outline := each.get("outline"):
            yield f"{question}.*Write only the outline", outline
            for number, point in enumerate(points_of(each), 1):
                yield f"{question}.*text of point {number},", point
        yield question, each["direct"]


async def ask(stretto: AsyncStretto, text: Mapping[str, Any], way: str, *, rate: float, repeat: int) -> Asked:
    """Ask once and watch the stream."""
    began = time.perf_counter()
    async with stretto.stream(text["question"], **WAYS[way]) as stream:
        pieces = [(time.perf_counter() - began, event.text) async for event in stream if event.type == "text_delta"]
    wall = time.perf_counter() - began
    plain = [piece for piece in pieces if not _HEADING.fullmatch(piece[1])]
    bare, at = max((after - before, before) for (before, _), (after, _) in pairwise(plain))
    usage, written = stream.answer.usage, letters(stream.answer.text)
    return Asked(
        question=text["question"],
        of=text["set"],
        way=way,
        rate=rate,
        repeat=repeat,
        wall_s=wall,
        first_s=pieces[0][0],
        silence_s=max(after - before for (before, _), (after, _) in pairwise(pieces)),
        bare_s=bare,
        after="".join(piece for when, piece in pieces if when <= at)[-60:],
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        warnings=[str(warning) for warning in stream.answer.warnings],
        whole=all(letters(part) in written for part in parts_of(text, way)),
    )


async def at_rate(
    rate: float,
    texts: Sequence[Mapping[str, Any]],
    ways: Sequence[str],
    progress: Progress,
    *,
    at_once: int = 1,
    repeats: int = 1,
) -> list[Asked]:
    """Ask all questions in these ways, some at once."""
    wanted = [
        (repeat, each, [way for way in ways if way != "points" or "outline" in each])
        for repeat in range(repeats)
        for each in texts
    ]
    task = progress.add_task(f"{rate:g} tokens a second", total=sum(len(own) for _, _, own in wanted))
    done: list[Asked] = []
    waiting = iter(wanted)

    async def client(url: str) -> None:
        backend = open_backend("openai:any", base_url=url, api_key=KEY)
        async with aclosing(backend), AsyncStretto(backend) as stretto:
            await stretto.ask("Why?", strategy="direct")  # imports and a connection are no part of it
            for repeat, each, own in waiting:
                for way in own:
                    done.extend([await ask(stretto, each, way, rate=rate, repeat=repeat)])
                    progress.advance(task)

    with scripted_server(
        [*rules(texts), (".", "Yes.")],
        time_to_first_token_s=FIRST_S,
        tokens_per_second=rate,
        token_characters=CHARACTERS,
    ) as url:
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(client, url)
    return done


def of_questions(done: Sequence[Asked], rate: float, way: str) -> list[dict[str, float]]:
    """Each question's medians over the repeats; ratios are to the straight answer of the same repeat."""
    straight = {(each.question, each.repeat): each for each in done if (each.rate, each.way) == (rate, "straight")}
    found: dict[str, list[dict[str, float]]] = {}
    for each in done:
        if (each.rate, each.way) == (rate, way):
            other = straight[each.question, each.repeat]
            found.setdefault(each.question, []).append(
                {
                    "wall_s": each.wall_s,
                    "silence_s": each.silence_s,
                    "bare_s": each.bare_s,
                    "wall": each.wall_s / other.wall_s,
                    "first": each.first_s / other.first_s,
                    "prompt_tokens": each.prompt_tokens,
                    "prompt": each.prompt_tokens / other.prompt_tokens,
                    "completion": each.completion_tokens / other.completion_tokens,
                }
            )
    return [{name: statistics.median(run[name] for run in runs) for name in runs[0]} for runs in found.values()]


def figures(done: Sequence[Asked], rate: float) -> list[dict[str, Any]]:
    """Each set of questions and way: the median and the worst of its questions."""
    rows: list[dict[str, Any]] = []
    for of in (None, *sorted({each.of for each in done})):
        for way in WAYS:
            own = of_questions([each for each in done if of in (None, each.of)], rate, way)
            if own and (of is None or way.startswith("planned")):
                spreads = {name: spread([each[name] for each in own]) for name in own[0]}
                rows.append({"rate": rate, "of": of or "all", "way": way, "questions": len(own), **spreads})
    return rows


def spread(values: Sequence[float]) -> list[float]:
    """Median and worst."""
    return [round(statistics.median(values), 3), round(max(values), 3)]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows as a table of Markdown: medians, the worst in brackets."""
    lines = [
        "| tokens a second | set | way | questions | wall s | wall over straight | first text over straight "
        "| longest silence s | headings not counted | prompt tokens | over straight "
        "| completion tokens over straight |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            f"{row['rate']:g}",
            row["of"],
            row["way"],
            str(row["questions"]),
            median_and_worst(row["wall_s"], 1),
            *(median_and_worst(row[name], 2) for name in ("wall", "first", "silence_s", "bare_s")),
            median_and_worst(row["prompt_tokens"], 0),
            median_and_worst(row["prompt"], 0),
            median_and_worst(row["completion"], 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def median_and_worst(values: Sequence[float], digits: int) -> str:
    """Median and worst."""
    return f"{values[0]:,.{digits}f} ({values[1]:,.{digits}f})"


def checks(done: Sequence[Asked], alone: Sequence[Asked], texts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether the client's own work delayed what was measured at one rate, in sentences."""
    direct = {each["question"]: each["direct"] for each in texts}
    rate = done[0].rate
    over = [
        each.wall_s / (FIRST_S + (-(-len(direct[each.question]) // CHARACTERS) - 1) / rate)
        for each in done
        if each.way == "straight"
    ]
    lines = [
        f"At {rate:g} tokens a second, straight answers took {statistics.median(over):.3f} times what the server's "
        f"parameters give (at most {max(over):.3f})."
    ]
    times: dict[tuple[str, str], list[float]] = {}
    for each in done:
        times.setdefault((each.question, each.way), []).append(each.wall_s)
    if alone:
        ratios = [statistics.median(times[each.question, each.way]) / each.wall_s for each in alone]
        lines.append(
            f"{len(alone)} planned answers were asked for once more with nothing else running. Those of the run had "
            f"taken {statistics.median(ratios):.3f} times as long ({min(ratios):.3f} to {max(ratios):.3f})."
        )
    whole = sum(each.whole for each in done)
    lines.append(f"{whole} of {len(done)} answers have all recorded parts; in the others a sentence was written anew.")
    warned = {warning for each in done for warning in each.warnings}
    return [*lines, *(f"Warning of an answer: {warning}" for warning in sorted(warned))]


def silences(done: Sequence[Asked]) -> list[tuple[float, float, str, str, str]]:
    """Where the longest silences of single answers were: without headings, with them, way, question, text before."""
    planned = sorted((each for each in done if each.way != "straight"), key=lambda each: each.bare_s)
    longest = list({(each.question, each.way): each for each in planned}.values())
    rows = sorted(longest, key=lambda each: -each.bare_s)[:8]
    return [(round(each.bare_s, 2), round(each.silence_s, 2), each.way, each.question, each.after) for each in rows]


def dots(done: Sequence[Asked], rate: float) -> list[dict[str, Any]]:
    """Every question's time over the straight one's, and its longest silence."""
    return [
        {"rate": rate, "way": way}
        | {name: [round(each[name], 3) for each in of_questions(done, rate, way)] for name in ("wall", "silence_s")}
        for way in WAYS
        if way != "straight"
    ]


def page(result: Mapping[str, Any]) -> str:
    """All rates of a result, in Markdown."""
    parts = result["rates"].values()
    rows = sorted(((rate, *row) for rate, part in result["rates"].items() for row in part["silences"]), reverse=True)
    rows.sort(key=lambda row: -row[1])
    repeats = " and ".join(
        f"{part['repeats']} times at {rate} tokens a second" for rate, part in result["rates"].items()
    )
    listed = [
        "| silence s, headings not counted | counted | tokens a second | way | question | after |",
        "|---|---|---|---|---|---|",
    ]
    for rate, bare, silence, way, question, after in rows[:8]:
        before = " ".join(after.replace("|", "\\|").split())
        listed.append(f"| {bare:.2f} | {silence:.2f} | {rate} | {way} | {question} | {before} |")
    return "\n\n".join(
        [
            f"# Planned answers beside others\n\n`python benchmarks/planned.py`, {result['machine']}.",
            (
                "Texts that a strong model wrote ([data](../data/README.md)), sent by a scripted server: "
                f"{FIRST_S:g} s to a first token, {CHARACTERS} characters a token. Each question was asked {repeats} "
                "in each way, and counts with its median; the table has the median of all questions, and the worst in "
                "brackets. What a real server does to many calls at once is not in it. Set b has plans with a line of "
                "terms that sections share, as today's prompts ask for."
            ),
            table([row for part in parts for row in part["rows"]]),
            "## The longest silences\n\n" + "\n".join(listed),
            "## Checks\n\n" + "\n".join(f"- {line}" for part in parts for line in part["checks"]),
        ]
    )


def draw(result: Mapping[str, Any]) -> None:
    """Every question as a dot: its time over the straight one's, and its longest silence; a line at each median."""
    rows = [row for part in result["rates"].values() for row in part["dots"] if row["wall"]]

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 0.42 * len(rows) + 1.1), sharey=True)
        for place, row in enumerate(reversed(rows)):
            for axes, values in ((left, row["wall"]), (right, row["silence_s"])):
                axes.plot(values, [place] * len(values), "o", color=colours.accent, alpha=0.35, markeredgewidth=0)
                middle = statistics.median(values)
                axes.plot([middle, middle], [place - 0.32, place + 0.32], color=colours.text)
        left.axvline(1, color=colours.field, zorder=0)
        left.set_yticks(
            range(len(rows)), [f"{row['way']}, {row['rate']:g} tokens/s" for row in reversed(rows)], fontsize=8
        )
        left.set_xlabel("time over that of the straight answer")
        right.set_xlabel("longest silence, seconds")
        for axes in (left, right):
            axes.set_xlim(left=0)
        return figure

    plot(IMAGES / "planned", drawn)


def part_of(
    done: Sequence[Asked], alone: Sequence[Asked], texts: Sequence[Mapping[str, Any]], busy: float
) -> dict[str, Any]:
    """What is kept of one rate."""
    rate = done[0].rate
    return {
        "repeats": 1 + max(each.repeat for each in done),
        "rows": figures(done, rate),
        "dots": dots(done, rate),
        "silences": silences(done),
        "checks": [
            *checks(done, alone, texts),
            f"The client worked {busy:.0%} of the time of one core. On the machine, {os.getloadavg()[2]:.1f} processes "
            "wanted to run on average.",
        ],
    }


async def main(options: argparse.Namespace) -> None:
    """Ask, print and keep the figures, draw the plot."""
    texts = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()][: options.questions]
    result: dict[str, Any] = {"machine": machine(), "rates": {}}
    with Progress(console=console, transient=True) as progress:
        for rate in options.rates:
            at_once = options.at_once or max(1, min(MOST_AT_ONCE, int(TOKENS_A_SECOND_AT_ONCE / rate)))
            began = time.process_time(), time.perf_counter()
            done = await at_rate(rate, texts, list(WAYS), progress, at_once=at_once, repeats=options.repeats)
            busy = (time.process_time() - began[0]) / (time.perf_counter() - began[1])
            alone = await at_rate(rate, texts[: options.alone], list(WAYS)[2:], progress)
            result["rates"][f"{rate:g}"] = part_of(done, alone, texts, busy)
    written = page(result)
    console.print(Markdown(written) if console.is_terminal else written, soft_wrap=True, markup=False)
    if options.questions is None and not options.no_results:
        keep(result)


def keep(result: dict[str, Any]) -> None:
    """Keep and draw a result; rates that it does not have stay as they were."""
    file = RESULTS / "planned.json"
    before = json.loads(file.read_text(encoding="utf-8"))["rates"] if file.exists() else {}
    rates = sorted((before | result["rates"]).items(), key=lambda part: float(part[0]))
    result = json.loads(save("planned", {"machine": result["machine"], "rates": dict(rates)}).read_text("utf-8"))
    (RESULTS / "planned.md").write_text(f"{page(result)}\n", encoding="utf-8")
    draw(result)
    recorded("python benchmarks/redraw.py", ["planned.png"], "benchmarks/results/planned.json")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--rates",
        type=float,
        nargs="+",
        default=[60.0, 150.0],
        help="tokens a second; from 400 on, points share calls, which no recorded text answers",
    )
    parser.add_argument("--questions", type=int, help="only the first ones; nothing is kept then")
    parser.add_argument("--repeats", type=int, default=3, help="of each question in each way")
    parser.add_argument("--at-once", type=int, help="questions that run at once; by default as many as the rate allows")
    parser.add_argument("--alone", type=int, default=3, help="questions that are asked once more by themselves")
    parser.add_argument("--no-results", action="store_true", help="keep nothing")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main, arguments())
