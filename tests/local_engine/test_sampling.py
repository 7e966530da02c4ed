from collections import Counter

import torch

from stretto.local_engine.choosing.distribution import distribution
from stretto.local_engine.choosing.noise import exponential
from stretto.local_engine.choosing.sampling import Sampler, choose
from stretto.local_engine.generation import Generation

CPU = torch.device("cpu")
LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])


def request(**settings):
    return Generation(prompt=(1,), max_new_tokens=1, **settings)


def kept(logits=LOGITS, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0):
    settings = [torch.tensor([value], dtype=torch.float32) for value in (temperature, top_p, top_k, min_p)]
    probabilities = distribution(logits[None], *settings)[0]
    assert abs(float(probabilities.sum()) - 1) < 1e-6
    return {token: float(p) for token, p in enumerate(probabilities) if p > 0}


def sampler(**settings):
    return Sampler(request(**settings), CPU)


def following(logits, samplers):
    """The tokens chosen for one row each, committed."""
    chosen = choose(logits, samplers, [()] * len(samplers))
    for each, token in zip(samplers, chosen, strict=True):
        each.commit([token])
    return chosen


def test_temperature_zero_takes_the_most_probable_token():
    assert following(LOGITS[None], [sampler()]) == [4]


def test_without_limits_the_distribution_is_the_softmax():
    expected = torch.softmax(LOGITS.double() / 0.7, dim=-1)
    got = kept(temperature=0.7)
    assert all(abs(got[token] - float(expected[token])) < 1e-6 for token in range(5))


def test_top_k_keeps_so_many_tokens():
    assert set(kept(top_k=2)) == {4, 0}


def test_top_p_keeps_the_smallest_set_with_that_mass():
    # Probabilities in order: 0.636, 0.234, 0.086, 0.032, 0.012
    assert set(kept(top_p=0.8)) == {4, 0}
    assert set(kept(top_p=0.6)) == {4}
    assert set(kept(top_p=0.88)) == {4, 0, 1}


def test_top_p_counts_the_mass_that_top_k_left():
    # Of two tokens the first has 0.731 of the mass.
    assert set(kept(top_k=2, top_p=0.7)) == {4}


def test_a_flat_distribution_is_limited_exactly_over_the_whole_vocabulary():
    flat = torch.linspace(0, 1, 2000)
    ordered = torch.softmax(flat, -1).flip(0)
    smallest = int((ordered.cumsum(-1) < 0.9).sum()) + 1
    assert set(kept(flat, top_p=0.9)) == set(range(2000 - smallest, 2000))
    assert set(kept(flat, top_k=700)) == set(range(1300, 2000))
    assert set(kept(flat, top_k=10, top_p=0.35)) == set(range(1996, 2000))


def test_the_limits_of_one_row_leave_the_others_alone():
    logits = torch.randn(4, 2000, generator=torch.Generator().manual_seed(4)) / 4
    settings = [(1.0, 0.9, 0, 0.0), (0.7, 1.0, 0, 0.0), (1.0, 0.5, 20, 0.0), (1.0, 1.0, 0, 0.2)]
    together = distribution(logits, *(torch.tensor(column) for column in zip(*settings, strict=True)))
    for row, (temperature, top_p, top_k, min_p) in enumerate(settings):
        alone = kept(logits[row], temperature, top_p, top_k, min_p)
        assert {token: float(p) for token, p in enumerate(together[row]) if p > 0} == alone


def test_min_p_keeps_tokens_near_the_most_probable_one():
    assert set(kept(min_p=0.3)) == {4, 0}


def test_the_most_probable_token_always_stays():
    assert set(kept(top_p=1e-9, min_p=1.0)) == {4}


def drawn_of_many(logits, seeds, places, first_seed=0, **settings):
    """What samplers of so many seeds draw at so many places each, all from the same logits."""
    samplers = [sampler(**settings, seed=first_seed + number) for number in range(seeds)]
    rows = logits.expand(seeds, -1)
    return [token for _ in range(places) for token in following(rows, samplers)]


