"""Everything of recorded steps but the recording on a GPU, with a recorder that keeps none of what it reads."""

import functools
import logging
from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, tokens
from recording import Recordings
from tiny_models import build

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward
from stretto.local_engine.model.loading.load import prepare
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def loaded(tokenizer):
    """As on a GPU: with the operations of torch, not with a step that is compiled as a whole."""
    return functools.cache(lambda name: prepare(f"local:{name}", build(name), tokenizer, packed=False))


def graphed(model, **options):
    recordings = Recordings()
    return replace(model, forward=GraphedForward(model.forward, recordings, **options)), recordings


def request(prompt, **options):
    return Generation(prompt=tuple(prompt), max_new_tokens=30, **options)


@pytest.mark.parametrize(
    ("architecture", "decoding"),
    [("llama", "lookahead"), ("mistral", "suffix"), ("qwen3", "autoregressive")],
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
    assert model.forward.slots == 128


def test_a_batch_and_the_one_that_is_left_of_it_get_what_they_get_alone(loaded, start):
    model, recordings = graphed(loaded("llama"), shortest=64)
    bare, fast = start(loaded("llama")), start(model)
    asked = [request(PROMPTS[0]), replace(request(PROMPTS[2]), max_new_tokens=10)]
    expected = [tokens(bare.submit(each)) for each in asked]
    with fast.announced():
        handles = [fast.submit(each) for each in asked]
    assert [tokens(handle) for handle in handles] == expected
    assert recordings.repeated > 0


def warnings_of(caplog):
    """What was logged and is more than news: the level of the log is not this test's."""
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("decoding", ["prompt_lookup", "autoregressive", "lookahead"])
def test_what_a_recording_reads_is_kept_while_it_can_be_repeated(loaded, start, caplog, decoding):
    model, recordings = graphed(loaded("llama"), shortest=32)
    engine = start(model)
    for prompt in PROMPTS[:2]:
        tokens(engine.submit(request(prompt, decoding=decoding)))
    assert recordings.repeated > 20
    assert recordings.freed == 0
    assert not warnings_of(caplog)


@pytest.mark.parametrize(
    ("architecture", "decoding"),
    [("llama", "suffix"), ("llama", "autoregressive"), ("mistral", "lookahead")],
)
def test_steps_of_a_batch_are_recorded_whoever_leaves_and_whatever_each_drafts(
    loaded, start, caplog, architecture, decoding
):
    plain = loaded(architecture)
    model, recordings = graphed(plain, shortest=64, together=400)
    bare, fast = start(plain), start(model)
    asked = [
        replace(request(prompt, decoding=decoding), max_new_tokens=9 + 12 * number)
        for number, prompt in enumerate(PROMPTS[:3])
    ]
    expected = [tokens(bare.submit(replace(each, decoding="autoregressive"))) for each in asked]
    for _ in range(2):
        with fast.announced():
            handles = [fast.submit(each) for each in asked]
        assert [tokens(handle) for handle in handles] == expected
    assert {batch for batch, _ in model.forward._storages} >= {1, 2, 4}, "three sequences are filled up to four"
    assert recordings.repeated > 2 * recordings.made
    assert recordings.freed == 0
    assert not warnings_of(caplog)


@torch.inference_mode()
def test_sequences_that_join_and_leave_between_recorded_steps_keep_what_they_hold(loaded):
    plain, recordings = loaded("llama").forward, Recordings()
    fast = GraphedForward(plain, recordings, shortest=64)
    texts, place = [[5, 6, 7], [50, 60], [70]], torch.tensor([0])

    def caches(forward):
        made = [KeyValueCache(1) for _ in texts]
        for cache, ids in zip(made, texts, strict=True):
            read(forward, cache, ids)
        return made

    def step(forward, cache, ids, starts):
        rows = Rows(
            torch.tensor([[token] for token in ids]), torch.tensor([[start] for start in starts]), max(starts) + 1
        )
        return forward(rows, cache, place)

    def story(forward):
        first, second, third = caches(forward)
        first.join(second)
        said = [step(forward, first, [8, 9], [3, 2]), step(forward, first, [10, 11], [4, 3])]
        first.join(third)
        said += [step(forward, first, [12, 13, 14], [5, 4, 1]), step(forward, first, [15, 16, 17], [6, 5, 2])]
        first.keep([0, 2])
        said += [step(forward, first, [18, 19], [7, 3]), step(forward, first, [20, 21], [8, 4])]
        return torch.cat(said)

    torch.testing.assert_close(story(fast), story(plain))
    assert (recordings.made, recordings.repeated, recordings.freed) == (2, 6, 0)


@torch.inference_mode()
def test_steps_of_the_warm_up_are_not_recorded_while_requests_wait(loaded, start, caplog):
    model, recordings = graphed(loaded("llama"), shortest=64, together=32)
    model.forward.warm_up(model.device, longest=model.context_window, seconds=600)
    made = recordings.made
    assert model.forward.steps == made
    assert not any(storage.occupied for storage in model.forward._storages.values())
    fast = start(model)
    for decoding in ("autoregressive", "suffix", "lookahead"):
        tokens(fast.submit(request(PROMPTS[0], decoding=decoding)))
    with fast.announced():
        handles = [fast.submit(request(prompt)) for prompt in PROMPTS[:3]]
    assert all(tokens(handle) for handle in handles)
    assert recordings.made == made
    assert recordings.freed == 0
    assert not warnings_of(caplog)


@torch.inference_mode()
def test_a_warm_up_is_checked_so_that_a_recorder_that_fails_is_found_before_requests_come(loaded, caplog):
    fast = GraphedForward(loaded("llama").forward, always_the_first, shortest=64)
    fast.warm_up(torch.device("cpu"), longest=64, seconds=600)
    assert not fast.works
    assert "gave a different result" in caplog.records[0].message
    assert len(caplog.records) == 1


@torch.inference_mode()
def test_a_warm_up_takes_no_more_time_and_memory_than_it_may(loaded):
    def warmed_up(*, seconds=600.0, longest=256, **options):
        fast = GraphedForward(loaded("llama").forward, Recordings(), shortest=32, rows=(1, 4), **options)
        fast.warm_up(torch.device("cpu"), longest=longest, seconds=seconds)
        return fast

    assert warmed_up(seconds=0.0).steps == 0
    assert warmed_up(batches=(1,)).slots == 32 + 64 + 128 + 256
    assert warmed_up(batches=(1,), most_slots=100).slots == 96, "no recorded step is given up for something longer"
    assert warmed_up(batches=(1,), most_steps=3).steps == 3
    assert warmed_up(batches=(1, 2), longest=64).slots == 3 * (32 + 64)
    assert warmed_up(batches=(1, 2), longest=64, most_slots=320).slots == 32 + 64 + 64, "batches have half of it"


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


def no_recording(run):
    raise RuntimeError("operation not permitted when stream is capturing")


def no_memory(run):
    raise torch.OutOfMemoryError("CUDA out of memory.")


def no_memory_later(run):
    """Memory runs out when the step is repeated for the third time, after its checks."""
    repeat, left = Recordings()(run), [2]

    def replay():
        left[0] -= 1
        if left[0] < 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return repeat()

    return replay


def wrong_logits(run):
    repeat = Recordings()(run)
    return lambda: repeat().roll(1, -1)


def nothing_but_nan(run):
    repeat = Recordings()(run)
    return lambda: repeat() * torch.nan


def always_the_first(run):
    """As a recording would that holds what it should read anew each time."""
    out = run()
    return lambda: out


class Scribbler:
    """Records well, but each repetition writes over what was there long before."""

    cache = None

    def __call__(self, run):
        repeat = Recordings()(run)

        def replay():
            out = repeat()
            self.cache._values[0][:, 0] += 1
            return out

        return replay


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (no_recording, "a step of 1 rows failed: operation not permitted"),
        (no_memory, "a step of 1 rows failed: CUDA out of memory"),
        (no_memory_later, "a step of 1 rows failed: CUDA out of memory"),
        (wrong_logits, "gave a different result than the same step without recording"),
        (nothing_but_nan, "gave a different result than the same step without recording"),
        (always_the_first, "gave a different result than the same step without recording"),
        (Scribbler(), "gave a different result than the same step without recording"),
    ],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
