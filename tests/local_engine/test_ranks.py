import pytest
import torch

from stretto.local_engine.choosing.sampling import best_tokens
from stretto.local_engine.kernels.ranks import best


def drawn(*shape):
    return 4 * torch.randn(shape, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("vocabulary", [5, 64, 1000, 8192])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_most_probable_tokens_and_their_probabilities_are_those_of_torch(vocabulary, most):
    logits = drawn(7, vocabulary)
    ids, probabilities = best(logits, [0, 3, 6], most)
    expected = logits[[0, 3, 6]].softmax(-1).topk(most)
    assert ids.tolist() == expected.indices.tolist()
    torch.testing.assert_close(torch.from_numpy(probabilities), expected.values, rtol=1e-5, atol=1e-7)


def test_of_equals_the_one_with_the_smaller_id_comes_first():
    logits = torch.zeros(1, 300)
    logits[0, [70, 200, 299]] = 1.0
    assert best(logits, [0], 4)[0].tolist() == [[70, 200, 299, 0]]


def test_rows_may_stand_apart_but_not_their_numbers():
    wide = drawn(4, 100)
    assert best(wide[:, :90], [1, 2], 2)[0].tolist() == wide[1:3, :90].topk(2).indices.tolist()
    with pytest.raises(ValueError, match="not contiguous"):
        best(wide.T, [0], 1)


def test_what_is_impossible_comes_last_and_what_is_no_number_harms_nothing():
    logits = torch.tensor([[0.0, -torch.inf, 2.0], [torch.nan, torch.nan, torch.nan]])
    ids, probabilities = best(logits, [0, 1], 3)
    assert ids[0].tolist() == [2, 0, 1]
    assert probabilities[0, 2] < 1e-30
    assert set(ids[1]) <= {0, 1, 2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_first_rows_of_each_sequence_are_looked_at_in_every_type(dtype):
    logits = drawn(3, 4, 50).to(dtype)
    ids, probabilities = best_tokens(logits, [2, 0, 4], 2)
    chosen = torch.cat((logits[0, :2], logits[2])).double()
    assert ids.tolist() == chosen.topk(2).indices.tolist()
    expected = chosen.softmax(-1).topk(2).values
    torch.testing.assert_close(torch.tensor(probabilities).double(), expected, rtol=1e-4, atol=1e-6)
