"""Heads read from folders, and followed along a text, a chain and a tree."""

import numpy as np
import torch
from head_folders import WORDS, dflash, eagle3, medusa, mtp, peagle
from one_batch import EIGHT, run

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.drafting.heads.load_head import load_head
from stretto.local_engine.drafting.step_cost import StepCost

FREE = StepCost({1: 1e6, 128: 1.001e6})  # however busy the machine is, drafting takes nothing of such a step
TEXT = [(7 * place + 3) % 390 + 5 for place in range(11)]
DRAFTED = [31, 32, 33, 34]  # a chain, and the first two nodes have a second child each
NO_TOP = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def head_of(folder, model):
    return load_head(find_head(None, folder), model)


def given(head, states):
    """A reader that was given a text in two parts."""
    reader, own = head.reader(), states[head.layers]
    reader.read(TEXT[1:7], own[:6])
    reader.read(TEXT[7:], own[6:])
    return reader


def follow(reader):
    """Logits of what follows: the text, the chain, and a tree # [words] each, by path."""
    found = {(): reader.first()[0]}
    for depth in range(1, len(DRAFTED) + 1):
        logits = reader.after([DRAFTED[depth - 1]], [depth - 2])
        if logits is None:
            break
        found[tuple(DRAFTED[:depth])] = logits[0]
    torch.testing.assert_close(reader.first()[0], found[()])
    reader.after([31, 41], [-1, -1])
    for parents, tokens in (((0, 1), (32, 42)), ((3, 2), (43, 33))):
        logits = reader.after(tokens, parents)
        if logits is None:
            break
        paths = {0: (31,), 1: (41,), 2: (31, 32), 3: (41, 42)}
        for row, parent, token in zip(logits, parents, tokens, strict=True):
            found[*paths[parent], token] = row
    return found


HEADS = {
    "eagle3": lambda: eagle3(words=WORDS),
    "peagle": lambda: peagle(words=WORDS),
    "medusa": medusa,
    "dflash": dflash,
    "dspark": lambda: dflash(markov=8, sure=True),
    "dspark with a memory": lambda: dflash(markov=8, kind="rnn", words=WORDS),
    "mtp": mtp,
}


def answers(model, method, head=None, asked=EIGHT):
    """What is written greedily, by seeds and in a format where a head drafts."""
    equipment = DraftEquipment(cost=FREE, model=model, head=head, options={"head": {"length": 3, "width": 2}})
    return run(model, asked, [DRAFTERS[method](equipment) for _ in asked])[0]
