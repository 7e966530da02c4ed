"""Heads at work: no answer changes with them, alone or together, and threads do not meet in them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from head_folders import HIDDEN, medusa, write
from one_batch import EIGHT
from reading_heads import CLOSE, FREE, HEADS, TEXT, answers, head_of

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter
from stretto.local_engine.drafting.heads.head_method import HeadOptions
from stretto.local_engine.drafting.heads.recurrent import answered
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

NO_TOP = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.mark.thorough
@pytest.mark.parametrize("kind", HEADS)
def test_no_answer_of_eight_changes_greedy_by_seeds_and_in_a_format(kind, tmp_path, loaded, plain_of):
    model, head = loaded("llama"), write(tmp_path, *HEADS[kind]())
    for method in ("head", "auto") if kind in ("eagle3", "medusa") else ("head",):
        assert answers(model, method, head) == plain_of(model)
    assert answers(model, "auto", head, EIGHT[:1]) == plain_of(model)[:1]


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_sequences_that_ask_together_get_what_each_gets_alone(kind, tmp_path, loaded, states):
    head = head_of(write(tmp_path, *HEADS[kind]()), loaded("llama"))
    asked = [None, ([31], [-1]), ([32, 33], [0, -1])], [None, ([41, 42], [-1, -1]), ([43], [1])]
    own = states[head.layers]

    def readers():
        found = [head.reader(), head.reader()]
        for reader, length in zip(found, (10, 4), strict=True):
            reader.read(TEXT[1 : 1 + length], own[:length])
        return found

    together = readers()
    found = [answered(together, both) for both in zip(*asked, strict=True)]
    for number, reader in enumerate(readers()):
        for step, nodes in enumerate(asked[number]):
            torch.testing.assert_close(found[step][number], answered([reader], [nodes])[0], **CLOSE)


def test_recorded_steps_are_left_to_the_thread_of_the_engine_when_a_head_is_read(tmp_path, loaded):
    class Recorded:
        """Steps that another thread may be running."""

        def __init__(self, plain):
            self.plain = plain

        def __call__(self, *_):
            raise RuntimeError("it is at work")

    model = loaded("llama")
    folder = write(tmp_path, *medusa())
    assert head_of(folder, replace(model, forward=Recorded(model.forward))).kind == "medusa"


def test_a_head_may_be_made_ready_for_a_request_while_others_draft_with_it(tmp_path, loaded):
    equipment = DraftEquipment(cost=FREE, model=loaded("llama"), head=write(tmp_path, *medusa()))
    drafter = DRAFTERS["head"](equipment)
    made = []

    class Other(HeadDrafter):
        @property
        def waits(self):
            made.append(DRAFTERS["head"](equipment))  # as another thread may at this moment
            return False

    head, group = equipment.kept["head"]
    accounts = equipment.learned["head"]
    other = Other(head, FREE, accounts, HeadOptions(), group, paths=1)
    context, states = DraftContext([*TEXT, 31], len(TEXT), 400), torch.zeros(1, HIDDEN)
    for each in (other, drafter):
        each.learn(context, DraftOutcome((), *NO_TOP, [31], (), states=states))
    assert len(drafter.propose(context, 4))
    assert made
