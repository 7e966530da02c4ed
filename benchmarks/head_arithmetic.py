"""What a trained head can bring on this machine, by arithmetic: what rows and levels cost, and how often it is right.

    python benchmarks/head_arithmetic.py --head FOLDER
    python benchmarks/head_arithmetic.py --head FOLDER --dtype bfloat16
    python benchmarks/head_arithmetic.py --head FOLDER --model local:pocket
    python benchmarks/head_arithmetic.py --head FOLDER --draw NAME     also draws docs/img/NAME

The model answers held-out questions greedily. At each place of an answer the head drafts, so it is known what a draft
would bring there. Then the answers are written again, by rule, not by the clock: a step and a run of the head cost
what they were measured to cost, in processor time of one thread. So the rows of the table differ in the rule alone:

- "length N" drafts N tokens in each step.
- "best bound" knows at each place what the head will get right, drafts that and nothing else. No rule can be faster.
- "the same, levels free": as if the head took no time.
- "head" and "auto" are the drafters of the engine; "auto" without the head is what the bar is measured against.
- "best of both" knows at each place what the head and what `suffix` would get right, and drafts the better of the two.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from decoding_real import cost_of_rows
from drafts import FixedCost
from measuring import IMAGES, machine
from plots import plot
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from trained_heads import head_parser

from recipes.heads.questions import held_out
from stretto.display.palette import Palette
from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.catalogue import DraftEquipment, make_drafter
from stretto.local_engine.drafting.heads.head import Head, Reader
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.layer_states import LayerStates
from stretto.local_engine.model.load import LoadedModel, load_model
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving.engine import Engine

LENGTH = 5
ROWS = (1, 2, 3, 4, 5, 6, 8)
NO_TOP = DraftOutcome((), None, None, (), ())  # type: ignore[arg-type]  # these methods do not read them
console = Console(width=120)


@dataclass(frozen=True)
class Costs:
    """Milliseconds: of a step by its rows; of the head's run that begins a draft, that goes on, of a row it reads."""

    step: StepCost
    first: float
    level: float
    read: float


@dataclass(frozen=True)
class Text:
    """A prompt and its answer, with the hidden states of all rows but the last, and what would be right at each place.

    Attributes:
        by_head: tokens of a chain of the head that would be accepted behind each place of the answer.
        by_suffix: the same of `suffix`.
    """

    prompt: list[int]
    answer: list[int]
    states: Tensor
    by_head: list[int]
    by_suffix: list[int]


def answered(model: LoadedModel, engine: Engine, prompt: tuple[int, ...], length: int) -> list[int]:
    """The greedy answer."""
    handle = engine.submit(Generation(prompt, length, decoding="autoregressive", end_ids=model.end_ids))
    for event in handle:
        if isinstance(event, Finished) and event.error is not None:
            raise event.error
    return list(handle.sequence.generated)


def text_of(model: LoadedModel, head: Head, prompt: list[int], answer: list[int]) -> Text:
    """Work out what would be right at each place of an answer."""
    whole = [*prompt, *answer]
    layers = LayerStates(set(head.layers))
    count = len(whole) - 1
    rows = Rows(torch.tensor([whole[:-1]]), torch.arange(count)[None], count, states=layers)
    model.forward(rows, KeyValueCache(1), torch.tensor([count - 1]))
    states = torch.cat([layers.found[layer][0] for layer in head.layers], -1)  # [rows, layers * hidden]
    reader, suffix, read = head.reader(), Suffix(), 0
    by_head, by_suffix = list[int](), list[int]()
    for place in range(len(prompt) + 1, len(whole)):
        reader.read(whole[read + 1 : place], states[read : place - 1])
        read = place - 1
        by_head.append(_right(chain(head, reader), whole[place:]))
        tree = suffix.propose(DraftContext(whole[:place], len(prompt), 1 << 30), 16)
        by_suffix.append(_right_in(tree, whole[place:]))
    return Text(prompt, answer, states, by_head, by_suffix)


