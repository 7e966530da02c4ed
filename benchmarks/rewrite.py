"""How much sooner a given text is there translated or corrected, than when it is written in one piece.

    python benchmarks/rewrite.py                  a table, a plot and `results/rewrite.json`
    python benchmarks/rewrite.py --repeats 1 --no-results

The real OpenAI SDK talks to a scripted HTTP server that writes 60 tokens a second, a word a token. It "translates" a
text by turning its words round, and knows its mistakes, so that all ways write the same. Runs alternate. The
straight answer is compared with LangChain's way: `abatch` over the paragraphs, sixteen at a time, which shows nothing
before its end.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import anyio
from measuring import IMAGES, RESULTS, machine, save
from plots import plot, recorded
from rich.console import Console

from stretto import AsyncStretto
from stretto.display.palette import Palette
from stretto.testing.server import ReceivedRequest, ScriptedServer

__all__ = ["draw"]

KEY = "benchmark"
WAYS = ("straight", "langchain", "rewrite")
MOST_AT_ONCE = 16
MISTAKES = 5
HEAD = (
    *("task", "way", "seconds", "over straight", "first text, s", "over straight"),
    *("tokens written", "over straight", "read", "calls", "as wanted"),
)
_PIECE = re.compile(r"(?P<fence>=== [0-9a-f]+ ===) piece\n(?P<piece>.*?)\n(?P=fence) after", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]{2,}")
console = Console()


@dataclass(frozen=True)
class Case:
    """A task on a text, and what the answer has to be."""

    name: str
    task: str
    text: str
    wanted: str


@dataclass(frozen=True)
class Asked:
    """One answer: seconds to its end and to its first text, tokens read and written, calls."""

    case: str
    way: str
    wall_s: float
    first_s: float
    read: int
    written: int
    calls: int
    right: bool


def paragraphs(number: int, words: int) -> str:
    """A text of so many paragraphs with so many words each, no two alike."""
    chosen = random.Random(7)  # noqa: S311 - the same text each time
    syllables = ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu"]

    def word() -> str:
        return "".join(chosen.choice(syllables) for _ in range(chosen.randint(2, 4)))

    return "\n\n".join(
        " ".join([*(word() for _ in range(words - 1)), word() + "."]).capitalize() for _ in range(number)
    )


def turned(text: str) -> str:
    """The "translation"."""
    return _WORD.sub(lambda found: found[0][::-1], text)


def mistaken(text: str) -> tuple[str, dict[str, str]]:
    """A text with five words misspelt, and each with its right form."""
    words = text.split(" ")
    found = {}
    for number in range(MISTAKES):
        at = (number * 2 + 1) * len(words) // (2 * MISTAKES)
        while not words[at].isalpha():
            at += 1
        wrong = f"{words[at]}qx{number}"
        found[wrong] = words[at]
        words[at] = wrong
    return " ".join(words), found


def cases() -> tuple[list[Case], Mapping[str, str]]:
    """What is asked, and the mistakes of all texts."""
    forty = paragraphs(40, 50)
    wrong, mistakes = mistaken(forty)
    return [
        Case("40 paragraphs translated", "Translate this text into Turned:", forty, turned(forty)),
        Case("five mistakes in 2,000 words", "Correct the spelling of this text:", wrong, forty),
    ], mistakes


def model(mistakes: Mapping[str, str]) -> Callable[[ReceivedRequest], str]:
    """What the server writes."""

    def right(text: str) -> str:
        for wrong, word in mistakes.items():
            text = text.replace(wrong, word)
        return text

    def reply(request: ReceivedRequest) -> str:
        prompt = request.body["messages"][-1]["content"]
        change = right if "Correct the spelling" in prompt else turned
        if '"voice" tells' in prompt:
            return json.dumps({"terms": {}, "voice": "as the source"})
        found = _PIECE.search(prompt)
        if found is None:
            return change(prompt.partition("\n\n")[2])
        if '{"changes"' not in prompt:
            return change(found["piece"])
        there = [(wrong, word) for wrong, word in mistakes.items() if wrong in found["piece"]]
        return json.dumps({"changes": [{"old": wrong, "new": word} for wrong, word in there]})

    return reply


async def by_stretto(case: Case, url: str, strategy: str) -> Asked:
    """One answer by Stretto; ``auto`` has to take `rewrite`."""
    began, first = time.perf_counter(), 0.0
    async with AsyncStretto("openai:scripted", base_url=url, api_key=KEY) as stretto:
        async with stretto.stream(f"{case.task}\n\n{case.text}", strategy=strategy) as stream:
            async for event in stream:
                if event.type == "text_delta" and not first:
                    first = time.perf_counter() - began
        wall, answer = time.perf_counter() - began, stream.answer
    way = "straight" if answer.strategy == "direct" else answer.strategy
    usage, right = answer.usage, answer.text == case.wanted
    return Asked(case.name, way, wall, first, usage.prompt_tokens, usage.completion_tokens, usage.calls, right)


async def by_langchain(case: Case, url: str) -> Asked:
    """Each paragraph by a call of its own, as LangChain batches them."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - the peer only

    chat = ChatOpenAI(model="scripted", base_url=url, api_key=KEY, max_retries=0, streaming=True, stream_usage=True)  # type: ignore[arg-type]  # a plain string is taken
    asked: list[Any] = [f"{case.task}\n\n{paragraph}" for paragraph in case.text.split("\n\n")]
    began = time.perf_counter()
    replies = await chat.abatch(asked, config={"max_concurrency": MOST_AT_ONCE})
    wall = time.perf_counter() - began
    text = "\n\n".join(str(reply.content) for reply in replies)
    usages = [reply.usage_metadata for reply in replies if reply.usage_metadata]
    read, written = sum(each["input_tokens"] for each in usages), sum(each["output_tokens"] for each in usages)
    return Asked(case.name, "langchain", wall, wall, read, written, len(replies), text == case.wanted)


