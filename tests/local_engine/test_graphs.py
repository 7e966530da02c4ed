"""Everything of recorded steps but the recording on a GPU."""

from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, tokens
from torch.fx.experimental.proxy_tensor import make_fx

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.generation import Generation
from stretto.local_engine.graphs import GraphedForward
from stretto.local_engine.llama import LlamaForward


class Recordings:
    """Records by tracing: what is repeated are the operations on the same tensors, as with a CUDA graph."""

    def __init__(self):
        self.made = 0
        self.repeated = 0

    def __call__(self, run):
        self.made += 1
        traced = make_fx(run)()

        def replay():
            self.repeated += 1
            return traced()

        return replay


def graphed(model, **options):
    recordings = Recordings()
    return replace(model, forward=GraphedForward(model.forward, recordings, **options)), recordings


def request(prompt, **options):
    return Generation(prompt=tuple(prompt), max_new_tokens=30, **options)


@pytest.mark.parametrize(
    ("architecture", "decoding"), [("llama", "token_recycling"), ("mistral", "suffix"), ("qwen3", "autoregressive")]
)
def test_recorded_steps_give_the_same_tokens_across_storages_of_growing_length(loaded, start, architecture, decoding):
    plain = loaded(architecture)
    assert isinstance(plain.forward, LlamaForward)
    model, recordings = graphed(plain, rows=(1, 4, 16, 64), shortest=32)  # 65 rows are not recorded
    bare, fast = start(plain), start(model)
    for prompt in PROMPTS[:2]:  # the answers outgrow the first storage
        expected = tokens(bare.submit(request(prompt)))
        assert tokens(fast.submit(request(prompt, decoding=decoding))) == expected
    assert recordings.repeated >= recordings.made > 0


def test_a_step_is_recorded_once_for_each_number_of_rows_and_length(loaded, start):
    model, recordings = graphed(loaded("llama"), shortest=128)
    engine = start(model)
    for _ in range(3):
        tokens(engine.submit(request(PROMPTS[0])))
    assert recordings.made == 1


def test_a_batch_and_the_one_that_is_left_of_it_get_what_they_get_alone(loaded, start):
    model, recordings = graphed(loaded("llama"), shortest=64)
    bare, fast = start(loaded("llama")), start(model)
    asked = [request(PROMPTS[0]), replace(request(PROMPTS[2]), max_new_tokens=10)]
    expected = [tokens(bare.submit(each)) for each in asked]
    with fast.announced():
        handles = [fast.submit(each) for each in asked]
    assert [tokens(handle) for handle in handles] == expected
    assert recordings.repeated > 0


def steps_of(forward, cache, ids, start):
    """One token after the other; the logits behind each."""
    keep, found = torch.tensor([0]), []
    for place, token in enumerate(ids, start):
        found.append(forward(Rows(torch.tensor([[token]]), torch.tensor([[place]]), place + 1), cache, keep))
    return torch.cat(found)


def read(forward, cache, ids):
    forward(Rows(torch.tensor([ids]), torch.arange(len(ids))[None], len(ids)), cache, torch.tensor([len(ids) - 1]))


@torch.inference_mode()
def test_a_second_sequence_does_not_write_over_one_that_is_still_running(loaded):
    plain = loaded("llama").forward
    recordings = Recordings()
    fast = GraphedForward(plain, recordings, shortest=64)
    first, second, alone = KeyValueCache(1), KeyValueCache(1), KeyValueCache(1)
    for forward, cache, ids in ((fast, first, [5, 6, 7]), (fast, second, [50, 60]), (plain, alone, [5, 6, 7])):
        read(forward, cache, ids)
    expected = steps_of(plain, alone, [8, 9, 10, 11], 3)
    got = steps_of(fast, first, [8, 9], 3)
    steps_of(fast, second, [70, 80, 90], 2)
    got = torch.cat((got, steps_of(fast, first, [10, 11], 5)))
    torch.testing.assert_close(got, expected)
    assert recordings.made == 1
    before = recordings.repeated
    del first
    steps_of(fast, second, [91], 5)
    assert recordings.repeated == before + 1, "the storage is free now"


@torch.inference_mode()
def test_where_recording_fails_everything_runs_as_without(loaded):
    def fails(run):
        raise RuntimeError("operation not permitted when stream is capturing")

    plain = loaded("llama").forward
    fast = GraphedForward(plain, fails)
    cache, alone = KeyValueCache(1), KeyValueCache(1)
    read(fast, cache, [5, 6, 7])
    read(plain, alone, [5, 6, 7])
    torch.testing.assert_close(steps_of(fast, cache, [8, 9], 3), steps_of(plain, alone, [8, 9], 3))


@torch.inference_mode()
def test_logits_of_a_step_stay_what_they_are_when_the_next_one_runs(loaded):
    fast = GraphedForward(loaded("llama").forward, Recordings())
    cache = KeyValueCache(1)
    read(fast, cache, [5, 6, 7])
    steps_of(fast, cache, [8], 3)
    held = steps_of(fast, cache, [9], 4)
    copy = held.clone()
    steps_of(fast, cache, [10], 5)
    assert torch.equal(held, copy)
