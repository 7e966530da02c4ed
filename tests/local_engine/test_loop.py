import pytest
import torch

from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.generation import Generation
from stretto.local_engine.loop import Batch
from stretto.local_engine.prefill import Prefill, common_prefix
from stretto.local_engine.sequence import Sequence

SHARED = tuple(range(10, 50))
PROMPTS = [(*SHARED, 60, 61), SHARED + tuple(range(100, 160)), SHARED + tuple(range(200, 230))]


class Run:
    """Prompts that are read and, once they are, run as a batch."""

    def __init__(self, forward, model, prompts, **options):
        self.sequences = [Sequence(Generation(prompt, 100), model.decode) for prompt in prompts]
        self.prefill = Prefill(forward, self.sequences, model.device, **options)
        self.batch = Batch(forward, model.device)

    def advance(self, forwards):
        """Runs so many forwards; what each sequence still there has generated."""
        with torch.inference_mode():
            for _ in range(forwards):
                if len(self.batch):
                    committed = self.batch.advance()
                else:
                    if not self.prefill.done:
                        self.prefill.advance()
                    if not self.prefill.done:
                        continue
                    committed = self.batch.join(self.prefill, [Autoregressive() for _ in self.sequences])
                for sequence, tokens in zip(self.sequences, committed, strict=True):
                    sequence.accept(tokens)
        return [sequence.generated for sequence in self.sequences]

    def keep(self, rows):
        self.sequences = [self.sequences[row] for row in rows]
        (self.batch if len(self.batch) else self.prefill).keep(rows)


@pytest.mark.parametrize("leaves_after", range(12))
@pytest.mark.parametrize("staying", [[0], [1], [0, 2], [1, 2]])
def test_sequences_that_leave_at_any_moment_change_nothing_for_the_others(leaves_after, staying, loaded):
    model = loaded("llama")
    run = Run(model.forward, model, PROMPTS, rows=16)
    run.advance(leaves_after)
    run.keep(staying)
    got = run.advance(18 - leaves_after)
    for row, generated in zip(staying, got, strict=True):
        assert generated
        assert Run(model.forward, model, [PROMPTS[row]], rows=16).advance(30)[0][: len(generated)] == generated


def test_the_shared_beginning_is_read_once(loaded):
    model, read = loaded("llama"), []

    def counting(rows, cache, keep):
        read.append(tuple(rows.tokens.shape))
        return model.forward(rows, cache, keep)

    Run(counting, model, PROMPTS).advance(4)
    assert read == [(1, 40), (3, 60), (3, 1), (3, 1)]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ([(1, 2, 3), (1, 2, 4)], 2),
        ([(1, 2), (1, 2)], 1),
        ([(1,), (1, 2)], 0),
        ([(1, 2), (3,)], 0),
        ([(1, 2, 3, 4), (1, 2)], 1),
    ],
)
def test_the_common_prefix_leaves_every_prompt_a_token(prompts, expected):
    assert common_prefix(prompts) == expected