def figures(done: Sequence[Asked]) -> list[dict[str, Any]]:
    """A row for each case and way: medians, and what they are over the straight answer's."""
    rows = []
    for case in dict.fromkeys(each.case for each in done):
        of = {way: [each for each in done if (each.case, each.way) == (case, way)] for way in WAYS}
        middle = {
            way: {
                name: statistics.median(getattr(each, name) for each in some)
                for name in ("wall_s", "first_s", "written", "read", "calls")
            }
            for way, some in of.items()
            if some
        }
        for way, values in middle.items():
            over = {
                f"{name}_over": values[name] / middle["straight"][name]
                for name in ("wall_s", "first_s", "written", "read")
            }
            rows.append({"case": case, "way": way, **values, **over, "right": all(each.right for each in of[way])})
    return rows


def page(result: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "# A given text, rewritten",
        "",
        f"`python benchmarks/rewrite.py`, {result['machine']}. {result['repeats']} runs of each, alternating; medians. "
        f"A server over HTTP writes {result['rate']:g} tokens a second, {result['first_s']:g} s to a first token.",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for row in result["rows"]:
        cells = [row["case"], row["way"], f"{row['wall_s']:.1f}", f"{row['wall_s_over']:.2f}", f"{row['first_s']:.2f}"]
        cells += [f"{row['first_s_over']:.2f}", f"{row['written']:,.0f}", f"{row['written_over']:.2f}"]
        cells += [f"{row['read']:,.0f}", f"{row['calls']:.0f}", "yes" if row["right"] else "no"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(result: Mapping[str, Any]) -> None:
    """Seconds to the end and to the first text, of each task and way."""
    rows = list(reversed(result["rows"]))

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(8.0, 0.42 * len(rows) + 1.0))
        axes.barh(range(len(rows)), [row["wall_s"] for row in rows], color=colours.accent, height=0.6)
        axes.plot([row["first_s"] for row in rows], range(len(rows)), "|", color=colours.text, markersize=14)
        axes.set_yticks(range(len(rows)), [f"{row['case']}, {row['way']}" for row in rows], fontsize=8)
        axes.set_xlabel("seconds to the end; the line is the first text")
        return figure

    plot(IMAGES / "rewrite", drawn)


async def serve(options: argparse.Namespace) -> None:
    """The server, in a process of its own, until that is ended."""
    async with ScriptedServer(
        model(cases()[1]), time_to_first_token_s=options.first, tokens_per_second=options.rate
    ) as server:
        print(server.openai_url, flush=True)
        await anyio.sleep_forever()


@contextmanager
def served(options: argparse.Namespace) -> Iterator[str]:
    """The address of a server in another process."""
    given = [__file__, "--serve", "--rate", str(options.rate), "--first", str(options.first)]
    with subprocess.Popen([sys.executable, *given], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def main(options: argparse.Namespace) -> None:
    """Ask, print and keep the figures, draw the plot."""
    asked, _ = cases()
    done: list[Asked] = []
    with served(options) as url:
        for warm in ("direct", "rewrite"):  # imports
            await by_stretto(Case("", asked[0].task, paragraphs(4, 30), ""), url, warm)
        ways: list[Callable[[Case], Awaitable[Asked]]] = [
            lambda case: by_stretto(case, url, "direct"),
            lambda case: by_langchain(case, url),
            lambda case: by_stretto(case, url, "auto"),
        ]
        for repeat in range(options.repeats):
            for case in asked:
                for way in [*ways[repeat % 3 :], *ways[: repeat % 3]]:
                    done.append(await way(case))
                    console.print(f"{done[-1].case}, {done[-1].way}: {done[-1].wall_s:.2f} s", highlight=False)
    result = {
        "machine": machine(), "rate": options.rate, "first_s": options.first, "repeats": options.repeats,
        "rows": figures(done), "runs": [asdict(each) for each in done],
    }  # fmt: skip
    console.print(page(result), soft_wrap=True, markup=False)
    if not options.no_results:
        save("rewrite", result)
        (RESULTS / "rewrite.md").write_text(f"{page(result)}\n", encoding="utf-8")
        draw(result)
        recorded("python benchmarks/redraw.py", ["rewrite.png"], "benchmarks/results/rewrite.json")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rate", type=float, default=60.0, help="tokens a second of each call")
    parser.add_argument("--first", type=float, default=0.4, help="seconds to a first token")
    parser.add_argument("--repeats", type=int, default=3, help="of each task in each way")
    parser.add_argument("--serve", action="store_true", help="be the server, as this program starts it")
    parser.add_argument("--no-results", action="store_true", help="keep nothing")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    anyio.run(serve if given.serve else main, given)
