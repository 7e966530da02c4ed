"""What a local model is good enough for: labels, records, a document, edits and chat, each as code can check it.

    python benchmarks/uses.py local:smollm2                     one model
    python benchmarks/uses.py llamacpp:NAME --base-url URL/v1   any other model
    python benchmarks/uses.py local:./q.gguf --uses labels records    some uses only
    python benchmarks/uses.py local:smollm2 local:./q.gguf --keep     several; the figures are kept
    python benchmarks/uses.py --table                           what is kept of all models

Thirty reviews get one of three labels, ten e-mails become records, a lease with hard line ends answers eight questions
and does not answer four others, a file of 25 lines is changed in five ways, and ten questions have answers that are
known. Everything is asked greedily. Lists are asked once by ``items`` and once in one prompt. A *lost* entry has no
result; a *swapped* one has another entry's. Seconds are of the clock, from the question to the end of the answer.
Each model runs in a process of its own, whose peak memory is reported.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

import anyio
from measuring import RESULTS, machine, save
from rich.console import Console
from rich.table import Table
from uses_tasks import (
    ANSWERED,
    CHAT,
    EDITS,
    LABELLING,
    LEASE,
    MAILS,
    RECORDING,
    REVIEWS,
    SAYS_NOTHING,
    UNANSWERED,
    edit,
    is_edited,
    is_right,
    labels_in,
    records_in,
)

from stretto import AsyncStretto, Document, StrettoError

MOST_TOKENS = 1200
console = Console(width=120)


@dataclass
class Figure:
    """What one way of asking came to.

    Attributes:
        use: what for.
        way: how it was asked.
        right: results that are right.
        total: of so many.
        lost: entries without a result.
        seconds: of all answers together.
        tokens: that were written.
        example: of a wrong answer.
    """

    use: str
    way: str
    right: int
    total: int
    lost: int
    seconds: float
    tokens: int
    example: str


class Asking:
    """Asks one model, and counts seconds and tokens."""

    def __init__(self, stretto: AsyncStretto) -> None:
        self._stretto = stretto
        self.seconds, self.tokens = 0.0, 0

    async def __call__(self, prompt: str, strategy: str, documents: Sequence[Document] = ()) -> str:
        """The text of an answer, or of an error."""
        begun = time.perf_counter()
        try:
            answer = await self._stretto.ask(
                prompt,
                strategy=strategy,
                documents=list(documents) or None,
                temperature=0.0,
                max_tokens=MOST_TOKENS,
            )
        except StrettoError as error:
            return f"failed: {error}"
        finally:
            self.seconds += time.perf_counter() - begun
        self.tokens += answer.usage.completion_tokens
        return answer.text

    def figure(self, use: str, way: str, *, right: int, total: int, lost: int = 0, example: str) -> Figure:
        """What was asked so far came to this."""
        return Figure(use, way, right, total, lost, self.seconds, self.tokens, example[:400])


async def labels(stretto: AsyncStretto) -> list[Figure]:
    """Thirty labels, by items and in one prompt."""
    found = []
    for strategy in ("items", "direct"):
        asking = Asking(stretto)
        text = await asking(LABELLING, strategy)
        found_labels = labels_in(text)
        right = sum(label == expected for label, (_, expected) in zip(found_labels, REVIEWS, strict=True))
        found.append(
            asking.figure(
                "labels", strategy, right=right, total=len(REVIEWS), lost=found_labels.count(None), example=text
            )
        )
    return found


async def records(stretto: AsyncStretto) -> list[Figure]:
    """Ten records, by items and in one prompt; a record counts in its place alone."""
    found = []
    for strategy in ("items", "direct"):
        asking = Asking(stretto)
        text = await asking(RECORDING, strategy)
        found_records = records_in(text)
        right = sum(is_right(record, expected) for record, (_, expected) in zip(found_records, MAILS, strict=False))
        found.append(
            asking.figure(
                "records",
                strategy,
                right=right,
                total=len(MAILS),
                lost=max(0, len(MAILS) - len(found_records)),
                example=text,
            )
        )
    return found


async def document(stretto: AsyncStretto) -> list[Figure]:
    """Questions that a lease answers, and some that it does not, by passages and in one prompt."""
    found = []
    for strategy in ("document", "direct"):
        asking, right, silent, wrong = Asking(stretto), 0, 0, ""
        for question in (*ANSWERED, *UNANSWERED):
            if strategy == "document":
                text = await asking(question, strategy, [Document(title="lease", text=LEASE)])
            else:
                instruction = "Answer from the text above. If it does not say it, write only: NONE"
                text = await asking(f"{LEASE}\n{question} {instruction}", strategy)
            if question in ANSWERED:
                good = re.search(ANSWERED[question], " ".join(text.split())) is not None
                right += good
            else:
                good = any(words in text for words in SAYS_NOTHING)
                silent += good
            wrong = wrong if good or wrong else f"{question} {text}"
        found.append(asking.figure("document: told", strategy, right=right, total=len(ANSWERED), example=wrong))
        found.append(asking.figure("document: not told", strategy, right=silent, total=len(UNANSWERED), example=wrong))
    return found


async def edits(stretto: AsyncStretto) -> list[Figure]:
    """Changes of a file."""
    asking, right, wrong = Asking(stretto), 0, ""
    for task, expected in EDITS.items():
        text = await asking(edit(task), "direct")
        good = is_edited(text, expected)
        right, wrong = right + good, wrong if good or wrong else text
    return [asking.figure("edits", "direct", right=right, total=len(EDITS), example=wrong)]


async def chat(stretto: AsyncStretto) -> list[Figure]:
    """Short questions."""
    asking, right, wrong = Asking(stretto), 0, ""
    for question, pattern in CHAT.items():
        text = await asking(question, "direct")
        good = re.search(pattern, text, re.IGNORECASE) is not None
        right, wrong = right + good, wrong if good or wrong else f"{question} {text}"
    return [asking.figure("chat", "direct", right=right, total=len(CHAT), example=wrong)]


USES: dict[str, Callable[[AsyncStretto], Awaitable[list[Figure]]]] = {
    "labels": labels,
    "records": records,
    "document": document,
    "edits": edits,
    "chat": chat,
}


async def measure(model: str, base_url: str | None, uses: Sequence[str]) -> dict[str, object]:
    """All figures of a model, and how long it took to its first answer."""
    begun = time.perf_counter()
    async with AsyncStretto(model, base_url=base_url) as stretto:
        await stretto.ask("Hello", strategy="direct", max_tokens=1)
        ready_s = time.perf_counter() - begun
        figures = [each for use in uses for each in await USES[use](stretto)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "model": model.rpartition("/")[2],
        "ready_s": ready_s,
        "peak_bytes": peak,
        "figures": [asdict(each) for each in figures],
    }


def table(kept: dict[str, dict[str, object]]) -> Table:
    """What is kept, a column for each model."""
    shown = Table("use", "way", *kept)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for model, result in kept.items():
        for each in (Figure(**figure) for figure in result["figures"]):  # type: ignore[attr-defined] # as it was kept
            lost = f", {each.lost} lost" if each.lost else ""
            row = cells.setdefault((each.use, each.way), {})
            row[model] = f"{each.right} of {each.total}{lost}, {each.seconds:.1f} s"
    for (use, way), row in cells.items():
        shown.add_row(use, way, *(row.get(model, "") for model in kept))
    return shown


def main() -> None:
    """Measure each model in a process of its own, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--base-url")
    parser.add_argument("--uses", nargs="+", choices=USES, default=list(USES))
    parser.add_argument("--table", action="store_true", help="print what is kept")
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/results/uses.json")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(anyio.run(measure, arguments.models[0], arguments.base_url, arguments.uses)))
        return
    file = RESULTS / "uses.json"
    kept = json.loads(file.read_text(encoding="utf-8"))["models"] if file.exists() else {}
    measured = {}
    for model in arguments.models:
        address = ["--base-url", arguments.base_url] if arguments.base_url else []
        command = [sys.executable, __file__, model, *address, "--uses", *arguments.uses, "--alone"]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        result = json.loads(output.splitlines()[-1])
        measured[result["model"]] = result
        console.print(
            f"{model}: ready after {result['ready_s']:.1f} s, {result['peak_bytes'] / 1e9:.2f} GB at the most"
        )
        console.print(table({result["model"]: result}))
    if arguments.keep:
        save("uses", {"machine": machine(), "models": kept | measured})
    if arguments.table:
        console.print(table(kept | measured))


if __name__ == "__main__":
    main()
