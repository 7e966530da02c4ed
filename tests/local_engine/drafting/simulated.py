"""A target without a model: a function from the text to the next token, and the plainest loop that verifies drafts."""

# ruff: noqa: S311 - what is drawn here is no secret
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import numpy as np

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome

Target = Callable[[list[int]], list[int]]
"""Gives the next tokens after a text, the most probable one first."""

K = 8
PROBABILITIES = [0.6 * 0.4**rank for rank in range(K)]


def markov(order: int = 3, vocabulary: int = 40, seed: int = 1) -> Target:
    """What follows is fixed, and arbitrary, for each sequence of ``order`` tokens."""

    def target(text: list[int]) -> list[int]:
        return Random(f"{seed} {text[-order:]}").sample(range(vocabulary), K)

    return target


def looping(period: int = 23, vocabulary: int = 40, seed: int = 2) -> Target:
    """The same tokens over and over."""
    loop = [Random(seed + place).randrange(vocabulary) for place in range(period)]
    return following(lambda place: loop[place % period], vocabulary)


def prose(vocabulary: int = 400, seed: int = 3) -> Target:
    """Phrases of 2 to 6 tokens in an order that never comes again."""
    draw = Random(seed)
    phrases = [[draw.randrange(vocabulary) for _ in range(draw.randint(2, 6))] for _ in range(60)]
    stream: list[int] = []

    def token(place: int) -> int:
        while len(stream) <= place:
            stream.extend(draw.choice(phrases))
        return stream[place]

    return following(token, vocabulary)


def noise(vocabulary: int = 4000, seed: int = 4) -> Target:
    """Nothing can be foreseen."""
    return following(lambda place: Random(f"{seed} {place}").randrange(vocabulary), vocabulary)


def following(token: Callable[[int], int], vocabulary: int) -> Target:
    """A given text, as long as the last two tokens are those of the text; else anything."""

    def target(text: list[int]) -> list[int]:
        places = range(max(len(text) - 2, 0), len(text))
        if all(text[place] == token(place) for place in places):
            first = token(len(text))
            return [first, *((first + rank) % vocabulary for rank in range(1, K))]
        return Random(f"{text[-2:]} {len(text)}").sample(range(vocabulary), K)

    return target


@dataclass
class Run:
    """What a drafter has generated, and how."""

    text: list[int]
    steps: int = 0
    rows: int = 0
    trees: list[DraftTree] = field(default_factory=list)
    outcomes: list[DraftOutcome] = field(default_factory=list)

    @property
    def tokens_per_step(self) -> float:
        return sum(len(outcome.path) for outcome in self.outcomes) / self.steps


def became(rows, tokens, probabilities, path, accepted) -> DraftOutcome:
    """An outcome, the tops given as lists."""
    tops = np.array(tokens, np.int64, ndmin=2), np.array(probabilities, np.float32, ndmin=2)
    return DraftOutcome(rows, *tops, path, accepted)


def verify(tree: DraftTree, text: list[int], target: Target, limit: int) -> DraftOutcome:
    """Score every row by the target, and accept the longest path on which each token is the target's own."""
    tree, places = tree.prune(limit)
    texts = [[*text, *(tree.tokens[step] for step in tree.path(node))] for node in range(len(tree))]
    tops = [target(text), *map(target, texts)]
    path, accepted, node = [tops[0][0]], [], ROOT
    while (child := tree.child(node, path[-1])) is not None:
        node = child
        accepted.append(places.index(node))
        path.append(tops[node + 1][0])
    rows = [place + 1 if place >= 0 else -1 for place in places]
    return became(rows, tops, [PROBABILITIES] * len(tops), path, accepted)


def generate(
    drafter: Drafter, target: Target, prompt: list[int], length: int, *, rows: int = 32, limit: int | None = None
) -> Run:
    """Draft, verify and commit until the text has ``length`` new tokens or a few more."""
    context = DraftContext([*prompt, target(prompt)[0]], len(prompt), 4000)
    drafter.learn(context, verify(DraftTree(), prompt, target, 0))
    run = Run(context.tokens)
    while len(context.tokens) < len(prompt) + length:
        tree = drafter.propose(context, rows)
        limit = rows if limit is None else limit
        outcome = verify(tree, context.tokens, target, min(limit, divide([tree], limit, packed=True)[0]))
        context.tokens.extend(outcome.path)
        drafter.learn(context, outcome)
        run.steps += 1
        run.rows += len(outcome.top_tokens)
        run.trees.append(tree)
        run.outcomes.append(outcome)
    return run


def plain(target: Target, prompt: list[int], length: int) -> list[int]:
    """One token at a time."""
    text = list(prompt)
    while len(text) < len(prompt) + length:
        text.append(target(text)[0])
    return text
