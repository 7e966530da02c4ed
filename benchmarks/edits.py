"""What drafts yield where a given text is written again with changes: steps, rows, and times by tables of step costs.

    python benchmarks/edits.py                      one, five and ten changes in a hundred tokens
    python benchmarks/edits.py --rate 0.05 --machine 443M
    python benchmarks/edits.py --rate 0.05 --together 4   four answers in a batch
    python benchmarks/edits.py --draw               also draws docs/img/edits-light.png and edits-dark.png

No model runs. The answer is a file of source code in which a share of the tokens is replaced, left out or followed by
another one, by chance, or in which some names are replaced wherever they stand; a step accepts what agrees with it. It
costs what the tables of `drafts.py` say, by which `auto` goes, too; looking for drafts is not in it. Printed is the
time per token over one token at a time, over prompt lookup, and over the best single method.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drafts import MACHINES, FixedCost
from measuring import IMAGES
from plots import plot
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoTokenizer

from recipes.pocket.source import held_out_source
from stretto.display.palette import Palette
from stretto.local_engine.draft_tree import ROOT, DraftTree
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


class Answering:
    """An answer that is written again, with its drafter."""

    def __init__(self, method: str, edit: Edit, cost: StepCost) -> None:
        self.drafter = make_drafter(method, DraftEquipment(cost=cost))
        self.answer, self.at = edit.answer, 1
        prompt = [*edit.source, edit.source[0]]
        self.context = DraftContext([*prompt, edit.answer[0]], len(prompt), 1 << 30)

    def take(self, tree: DraftTree, places: Sequence[int]) -> None:
        """Accept what agrees with the answer of these nodes; ``places`` are those of the whole draft among them."""
        node, accepted = ROOT, list[int]()
        path = [self.answer[self.at]]
        while self.at + len(path) < len(self.answer) and (child := tree.child(node, path[-1])) is not None:
            node = child
            accepted.append(places.index(node))
            path.append(self.answer[self.at + len(path)])
        self.context.tokens.extend(path)
        self.at += len(path)
        evaluated = [place + 1 if place >= 0 else -1 for place in places]
        outcome = DraftOutcome(evaluated, NO_TOP.top_tokens, NO_TOP.top_probabilities, path, accepted)
        self.drafter.learn(self.context, outcome)


def run(method: str, edits: Sequence[Edit], cost: StepCost) -> tuple[float, int, int]:
    """Milliseconds, steps of one answer and rows of answers that are written together."""
    running = [Answering(method, edit, cost) for edit in edits]
    took, steps, rows = 0.0, 0, 0
    while running:
        cost.begin(len(running))
        drafts = [
            each.drafter.propose(each.context, ROWS // len(running)).prune(len(each.answer))[0] for each in running
        ]
        counts = divide(drafts, ROWS, packed=True)
        evaluated = len(running) + sum(counts)
        for each, draft, count in zip(running, drafts, counts, strict=True):
            each.take(*draft.prune(count))
        took, steps, rows = took + cost(evaluated), steps + len(running), rows + evaluated
        running = [each for each in running if each.at < len(each.answer)]
    return took, steps, rows


def plain(edits: Sequence[Edit], cost: StepCost) -> float:
    """Milliseconds of the same without drafts."""
    lengths = [len(edit.answer) - 1 for edit in edits]
    return sum(cost(sum(length > step for length in lengths)) for step in range(max(lengths)))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", nargs="+", type=float, default=[0.01, 0.05, 0.1], help="changes for each token")
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--tokens", type=int, default=300, help="of a text (300)")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--together", type=int, default=1, help="answers that are written in a batch (1)")
    parser.add_argument("--draw", action="store_true", help="draw the times over one token at a time")
    options = parser.parse_args()
    run_compiled(True)
    tokenizer = AutoTokenizer.from_pretrained(find_source("local:pocket").folder)
    texts = [tokenizer(text).input_ids[: options.tokens] for text in list(held_out_source().values())[: options.texts]]
    kinds: dict[str, Callable[[list[int], float, random.Random], Edit]] = {"chance": by_chance, "names": renamed}
    table = Table(
        "changes", "of 100", "machine", "method", "tokens/step", "rows/step", "time", "over lookup", "over best"
    )
    times: dict[tuple[str, str], dict[float, dict[str, float]]] = {}
    console = Console(width=120)
    for kind, make in track(kinds.items(), "answering", console=console, transient=True):
        for rate in options.rate:
            edits = [make(text, rate, random.Random(number)) for number, text in enumerate(texts)]  # noqa: S311
            for machine in options.machine:
                groups = [edits[at : at + options.together] for at in range(0, len(edits), options.together)]
                found = show(table, (kind, f"{100 * rate:g}", machine), groups)
                times.setdefault((kind, machine), {})[rate] = found
    console.print(table)
    if options.draw:
        draw(times)


def draw(times: Mapping[tuple[str, str], Mapping[float, Mapping[str, float]]]) -> None:
    """The time of each method by the share of changes, for each kind of changes and each machine."""

    def drawn(plt: Any, colours: Palette) -> Any:
        kinds, machines = (list(dict.fromkeys(each)) for each in zip(*times, strict=True))
        size = {"figsize": (2.4 * len(machines), 2.4 * len(kinds)), "squeeze": False, "sharey": True}
        figure, every = plt.subplots(len(kinds), len(machines), **size)
        for (kind, machine), found in times.items():
            axes = every[kinds.index(kind)][machines.index(machine)]
            for method in METHODS:
                axes.plot(
                    [100 * rate for rate in found], [own[method] for own in found.values()], marker="o", label=method
                )
            axes.axhline(1, color=colours.field, linewidth=0.8, linestyle="--")
            axes.set_title(f"{kind}, {machine}")
        every[-1][0].set(xlabel="changes in 100 tokens", ylabel="time over one at a time")
        every[0][0].legend(fontsize=7)
        return figure

    plot(IMAGES / "edits", drawn)


def show(table: Table, cells: Sequence[str], groups: Sequence[Sequence[Edit]]) -> dict[str, float]:
    """Add a row for each method. Returns its time over one token at a time."""
    costs, times, rows = MACHINES[cells[-1]], dict[str, float](), dict[str, tuple[str, str]]()
    tokens = sum(len(edit.answer) - 1 for group in groups for edit in group)
    alone = sum(plain(group, FixedCost(costs)) for group in groups)
    for method in METHODS:
        found = [run(method, group, FixedCost(costs)) for group in groups]
        took, steps, evaluated = (sum(each) for each in zip(*found, strict=True))
        times[method] = took / alone
        rows[method] = f"{tokens / steps:.2f}", f"{evaluated / steps:.1f}"
    best = min(own for method, own in times.items() if method != "auto")
    for method, own in times.items():
        ratios = f"{own:.2f}", f"{own / times['prompt_lookup']:.2f}", f"{own / best:.2f}"
        table.add_row(*cells, method, *rows[method], *ratios)
    return times


if __name__ == "__main__":
    main()
