"""Decodes requests in one batch, step by step, without an engine."""

import torch

from stretto.local_engine.serving.batch import Batch, layers_read_by
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence


def run(model, requests, drafters):
    """Runs requests as one batch until each has its end; their tokens and numbers of steps."""
    sequences = [Sequence(request, model.decode) for request in requests]
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
