"""Decodes requests in one batch, step by step, without an engine."""

from functools import cache

import torch

from stretto.local_engine.choosing.constraint import Grammars
from stretto.local_engine.generation import Generation
from stretto.local_engine.serving.batch import Batch, layers_read_by
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence

START = [(11 * place + 3) % 390 + 5 for place in range(9)]
END = {"end_ids": frozenset({2})}
SEEDED = {"temperature": 0.7, "top_p": 0.95, "seed": 4}
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 9}
EIGHT = [
    Generation((*START * 2, 12), 12),
    Generation((7, 8, 9), 8),
    Generation((*START, 5, 6, *START, 5), 10),
    Generation((*START * 2, 12), 12, **SEEDED),
    Generation((7, 8, 9, 7, 8), 8, temperature=1.0, seed=9),
    Generation((*START, 12), 10, **END, response_format="([a-f]{3} ){2,9}"),
    Generation((7, 8, 9), 10, **END, response_format=NUMBERS),
    Generation((*START, 12), 10, **END, **SEEDED, response_format=NUMBERS),
]
"""Greedy ones, sampled ones, and some that keep to a format, for one batch."""


grammars = cache(Grammars)


def constraint(model, request):
    """What keeps the answer to its format."""
    if request.response_format is None:
        return None
    return grammars(model.tokenizer).constraint(request.response_format, request.end_ids)


def run(model, requests, drafters):
    """Runs requests as one batch until each has its end; their tokens and numbers of steps."""
    sequences = [Sequence(request, model.decode, constraint(model, request)) for request in requests]
    steps = [0] * len(sequences)
    with torch.inference_mode():
        layers = [layers_read_by(drafter) for drafter in drafters]
        prefill = Prefill(model.forward, sequences, model.device, layers=layers)
        while not prefill.done:
            prefill.advance()
        batch = Batch(model.forward, model.device, draft_nodes=48 * len(sequences))
        running, committed = list(range(len(sequences))), batch.join(prefill, drafters)
        while running:
            assert not any(new.warnings for new in committed)  # no drafter has failed
            ended = [bool(sequences[number].accept(new)[1]) for number, new in zip(running, committed, strict=True)]
            running = [number for number, end in zip(running, ended, strict=True) if not end]
            if running:
                batch.keep([row for row, end in enumerate(ended) if not end])
                committed = batch.advance()
                for number in running:
                    steps[number] += 1
    return [sequence.generated for sequence in sequences], steps
