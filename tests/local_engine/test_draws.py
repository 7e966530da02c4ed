import numpy as np
import pytest
import torch

from stretto.local_engine.choosing.noise import token_numbers
from stretto.local_engine.choosing.sampling import Sampler, choose, scores
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.jit import runs_compiled
from stretto.local_engine.kernels.draws import draw


def numbers(vocabulary):
    return token_numbers(vocabulary, torch.device("cpu")).numpy()


def samplers(*settings):
    requests = [Generation((1,), 9, seed=seed, **own) for seed, own in enumerate(settings)]
    return [Sampler(request, torch.device("cpu")) for request in requests]


@pytest.mark.parametrize("vocabulary", [1, 5, 64, 1000, 8192])
@pytest.mark.parametrize("temperature", [0.05, 0.7, 3.0])
def test_what_is_drawn_is_what_torch_draws(vocabulary, temperature):
    logits = 4 * torch.randn(60, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    ours = samplers(*({"temperature": temperature} for _ in range(60)))
    paths = [range(place % 4) for place in range(60)]
    assert runs_compiled()
    assert choose(logits, ours, paths) == scores(logits, ours, paths).argmax(-1).tolist()


def test_rows_are_drawn_as_they_are_alone():
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(3))
    kinds = (
        {"temperature": 1.0},
        {"temperature": 0.0},
        {"temperature": 1.0, "top_k": 3},
        {"temperature": 0.5, "logit_bias": {7: 50.0}},
    )
    for dtype in (torch.float32, torch.float64):
        together, alone = samplers(*kinds), samplers(*kinds)
        expected = [choose(logits[row : row + 1].to(dtype), [own], [()])[0] for row, own in enumerate(alone)]
        assert choose(logits.to(dtype), together, [()] * 4) == expected
        assert expected[3] == 7


def test_what_is_impossible_is_never_drawn():
    logits = torch.full((500, 100), -torch.inf)
    logits[:, [7, 93]] = torch.tensor([0.0, -3.0])
    keys = torch.randint(-(2**31), 2**31, (500, 2), generator=torch.Generator().manual_seed(4)).tolist()
    drawn = draw(logits, [1.0] * 500, keys, numbers(100))
    assert set(drawn) == {7, 93}
    assert 400 < drawn.count(7) < 499  # 476 of 500 on average


def test_rows_may_stand_apart_but_not_their_numbers():
    wide = torch.randn(4, 2, 100, generator=torch.Generator().manual_seed(5))
    keys = [(1, 2), (3, 4), (5, 6), (7, 8)]
    apart = draw(wide[:, 1, :90], [1.0] * 4, keys, numbers(90))
    assert apart == draw(wide[:, 1, :90].contiguous(), [1.0] * 4, keys, numbers(90))
    with pytest.raises(ValueError, match="not contiguous"):
        draw(wide[0].T, [1.0], keys[:1], np.arange(2, dtype=np.int32))


def test_what_float32_has_no_number_for_is_the_coldest_temperature():
    logits = torch.randn(200, 50, generator=torch.Generator().manual_seed(6))
    keys = [(place, 1) for place in range(200)]
    assert draw(logits, [1e-46] * 200, keys, numbers(50)) == logits.argmax(-1).tolist()


def test_of_infinite_logits_one_is_drawn():
    logits = torch.zeros(50, 20)
    logits[:, [3, 8]] = torch.inf
    assert set(draw(logits, [1.0] * 50, [(place, 5) for place in range(50)], numbers(20))) == {3, 8}


def test_rows_keys_and_tokens_have_to_fit():
    logits = torch.zeros(2, 20)
    for keys, tokens in (([(1, 1)], 20), ([(1, 1)] * 2, 19)):
        with pytest.raises(ValueError, match="do not fit logits"):
            draw(logits, [1.0] * len(keys), keys, numbers(tokens))
    assert draw(logits[:0], [], [], numbers(20)) == []