def test_what_is_drawn_follows_the_distribution():
    draws = 4000
    counts = Counter(drawn_of_many(LOGITS, 40, draws // 40, temperature=1.0, top_k=4))
    expected = kept(top_k=4)
    assert set(counts) == set(expected)
    chi_square = sum((counts[t] - draws * p) ** 2 / (draws * p) for t, p in expected.items())
    assert chi_square < 16.3  # three degrees of freedom, one in a thousand


def test_one_seed_gives_one_sequence_whoever_shares_the_batch():
    logits = torch.randn(40, 3, 50, generator=torch.Generator().manual_seed(1))
    alone, ours = sampler(temperature=0.9, seed=7), sampler(temperature=0.9, seed=7)
    others = [sampler(temperature=1.3, seed=8), sampler()]
    first = [following(step[1:2], [alone])[0] for step in logits]
    second = [following(step, [others[0], ours, others[1]])[1] for step in logits[:20]]
    second += [following(step[1:2], [ours])[0] for step in logits[20:]]
    assert first == second


def test_without_a_seed_two_requests_differ():
    logits = torch.zeros(1, 1000)
    drawn = {following(logits, [sampler(temperature=1.0)])[0] for _ in range(8)}
    assert len(drawn) > 1


def test_any_integer_is_a_seed():
    for seed in (-1, 0, 2**80):
        following(LOGITS[None], [sampler(temperature=1.0, seed=seed)])


def test_a_token_is_drawn_the_same_whether_others_are_looked_at_before_or_not():
    logits = torch.randn(5, 50, generator=torch.Generator().manual_seed(2))
    ours, ahead = sampler(temperature=1.0, seed=9), sampler(temperature=1.0, seed=9)
    expected = [following(step[None], [ours])[0] for step in logits]
    paths = [expected[:depth] for depth in range(5)]
    assert choose(logits, [ahead] * 5, paths) == expected
    assert choose(logits, [ahead] * 5, paths) == expected


def test_the_penalty_lowers_tokens_of_the_prompt_the_answer_and_the_path():
    ours = sampler(repetition_penalty=2.0)  # its prompt is token 1
    assert choose(LOGITS[None].repeat(2, 1), [ours, ours], [(), (4,)]) == [4, 0]
    ours.commit([4, 4, 0])
    row = LOGITS.clone()
    ours.adjust(row, (2, 3))
    assert row.tolist() == [1.0, 0.5, 0.0, -2.0, 1.5]


def test_the_coldest_temperature_takes_the_most_probable_token():
    for limits in ({}, {"top_p": 0.9}):
        assert choose(LOGITS[None], [sampler(temperature=1e-300, **limits)], [()]) == [4]


def test_a_bias_is_added():
    ours = sampler(logit_bias={3: 10.0, 4: -1.0})
    row = LOGITS.clone()
    ours.adjust(row, ())
    assert row.tolist() == [2.0, 1.0, 0.0, 9.0, 2.0]
    assert choose(LOGITS[None], [ours], [()]) == [3]


def test_two_models_that_draw_with_the_same_numbers_mostly_draw_the_same():
    """As often as the theory of Gumbel coupling says, at least (1 - TV) / (1 + TV); with others' numbers, rarely."""
    places, vocabulary = 3000, 30
    first = torch.randn(vocabulary, generator=torch.Generator().manual_seed(5)).double() * 2
    second = first + torch.randn(vocabulary, generator=torch.Generator().manual_seed(6)).double() / 2
    p, q = first.softmax(-1), second.softmax(-1)
    distance = float((p - q).abs().sum() / 2)
    coupled = sum(1 / float(torch.maximum(p / p[token], q / q[token]).sum()) for token in range(vocabulary))
    assert (1 - distance) / (1 + distance) <= coupled <= 1 - distance
    drawn, drafted = [drawn_of_many(logits, 30, places // 30, temperature=1.0) for logits in (first, second)]
    strange = drawn_of_many(second, 30, places // 30, first_seed=1000, temperature=1.0)
    agreed = sum(a == b for a, b in zip(drawn, drafted, strict=True)) / places
    assert abs(agreed - coupled) < 0.035  # four standard errors
    independent = sum(a == b for a, b in zip(drawn, strange, strict=True)) / places
    assert abs(independent - float((p * q).sum())) < 0.035
    assert independent < coupled - 0.2


def test_numbers_of_neighbouring_tokens_and_places_have_nothing_to_do_with_each_other():
    ours = sampler(temperature=1.0, seed=4)
    numbers = exponential(torch.tensor([ours.key(place) for place in range(400)], dtype=torch.int32), 500)
    assert float(numbers.min()) > 0
    assert abs(float(numbers.mean()) - 1) < 0.01
    for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs(float(torch.corrcoef(torch.stack((one.flatten(), other.flatten())))[0, 1])) < 0.01


def test_what_is_ranked_first_is_what_is_chosen():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(2))
    for settings in ({}, {"temperature": 0.8, "top_k": 9, "seed": 1}):
        ours = sampler(**settings)
        for depth, row in enumerate(logits):
            path = [3] * depth
            (chosen,) = choose(row[None], [ours], [path])
            assert ours.rank(row, path) == [chosen] == ours.rank(row, path, 4)[:1]
            assert len(set(ours.rank(row, path, 4))) == 4
