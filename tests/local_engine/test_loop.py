import pytest
import torch

from stretto.local_engine.generation import Generation
from stretto.local_engine.loop import Batch, common_prefix
from stretto.local_engine.sequence import Sequence

SHARED = tuple(range(10, 50))
PROMPTS = [(*SHARED, 60, 61), SHARED + tuple(range(100, 160)), SHARED + tuple(range(200, 230))]


def batch_of(model, prompts):
    sequences = [Sequence(Generation(prompt, 100), model.decode) for prompt in prompts]
    return Batch(model.forward, sequences, model.device, prefill_rows=16)


def run(batch, forwards):
    """Advances and returns what each sequence still in the batch has generated."""
    with torch.inference_mode():
        for _ in range(forwards):
            for sequence, tokens in zip(batch.sequences, batch.advance(), strict=True):
                sequence.accept(tokens)
    return [sequence.generated for sequence in batch.sequences]


@pytest.mark.parametrize("leaves_after", range(12))
@pytest.mark.parametrize("staying", [[0], [1], [0, 2], [1, 2]])
def test_sequences_that_leave_at_any_moment_change_nothing_for_the_others(leaves_after, staying, loaded):
    model = loaded("llama")
    batch = batch_of(model, PROMPTS)
    run(batch, leaves_after)
    batch.keep(staying)
    got = run(batch, 18 - leaves_after)
    for row, generated in zip(staying, got, strict=True):
        assert generated
        assert run(batch_of(model, [PROMPTS[row]]), 30)[0][: len(generated)] == generated


def test_the_shared_beginning_is_read_once(loaded):
    model, read = loaded("llama"), []

    def counting(rows, cache, keep):
        read.append(tuple(rows.tokens.shape))
        return model.forward(rows, cache, keep)

    sequences = [Sequence(Generation(prompt, 5), model.decode) for prompt in PROMPTS]
    run(Batch(counting, sequences, model.device), 4)
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