def chain(head: Head, reader: Reader) -> list[int]:
    """The head's most probable tokens, one behind the other."""
    tokens, logits = list[int](), reader.first()
    while len(tokens) < LENGTH:
        best = int(logits[-1].argmax())
        tokens.append(best if head.words is None else int(head.words[best]))
        following = reader.behind([tokens[-1]], [len(tokens) - 2]) if len(tokens) < LENGTH else None
        if following is None:
            break
        logits = following
    return tokens


def _right(guess: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens are right; the last token of a text is the model's own."""
    most = min(len(guess), len(text) - 1)
    return next((place for place in range(most) if guess[place] != text[place]), most)


def _right_in(tree: DraftTree, text: Sequence[int]) -> int:
    node, right = ROOT, 0
    while right < len(text) - 1 and (child := tree.child(node, text[right])) is not None:
        node, right = child, right + 1
    return right


def by_rule(texts: Sequence[Text], rule: Callable[[Text, int], tuple[int, float]]) -> tuple[list[float], float]:
    """Milliseconds a token of each text, and tokens a step.

    ``rule`` says how many drafted tokens are accepted at a place of a text, and what the step takes.
    """
    each, steps, tokens = [], 0, 0
    for text in texts:
        place, took, last = 0, 0.0, len(text.answer) - 1
        while place < last:
            right, step_ms = rule(text, place)
            place += right + 1
            took += step_ms
            steps += 1
        each.append(took / last)
        tokens += last
    return each, tokens / steps


def lengths(costs: Costs, length: int) -> Callable[[Text, int], tuple[int, float]]:
    """Draft so many tokens in each step."""
    took = costs.step(1 + length) + costs.first + costs.level * (length - 1)
    return lambda text, place: (min(text.by_head[place], length), took)


def bound(costs: Costs, *, head: bool = True, suffix: bool = False) -> Callable[[Text, int], tuple[int, float]]:
    """Draft what is right, if that gains time."""

    def rule(text: Text, place: int) -> tuple[int, float]:
        ways = [(0, costs.step(1))]
        if head:
            ways += [
                (right, costs.step(1 + right) + costs.first + costs.level * (right - 1))
                for right in range(1, text.by_head[place] + 1)
            ]
        if suffix:
            ways += [(right, costs.step(1 + right)) for right in range(1, text.by_suffix[place] + 1)]
        return min(ways, key=lambda way: way[1] / (1 + way[0]))

    return rule


class Ticking:
    """A head whose runs take what was measured, by a clock of its own."""

    def __init__(self, drafted: Any, costs: Costs) -> None:
        head, _, group = drafted
        self.seconds, self._run, self._costs = 0.0, head.run, costs
        head.run, group.clock = self.run, lambda: self.seconds

    def run(self, tokens: Tensor, before: Tensor, parts: Any) -> Any:
        """Run the head, and let the clock tick."""
        begins = parts[0][0].segments is None
        count = tokens.shape[1]
        took = self._costs.first + self._costs.read * (count - 1) if begins else self._costs.level
        self.seconds += took / 1e3
        return self._run(tokens, before, parts)


def by_drafter(
    texts: Sequence[Text], make: Callable[[], Drafter], cost: StepCost, clock: Ticking | None
) -> tuple[list[float], float, float]:
    """Milliseconds a token of each text, tokens a step, and the share of steps with a draft; the second time counts."""
    for _ in range(2):
        each, steps, tokens, drafts = list[float](), 0, 0, 0
        for text in texts:
            took, own, drafted = _written(text, make(), cost, clock)
            last = len(text.answer) - 1
            each.append(took / last)
            steps, tokens, drafts = steps + own, tokens + last, drafts + drafted
    return each, tokens / steps, drafts / steps


def _written(text: Text, drafter: Drafter, cost: StepCost, clock: Ticking | None) -> tuple[float, int, int]:
    context = DraftContext([*text.prompt, text.answer[0]], len(text.prompt), 1 << 30, ends=frozenset())
    at, took, steps, drafted = 1, 0.0, 0, 0
    behind = len(text.prompt) - 1  # the row of the prompt's last token
    states = text.states
    drafter.learn(
        context,
        DraftOutcome(
            (), NO_TOP.top_tokens, NO_TOP.top_probabilities, text.answer[:1], (),
            states=states[behind : behind + 1], prompt_states=states[:behind],
        ),
    )  # fmt: skip
    while at < len(text.answer):
        cost.begin(1)
        began = clock.seconds if clock else 0.0
        tree = drafter.propose(context, 16)
        draft, nodes = tree.prune(divide([tree], 16, packed=True)[0])
        node, path, accepted = ROOT, [text.answer[at]], list[int]()
        while at + len(path) < len(text.answer) and (child := draft.child(node, path[-1])) is not None:
            node = child
            accepted.append(nodes.index(node))
            path.append(text.answer[at + len(path)])
        context.tokens.extend(path)
        rows = [place + 1 if place >= 0 else -1 for place in nodes]
        row = len(text.prompt) + at - 1
        seen = states.new_zeros(1 + len(draft), states.shape[1])
        seen[0] = states[row]
        for depth, place in enumerate(accepted, 1):
            seen[rows[place]] = states[row + depth] if row + depth < len(states) else 0
        drafter.learn(
            context,
            DraftOutcome(rows, NO_TOP.top_tokens, NO_TOP.top_probabilities, path, accepted, states=seen),
        )
        at += len(path)
        took += cost(1 + len(draft)) + (1e3 * (clock.seconds - began) if clock else 0.0)
        steps, drafted = steps + 1, drafted + bool(len(draft))
    return took, steps, drafted


def measured(head: Head, text: Text) -> tuple[float, float, float]:
    """Milliseconds of a run that begins a draft, of one that follows it, and of one more row that it reads."""
    times: dict[str, list[float]] = {"first": [], "level": [], "many": []}
    many, clock, reader = 17, time.thread_time, head.reader()
    for _ in range(40):
        for name, count in (("first", 2), ("many", many)):
            reader.read(text.prompt[:1] * count, text.states[:count])
            began = clock()
            reader.first()
            times[name].append(clock() - began)
        for depth in range(3):
            began = clock()
            if reader.behind(text.answer[:1], [depth - 1]) is not None:
                times["level"].append(clock() - began)
    first, level, longer = (1e3 * statistics.median(own or [0.0]) for own in times.values())
    return first, level, max(longer - first, 0.0) / (many - 2)


def main() -> None:
    """Measure and show."""
    parser = head_parser(__doc__)
    parser.add_argument("--length", type=int, help="tokens that the head drafts at most")
    parser.add_argument("--width", type=int, help="candidates of the head for each place")
    parser.add_argument("--draw", metavar="NAME", help="draw the times over one token at a time")
    options = parser.parse_args()
    limit_threads(1)
    torch.set_num_threads(1)
    model = load_model(find_source(options.model), dtype=options.dtype, device="cpu", compiled=True)
    equipment = DraftEquipment(model=model, head=options.head)
    make_drafter("head", equipment)  # waits for compiled code
    head: Any = equipment.kept["head"][0]
    step = cost_of_rows(model, 9, time.thread_time, ROWS)
    every = [turns[-1][1] for turns in held_out(pocket=options.model.removeprefix("local:") == "pocket")]
    asked = every[:: max(1, len(every) // options.questions)][: options.questions]
    engine, texts = Engine(model, prefix_cache_bytes=0, threads=1), []
    try:
        for question in track(asked, "answering", console=console, transient=True):
            prompt = model.tokenizer.apply_chat_template(
                [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
            )
            answer = answered(model, engine, tuple(prompt), options.tokens)
            if len(answer) > 4:
                with torch.inference_mode():
                    texts.append(text_of(model, head, list(prompt), answer))
    finally:
        engine.close()
    with torch.inference_mode():
        own = measured(head, texts[0])
    costs = Costs(FixedCost({rows: took["median"] for rows, took in step.items()}), *own)
    one = costs.step(1)
    console.print(f"{model.name}, {model.dtype}, {machine()}, one thread, processor time", highlight=False)
    console.print(
        f"A step takes {one:.2f} ms, one of "
        + ", ".join(f"{rows} rows {costs.step(rows) / one:.2f}" for rows in ROWS[1:])
        + f" times as long. The head takes {costs.first:.2f} ms ({costs.first / one:.3f} steps) to begin, "
        f"{costs.level:.2f} ({costs.level / one:.3f}) for each token further, {costs.read:.3f} for a row read.",
        highlight=False,
    )
    show(texts, costs, equipment, options)


def show(texts: Sequence[Text], costs: Costs, equipment: DraftEquipment, options: argparse.Namespace) -> None:
    """Print the rows."""
    one = costs.step(1)
    free = Costs(costs.step, 0.0, 0.0, 0.0)
    found: dict[str, tuple[list[float], float, str]] = {}
    for length in range(1, LENGTH + 1):
        found[f"length {length}"] = (*by_rule(texts, lengths(costs, length)), "")
    found["best bound"] = (*by_rule(texts, bound(costs)), "")
    found["the same, levels free"] = (*by_rule(texts, bound(free)), "")
    found["best of suffix alone"] = (*by_rule(texts, bound(costs, head=False, suffix=True)), "")
    found["best of both"] = (*by_rule(texts, bound(costs, suffix=True)), "")
    with torch.inference_mode():
        alone = DraftEquipment(cost=costs.step)
        each, tokens, share = by_drafter(texts, lambda: make_drafter("auto", alone), costs.step, None)
        without = each
        found["auto without the head"] = each, tokens, f"{share:.0%}"
        clock = Ticking(equipment.kept["head"], costs)
        bounds = {name: given for name in ("length", "width") if (given := getattr(options, name)) is not None}
        own = replace(equipment, cost=costs.step, options={"head": bounds})
        for name, method in (("head", "head"), ("auto with the head", "auto")):
            each, tokens, share = by_drafter(texts, partial(make_drafter, method, own), costs.step, clock)
            found[name] = each, tokens, f"{share:.0%}"
    shown = Table("rule", title=f"{len(texts)} answers, {sum(len(text.answer) for text in texts)} tokens")
    for column in ("over one at a time", "over auto without", "all answers", "tokens a step", "steps with a draft"):
        shown.add_column(column, justify="right")
    for name, (each, tokens, drafted) in found.items():
        plain, others = [ms / one for ms in each], [ms / other for ms, other in zip(each, without, strict=True)]
        together = f"{sum(each) / sum(without):.2f}"
        shown.add_row(name, _spread(plain), _spread(others), together, f"{tokens:.2f}", drafted)
    console.print(shown)
    if options.draw:
        draw({name: [ms / one for ms in each] for name, (each, _, _) in found.items()}, options.draw)


def draw(found: Mapping[str, Sequence[float]], name: str) -> None:
    """For each rule the times over one token at a time, a point for each answer."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(6, 3.6))
        for place, (rule, ratios) in enumerate(found.items()):
            axes.plot(ratios, [place] * len(ratios), marker="o", linestyle="", alpha=0.5, label=rule)
        axes.set_yticks(range(len(found)), found, fontsize=8)
        axes.invert_yaxis()
        axes.axvline(1, color=colours.field, linewidth=0.8, linestyle="--")
        axes.set(xlabel="time over one token at a time")
        return figure

    plot(IMAGES / name, drawn)


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"


if __name__ == "__main__":
    main()
