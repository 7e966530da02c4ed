"""When a head drafts, and how far: where its level and the rows pay, by what steps and levels take."""

from dataclasses import replace

import pytest
import torch
from simulated import looping, verify

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.heads.account import Account
from stretto.local_engine.drafting.heads.group import DrafterGroup
from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter
from stretto.local_engine.drafting.heads.head_method import HeadOptions
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.forward.rows import LAST

DEAR, FREE = StepCost({1: 10.0, 2: 11.6, 4: 17.8, 8: 29.0}), StepCost({1: 10.0, 8: 10.1})
VOCABULARY = 40


@pytest.mark.parametrize(("cost", "deeper"), [(DEAR, False), (FREE, True)], ids=["dear rows", "free rows"])
def test_a_level_is_followed_only_where_it_pays_for_its_rows_too(cost, deeper):
    account = Account(level_ms=1.0)
    assert account.goes_deeper([0.6, 0.1], [0.6], 1, 1.2, cost) is deeper
    assert account.goes_deeper([0.98, 0.1], [0.98], 1, 1.2, cost)


class Head:
    """Knows what follows from some token on, and takes a millisecond for a run and a third for each row it reads."""

    kind, layers, words, foresees, sure, begins = "simulated", (LAST,), None, None, None, 0

    def __init__(self, target, knows_from):
        self.target, self.knows_from, self.ms, self.text, self.unread = target, knows_from, 0.0, [], 0

    def reader(self):
        return self

    def read(self, tokens, _states):
        self.text += tokens
        self.unread += len(tokens)

    def first(self):
        self.ms += 1 + self.unread / 3
        self.path, self.unread = [], 0
        return self.logits()

    def after(self, tokens, _parents):
        self.ms += 1
        self.path += tokens
        return self.logits()

    def logits(self):
        place = len(self.text) + len(self.path)
        logits = torch.zeros(1, VOCABULARY)
        logits[0, self.target([*self.text, *self.path])[0] if place >= self.knows_from else 0] = 6.0
        return logits


def test_a_head_that_did_not_pay_at_first_drafts_again_when_it_does():
    """Behind a rest it has much to read. That must not count against its first draft, or it would rest for ever."""
    target = looping(vocabulary=VOCABULARY)
    head = Head(target, knows_from=150)
    drafter = HeadDrafter(
        head, DEAR, (Account(), Account()), HeadOptions(), DrafterGroup(lambda: head.ms / 1e3), paths=1
    )
    text = target([])[:1]
    context = DraftContext(text, 0, VOCABULARY)
    drafter.learn(context, replace(verify(DraftTree(), [], target, 0), states=torch.zeros(1, 1)))
    drafted = []
    while len(text) < 1000:
        tree = drafter.propose(context, 16)
        outcome = verify(tree, text, target, divide([tree], 16, packed=True)[0])
        text.extend(outcome.path)
        drafter.learn(context, replace(outcome, states=torch.zeros(len(outcome.top_tokens), 1)))
        drafted.append((len(text), len(outcome.top_tokens) - 1))
    early = [rows > 0 for place, rows in drafted if 75 < place < 150]
    late = [rows > 0 for place, rows in drafted if place > 700]
    assert sum(early) < 0.2 * len(early)
    assert sum(late) > 0.9 * len(late)
