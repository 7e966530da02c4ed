"""Answer one question about every row of a CSV file, many rows in one request; a second run goes on where one stopped.

python csv_batch.py reviews.csv --column review --task "Is the tone of each review friendly or angry?"
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
from pathlib import Path

from rich.progress import Progress

from stretto import AsyncStretto

ROWS_AT_ONCE = 8
BEGINNING = '{"row": '  # of each result
MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4-mini"


def undone(rows: list[dict[str, str]], results: Path) -> list[int]:
    """The numbers of the rows that have no result yet. A last line that a killed run left half written is dropped."""
    kept = results.read_text(encoding="utf-8") if results.exists() else ""
    whole, end, half = kept.rpartition("\n")
    try:
        done = {json.loads(line)["row"] for line in whole.splitlines()}
    except (ValueError, TypeError, KeyError):
        raise SystemExit(f"error: {results} holds no results of this program") from None
    if half and not (half.startswith(BEGINNING) or BEGINNING.startswith(half)):
        raise SystemExit(f"error: {results} holds no results of this program")
    if half:
        results.write_text(whole + end, encoding="utf-8")
    return [number for number in range(len(rows)) if number not in done]


async def run(source: Path, column: str, task: str, results: Path) -> None:
    """Ask about all rows that are not done, and append each result as a line of JSON as soon as it is there."""
    with source.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    if column not in (reader.fieldnames or ()):
        raise SystemExit(f"error: {source} has no column {column}, but {', '.join(reader.fieldnames or ('none',))}")
    waiting, spent = undone(rows, results), 0.0
    with Progress() as progress, results.open("a", encoding="utf-8") as output:
        bar = progress.add_task(f"{len(waiting)} of {len(rows)} rows to do", total=len(waiting))
        async with AsyncStretto(MODEL) as stretto:
            for start in range(0, len(waiting), ROWS_AT_ONCE):
                numbers = waiting[start : start + ROWS_AT_ONCE]
                lines = "\n".join(f"{place}. {rows[number][column]}" for place, number in enumerate(numbers, 1))
                answers = [await stretto.ask(f"{task}\n\n{lines}", strategy="items", max_tokens=40 * len(numbers))]
                found = [branch for branch in answers[0].branches if branch.kind == "item"]
                if len(found) != len(numbers):  # they were not written one by one: ask for each
                    answers += [await stretto.ask(f"{task}\n\n{rows[number][column]}") for number in numbers]
                    found = [answer.branches[0].model_copy(update={"text": answer.text}) for answer in answers[1:]]
                for number, branch in zip(numbers, found, strict=True):
                    if branch.status == "finished":  # a failed row is asked for again in the next run
                        output.write(json.dumps({"row": number, "result": branch.text.strip()}) + "\n")
                output.flush()
                spent += sum(answer.cost.usd for answer in answers if answer.cost)
                progress.advance(bar, len(numbers))
    left = len(undone(rows, results))
    print(f"{len(rows) - left} of {len(rows)} rows done, ${spent:.4f} spent in this run, results in {results}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--column", required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--results", type=Path, default=Path("results.jsonl"))
    chosen = parser.parse_args()
    try:
        asyncio.run(run(chosen.source, chosen.column, chosen.task, chosen.results))
    except KeyboardInterrupt:
        raise SystemExit("Interrupted. The same command goes on from here.") from None
