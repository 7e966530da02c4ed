"""What is kept of finished requests, and that starting from it changes no token."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import PROMPTS, SHARED, outcome, submit_together, tokens

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, blocks
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.forward.rows import Rows

ARCHITECTURES = ["llama", "qwen3 sliding", "mistral", "gemma2", "gpt2"]
KEEP = {"prefix_cache_bytes": 2**24}


def turns(engine, first, count=4, **options):
    """A chat: each prompt is the one before, its answer, and a few tokens more. The answers, and what was reused."""
    prompt, answers, reused = first, [], []
    for turn in range(count):
        handle = engine.submit(Generation(prompt, 10, **options))
        answers.append(tokens(handle))
        reused.append(handle.sequence.cached)
        prompt = (*prompt, *answers[-1], 40 + turn, 41)
    return answers, reused


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_chat_goes_on_from_what_is_kept_with_the_same_tokens(architecture, loaded, start):
    expected, none = turns(start(loaded(architecture)), PROMPTS[0])
    got, reused = turns(start(loaded(architecture), **KEEP), PROMPTS[0])
    assert got == expected
    assert none == [0, 0, 0, 0]
    # All but the last token of the answer, which was never read, and what was added since.
    assert reused == [0, 41, 53, 65]


@pytest.mark.parametrize("decoding", ["suffix", "lookahead", "auto"])
def test_drafts_that_were_rejected_leave_nothing_wrong_behind(decoding, loaded, start):
    expected, _ = turns(start(loaded("mistral")), PROMPTS[3])
    got, reused = turns(start(loaded("mistral"), **KEEP), PROMPTS[3], decoding=decoding)
    assert got == expected
    assert all(reused[1:])


def test_a_prompt_that_differs_in_the_middle_starts_from_what_both_begin_with(loaded, start):
    fresh, engine = start(loaded("llama")), start(loaded("llama"), **KEEP)
    tokens(engine.submit(Generation(PROMPTS[2], 10)))
    other = (*SHARED[:20], 99, 98, 97)
    text, finished = outcome(engine.submit(Generation(other, 20)))
    assert (text, finished.reason) == (outcome(fresh.submit(Generation(other, 20)))[0], "length")
    assert finished.cached_tokens == 20


def test_the_same_prompt_again_reads_one_token(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    first, again = engine.submit(Generation(PROMPTS[0], 10)), engine.submit(Generation(PROMPTS[0], 10))
    assert tokens(again) == tokens(first)
    assert tokens(last := engine.submit(Generation(PROMPTS[0], 10))) == first.sequence.generated
    assert last.sequence.cached == len(PROMPTS[0]) - 1


def test_each_of_several_chats_that_come_together_goes_on_from_its_own(loaded, start):
    beginnings = [tuple(range(20 + 50 * chat, 50 + 50 * chat)) for chat in range(4)]
    later = [(*beginning, 7, 8, *range(chat)) for chat, beginning in enumerate(beginnings)]
    later.append((300, 301, 302))  # and one that nothing is known of
    fresh, engine = start(loaded("mistral")), start(loaded("mistral"), prefill_tokens=16, **KEEP)
    expected = [tokens(fresh.submit(Generation(prompt, 12))) for prompt in later]
    for beginning in beginnings:
        tokens(engine.submit(Generation(beginning, 3)))
    handles = submit_together(engine, [Generation(prompt, 12) for prompt in later])
    assert [tokens(handle) for handle in handles] == expected
    assert [handle.sequence.cached for handle in handles] == [30, 30, 30, 30, 0]


def test_a_shared_beginning_of_which_a_part_is_known_is_read_on_once(loaded, start):
    fresh, engine = start(loaded("llama")), start(loaded("llama"), **KEEP)
    tokens(engine.submit(Generation((*SHARED[:12], 9), 4)))
    expected = [tokens(fresh.submit(Generation(prompt, 12))) for prompt in PROMPTS]
    handles = submit_together(engine, [Generation(prompt, 12) for prompt in PROMPTS])
    assert [tokens(handle) for handle in handles] == expected
    assert [handle.sequence.cached for handle in handles] == [30, 12, 30, 30, 30]  # the shortest is read first


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_prompts_of_any_length_up_to_the_window_go_on_together(architecture, loaded, start):
    """Those that are nearly read wait for those that have much to read, without running over the window."""
    long, short = tuple(range(20, 265)), (*range(300, 310),)
    fresh, engine = start(loaded(architecture)), start(loaded(architecture), **KEEP)
    tokens(engine.submit(Generation(long[:240], 5)))
    requests = [Generation(long, 10), Generation(short, 10), Generation((*short, *range(100)), 10)]
    expected = [tokens(fresh.submit(request)) for request in requests]
    assert [tokens(handle) for handle in submit_together(engine, requests)] == expected


def test_what_a_cancelled_request_had_read_and_said_is_kept(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    handle = engine.submit(Generation(PROMPTS[2], 200), lambda event: None if ended(event) else handle.cancel())
    follower = tokens(engine.submit(Generation(PROMPTS[2], 10)))
    assert follower == tokens(start(loaded("llama")).submit(Generation(PROMPTS[2], 10)))
    again = engine.submit(Generation(PROMPTS[2], 10))
    assert tokens(again) == follower
    assert again.sequence.cached == len(PROMPTS[2]) - 1
    assert handle.finished


def ended(event):
    return not hasattr(event, "text")


def test_running_requests_never_share_rows_that_are_written(loaded, start):
    """Two answers of one kept prompt go different ways, and neither changes what is kept."""
    engine, fresh = start(loaded("llama"), **KEEP), start(loaded("llama"))
    requests = [Generation(PROMPTS[2], 40, temperature=1.5, seed=seed) for seed in range(3)]
    expected = [tokens(fresh.submit(request)) for request in requests]
    assert len({tuple(answer) for answer in expected}) == 3
    tokens(engine.submit(Generation(PROMPTS[2], 2)))
    assert [tokens(handle) for handle in submit_together(engine, requests)] == expected
    assert [tokens(engine.submit(request)) for request in requests] == expected


def test_copies_share_no_memory():
    cache = filled(2, 20)
    copy = KeyValueCache.copied([None, *sources(cache, 2)], 20)
    before = [layer.clone() for layer in cache._keys]
    for layer in (*copy._keys, *copy._values):
        layer.fill_(-1)
    assert all(torch.equal(a, b) for a, b in zip(cache._keys, before, strict=True))


def test_without_a_limit_of_bytes_nothing_is_kept(loaded, start):
    engine = start(loaded("llama"), prefix_cache_bytes=0)
    _, reused = turns(engine, PROMPTS[0])
    assert reused == [0] * 4
    assert engine.occupancy.prefixes == engine.occupancy.prefix_bytes == 0


def test_a_closed_engine_holds_no_keys_and_values(loaded, start):
    engine = start(replace(loaded("llama"), context_window=10**7), **KEEP)
    tokens(engine.submit(Generation(PROMPTS[0], 8)))
    assert engine.occupancy.prefixes == 1
    next(iter(engine.submit(Generation(PROMPTS[1], 10**6))))
    engine.close()
    held = engine.occupancy
    assert (held.running, held.slots, held.prefixes, held.prefix_bytes) == (0, 0, 0, 0)


def test_what_is_kept_is_bounded_by_the_memory_of_the_model_too(loaded, start):
    engine = start(replace(loaded("llama"), cache_tokens=200), **KEEP)
    for first in range(5):
        tokens(engine.submit(Generation(tuple(range(first * 50 + 10, first * 50 + 40)), 8)))
    assert engine.occupancy.prefixes == 1  # of 50 tokens at most


# The store itself


def filled(batch, slots):
    cache = KeyValueCache(batch)
    positions = torch.arange(slots).expand(batch, -1)
    cache.begin(Rows(positions, positions, slots))
    cache.write(0, torch.rand(batch, slots, 2, 4), torch.rand(batch, slots, 2, 6))
    return cache


def sources(cache, batch):
    store = PrefixCache(2**20)
    for row in range(batch):
        store.keep(range(100 * row, 100 * row + 15), cache, row)
    return [store.find(np.arange(100 * row, 100 * row + 20)) for row in range(batch)]


def test_what_is_found_is_what_was_kept():
    cache = filled(3, 20)
    for row, source in enumerate(sources(cache, 3)):
        assert source.length == 15
        assert torch.equal(source.cache._keys[0][0, :15], cache._keys[0][row, :15])
        assert torch.equal(source.cache._values[0][0, :15], cache._values[0][row, :15])


def test_the_least_recently_used_goes_first():
    cache = filled(1, 20)
    store = PrefixCache(3 * blocks(10) * cache.bytes_per_slot)
    a, b, c, d = (range(start, start + 10) for start in (0, 100, 200, 300))
    for text in (a, b, c):
        store.keep(text, cache, 0)
    assert store.find(np.array([*a, 1])).length == 10
    store.keep(d, cache, 0)
    assert [store.find(np.array([*text, 1])) is not None for text in (a, b, c, d)] == [True, False, True, True]
    assert store.bytes == 3 * blocks(10) * cache.bytes_per_slot
    assert store.tokens == 30


def test_a_longer_turn_of_the_same_chat_replaces_the_shorter_and_not_the_other_way_round():
    cache, store = filled(1, 20), PrefixCache(2**20)
    store.keep(range(12), cache, 0)
    store.keep(range(18), cache, 0)
    store.keep(range(10), cache, 0)
    assert len(store) == 1
    assert store.tokens == 18


def test_what_is_larger_than_the_limit_or_hardly_anything_is_not_kept():
    cache = filled(1, 20)
    store = PrefixCache(blocks(10) * cache.bytes_per_slot)
    store.keep(range(9), cache, 0)
    store.keep(range(50, 50 + blocks(10) + 1), filled(1, 80), 0)
    store.keep(range(80, 83), cache, 0)
    assert store.tokens == 9
    store.clear()
    assert (len(store), store.bytes, store.tokens, store.find(np.arange(20))) == (0, 0, 0, None)


def test_the_last_token_of_a_prompt_is_left_to_read():
    cache, store = filled(1, 20), PrefixCache(2**20)
    store.keep(range(15), cache, 0)
    assert store.find(np.arange(12)).length == 11
    assert store.find(np.arange(8)) is None
