"""What drafts yield where a given text is written again with changes: steps, rows, and times by tables of step costs.

    python benchmarks/edits.py                      one, five and ten changes in a hundred tokens
    python benchmarks/edits.py --rate 0.05 --machine 443M

No model runs. The answer is a file of source code in which a share of the tokens is replaced, left out or followed by
another one, by chance, or in which some names are replaced wherever they stand; a step accepts what agrees with it. It
costs what the tables of `drafts.py` say, by which `auto` goes, too; looking for drafts is not in it. Printed is the
time per token over one token at a time, and over prompt lookup.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drafts import MACHINES, FixedCost
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from recipes.pocket.source import held_out_source
from stretto.local_engine.draft_tree import ROOT
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.catalogue import DraftEquipment, make_drafter
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.kernels.switch import run_compiled
from stretto.local_engine.model.source import find_source

METHODS = ("prompt_lookup", "suffix", "aggressive", "auto")
ROWS = 64
NO_TOP = DraftOutcome((), None, None, (), ())  # type: ignore[arg-type]  # none of these methods reads them


@dataclass(frozen=True)
class Edit:
    """A given text, and the answer that changes it."""

    source: list[int]
    answer: list[int]


def by_chance(text: list[int], rate: float, draw: random.Random) -> Edit:
    """A third of the changes replace a token, a third leave one out, a third add one."""
    answer = []
    for token in text:
        kind = draw.random() / rate
        if kind >= 1 / 3:
            answer.append(token if kind >= 2 / 3 else draw.choice(text))
        if 2 / 3 <= kind < 1:
            answer.append(draw.choice(text))
    return Edit(text, answer)


def renamed(text: list[int], rate: float, draw: random.Random) -> Edit:
    """The pairs of tokens that make up this share of the text, each replaced by three others wherever it stands."""
    pairs, answer, place = dict[tuple[int, ...], list[int]](), list[int](), 0
    frequent = sorted({tuple(text[at : at + 2]) for at in range(len(text) - 1)})
    draw.shuffle(frequent)
    covered = 0
    for pair in frequent:
        times = sum(tuple(text[at : at + 2]) == pair for at in range(len(text)))
        if times > 1 and covered < rate * len(text):
            pairs[pair] = [draw.choice(text) for _ in range(3)]
            covered += times
    while place < len(text):
        written = pairs.get(tuple(text[place : place + 2]))
        answer += written or text[place : place + 1]
        place += 2 if written else 1
    return Edit(text, answer)


def run(method: str, edit: Edit, cost: StepCost) -> tuple[float, int, int]:
    """Milliseconds, steps and rows of an answer."""
    drafter = make_drafter(method, DraftEquipment(cost=cost))
    prompt = [*edit.source, edit.source[0]]
    context, at = DraftContext([*prompt, edit.answer[0]], len(prompt), 1 << 30), 1
    took, steps, rows = 0.0, 0, 0
    while at < len(edit.answer):
        cost.begin(1)
        tree, places = drafter.propose(context, ROWS).prune(len(edit.answer))
        tree, places = tree.prune(divide([tree], ROWS, packed=True)[0])
        node, accepted = ROOT, list[int]()
        path = [edit.answer[at]]
        while at + len(path) < len(edit.answer) and (child := tree.child(node, path[-1])) is not None:
            node = child
            accepted.append(places.index(node))
            path.append(edit.answer[at + len(path)])
        context.tokens.extend(path)
        at += len(path)
        evaluated = [place + 1 if place >= 0 else -1 for place in places]
        drafter.learn(context, DraftOutcome(evaluated, NO_TOP.top_tokens, NO_TOP.top_probabilities, path, accepted))
        took, steps, rows = took + cost(1 + len(tree)), steps + 1, rows + 1 + len(tree)
    return took, steps, rows


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", nargs="+", type=float, default=[0.01, 0.05, 0.1], help="changes for each token")
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--tokens", type=int, default=300, help="of a text (300)")
    parser.add_argument("--texts", type=int, default=8)
    options = parser.parse_args()
    run_compiled(True)
    tokenizer = AutoTokenizer.from_pretrained(find_source("local:pocket").folder)
    texts = [tokenizer(text).input_ids[: options.tokens] for text in list(held_out_source().values())[: options.texts]]
    kinds: dict[str, Callable[[list[int], float, random.Random], Edit]] = {"chance": by_chance, "names": renamed}
    table = Table("changes", "of 100", "machine", "method", "tokens/step", "rows/step", "time", "over lookup")
    for kind, make in kinds.items():
        for rate in options.rate:
            edits = [make(text, rate, random.Random(number)) for number, text in enumerate(texts)]  # noqa: S311
            for machine in options.machine:
                show(table, (kind, f"{100 * rate:g}", machine), edits)
    Console(width=110).print(table)


def show(table: Table, cells: Sequence[str], edits: Sequence[Edit]) -> None:
    """Add a row for each method."""
    table_of = MACHINES[cells[-1]]
    tokens, lookup = sum(len(edit.answer) - 1 for edit in edits), 0.0
    for method in METHODS:
        found = [run(method, edit, FixedCost(table_of)) for edit in edits]
        took, steps, rows = (sum(each) for each in zip(*found, strict=True))
        lookup = lookup or took
        ratios = f"{took / tokens / table_of[1]:.2f}", f"{took / lookup:.2f}"
        table.add_row(*cells, method, f"{tokens / steps:.2f}", f"{rows / steps:.1f}", *ratios)


if __name__ == "__main__":
    main()
