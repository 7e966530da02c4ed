"""Drafters that guess wildly, or know the answer."""

import random

from tiny_models import VOCABULARY

from stretto.local_engine.draft_tree import ROOT, DraftTree


class RandomTrees:
    """Proposes trees of any shape and tokens, more of them than asked for at times."""

    name = "random"
    wants_top = 3

    def __init__(self, seed=0, alphabet=VOCABULARY):
        self.chance = random.Random(seed)  # noqa: S311 - chance, not secrets
        self.alphabet = alphabet

    def token(self, context, depth):  # noqa: ARG002 - Oracle needs them
        return self.chance.randrange(self.alphabet)

    def propose(self, context, rows):
        tree, self.rows = DraftTree(), rows
        depths = {ROOT: 0}
        for _ in range(self.chance.choice((0, 1, rows // 2, rows + 5))):
            parent = self.chance.choice(list(depths))
            node = tree.add(
                self.token(context, depths[parent]), parent, self.chance.random(), keep=self.chance.random() < 0.2
            )
            depths[node] = depths[parent] + 1
        self.tree, self.before = tree, len(context.tokens)
        return tree

    def learn(self, context, outcome):
        """The outcome is told in terms of the tree that was proposed."""
        if not hasattr(self, "tree"):
            assert not outcome.rows
            assert len(outcome.top_tokens) == 1
            return
        tree = self.tree
        assert context.tokens[self.before :] == list(outcome.path)
        assert len(outcome.rows) == len(tree)
        rows = [row for row in outcome.rows if row >= 0]
        assert len(rows) == len(set(rows)) <= self.rows
        assert [tree.tokens[node] for node in outcome.accepted] == list(outcome.path[:-1])
        assert [tree.parents[node] for node in outcome.accepted] == [ROOT, *outcome.accepted][: len(outcome.accepted)]
        for node in outcome.accepted:
            assert outcome.rows[node] > 0
        assert all(len(top) == 3 for top in outcome.top_tokens)
        if context.greedy:
            walked = [0, *(outcome.rows[node] for node in outcome.accepted)]
            assert [outcome.top_tokens[row][0] for row in walked] == list(outcome.path)


class Oracle(RandomTrees):
    """Mixes the right continuation, known beforehand, with wrong tokens."""

    name = "oracle"

    def __init__(self, answers, seed=0):
        super().__init__(seed)
        self.answers = answers

    def token(self, context, depth):
        answer = self.answers.get(tuple(context.tokens[: context.prompt_length]), ())
        place = len(context.tokens) - context.prompt_length + depth
        right = answer[place] if place < len(answer) else 0
        return right if self.chance.random() < 0.8 else super().token(context, depth)
