"""Answer a question about contracts that are longer than the model's window, with the place of each statement.

python contract_reader.py "What does it cost to leave before the term ends?" contract/
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from stretto import Answer, AsyncStretto, RequestOptions, StrettoError

MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4-mini"
MOST_TOKENS = 400  # of the answer
CONTRACT = Path(__file__).with_name("contract")
console = Console()


async def read(stretto: AsyncStretto, question: str, files: list[Path]) -> Answer:
    """Ask about these files and folders, and show the passages as they are read."""
    options: RequestOptions = {"documents": files, "strategy": "document", "max_tokens": MOST_TOKENS}
    async with stretto.stream(question, **options) as stream:
        with Progress(console=console) as progress:
            bar = progress.add_task("reading", total=None)
            async for event in stream:
                if event.type == "route_chosen":
                    console.print(event.route.reason, style="dim", highlight=False)
                elif event.type == "passage_read":
                    progress.update(bar, completed=event.done, total=event.total)
                elif event.type == "text_delta":
                    if progress.live.is_started:  # in a pipe, each stop begins a line
                        progress.stop()
                    print(event.text, end="", flush=True)
        print("\n")
        return stream.answer


def show(answer: Answer) -> None:
    """Show where each statement of the answer stands, and what could not be used."""
    table = Table("place", "below", "the contract says", title="What the answer cites", title_justify="left")
    for citation in answer.citations:
        table.add_row(*map(Text, (citation.label, citation.heading, " ".join(citation.quote.split()))))
    if answer.citations:
        console.print(table)
    read, used = len(answer.passages), sum(bool(each.evidence) for each in answer.passages)
    dropped = sum(each.unfounded for each in answer.passages)
    console.print(f"{read} passages read, {used} with evidence, {len(answer.citations)} cited.", highlight=False)
    if dropped:
        console.print(f"{dropped} quotations do not stand in the contract and were dropped.", highlight=False)
    for warning in answer.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)


async def main(question: str, files: list[Path]) -> None:
    """Read, answer, show."""
    async with AsyncStretto(MODEL) as stretto:
        show(await read(stretto, question, files))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("files", type=Path, nargs="*", default=[CONTRACT])
    chosen = parser.parse_args()
    try:
        asyncio.run(main(chosen.question, chosen.files))
    except StrettoError as error:
        sys.exit(f"error: {error}")