@torch.inference_mode()
def test_whatever_goes_wrong_everything_runs_as_without_and_a_warning_says_so(record, words, loaded, caplog):
    plain = loaded("llama").forward
    fast = GraphedForward(plain, record)
    cache, alone = KeyValueCache(1), KeyValueCache(1)
    if isinstance(record, Scribbler):
        record.cache = cache
    read(fast, cache, [5, 6, 7])
    read(plain, alone, [5, 6, 7])
    ids = [8, 9, 10, 11, 12]
    torch.testing.assert_close(steps_of(fast, cache, ids, 3), steps_of(plain, alone, ids, 3))
    assert [record.message for record in caplog.records] == [caplog.records[0].message]
    assert words in caplog.records[0].message
    assert (fast.slots, fast.steps) == (0, 0), "nothing is held any more"


@torch.inference_mode()
def test_memory_that_runs_out_for_the_storage_itself_leaves_the_sequence_as_it_was(loaded, monkeypatch):
    plain = loaded("llama").forward
    fast = GraphedForward(plain, Recordings())
    cache, alone = KeyValueCache(1), KeyValueCache(1)
    read(fast, cache, [5, 6, 7])
    read(plain, alone, [5, 6, 7])
    monkeypatch.setattr(KeyValueCache, "new_empty", lambda *_: no_memory(None))
    torch.testing.assert_close(steps_of(fast, cache, [8, 9], 3), steps_of(plain, alone, [8, 9], 3))
    assert fast.slots == 0


@torch.inference_mode()
def test_what_is_held_is_bounded_and_a_storage_nobody_is_in_makes_room(loaded):
    plain, recordings = loaded("llama").forward, Recordings()
    fast = GraphedForward(plain, recordings, shortest=32, most_slots=100, most_steps=1)
    first, second, third = KeyValueCache(1), KeyValueCache(1), KeyValueCache(1)
    long = list(range(5, 45))
    read(fast, first, long)
    steps_of(fast, first, [8, 9], 40)
    assert (fast.slots, fast.steps) == (64, 1)
    read(fast, second, [5, 6, 7])
    made = recordings.made
    steps_of(fast, second, [8, 9], 3)
    assert recordings.made == made, "there is no room for another step while the first sequence is in its storage"
    assert fast.slots == 96
    del first
    steps_of(fast, second, [10], 5)
    assert (fast.slots, fast.steps, recordings.made) == (32, 1, made + 1)
    read(fast, third, list(range(5, 105)))
    alone = KeyValueCache(1)
    read(plain, alone, list(range(5, 105)))
    torch.testing.assert_close(steps_of(fast, third, [8], 105), steps_of(plain, alone, [8], 105))
    assert fast.slots == 32, "a storage larger than all that may be held is not made"


def test_they_cannot_be_asked_for_without_a_gpu(loaded, tokenizer):
    assert isinstance(loaded("llama").forward, LlamaForward)
    with pytest.raises(SettingsError, match=r"cuda_graphs=True cannot be used on cpu\. .* device='cuda'"):
        prepare("local:llama", build("llama"), tokenizer, cuda_graphs=True)


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
