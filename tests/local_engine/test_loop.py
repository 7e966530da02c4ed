import pytest
import torch
from forwards import Watched

from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Generation
from stretto.local_engine.serving.batch import Batch
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence

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
    run = Run(model.forward, model, PROMPTS, tokens=48)
    run.advance(leaves_after)
    run.keep(staying)
    got = run.advance(18 - leaves_after)
    for row, generated in zip(staying, got, strict=True):
        assert generated
        assert Run(model.forward, model, [PROMPTS[row]], tokens=48).advance(30)[0][: len(generated)] == generated


def counted(model, prompts, **options):
    """Runs until all prompts are read; what each forward was given."""
    read = []

    def counting(rows, cache, keep):
        read.append(rows)
        return model.forward(rows, cache, keep)

    run = Run(Watched(model.forward, counting), model, prompts, **options)
    while not run.prefill.done:
        run.advance(1)
    return read


def test_prompts_of_different_lengths_are_read_together_without_padding(loaded):
    read = counted(loaded("llama"), PROMPTS)
    assert [len(rows.real) for rows in read] == [sum(map(len, PROMPTS))]
    assert [part.kv_len for part in read[0].segments] == [*map(len, PROMPTS)]


def test_a_forward_reads_no_more_than_it_may(loaded):
    read = counted(loaded("llama"), PROMPTS, tokens=50)
    assert [rows.tokens.numel() if rows.real is None else len(rows.real) for rows in read] == [50, 50, 50, 50, 12]


@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
@pytest.mark.parametrize("tokens", [7, 64, 512])
def test_prompts_read_together_are_read_as_each_alone(tokens, architecture, loaded):
    model = loaded(architecture)
    together = Run(model.forward, model, PROMPTS, tokens=tokens)
    while not together.prefill.done:
        together.advance(1)
    for row, prompt in enumerate(PROMPTS):
        alone = Run(model.forward, model, [prompt])
        alone.advance(1)
        torch.testing.assert_close(together.prefill.logits[row], alone.prefill.logits[0], atol=1e-4, rtol=1e-4)
