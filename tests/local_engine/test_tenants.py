"""Requests of one tenant are read and written as if no other tenant had asked anything."""

import threading
from collections import Counter

import numpy as np
import pytest
import torch
from asking import PROMPTS, SHARED, outcome, submit_together, tokens

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, blocks
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.forward.rows import Rows

KEEP = {"prefix_cache_bytes": 2**24}
LONG = tuple(range(20, 220))


@pytest.fixture
def rows(loaded, monkeypatch):
    """Counts the rows that forwards compute, which is what makes a first token come late."""
    model, counted = loaded("llama"), Counter()
    forward = type(model.forward).__call__

    def counting(self, rows, *given):
        counted["rows"] += rows.tokens.numel()
        return forward(self, rows, *given)

    monkeypatch.setattr(type(model.forward), "__call__", counting)
    return counted


def asked(engine, prompt, tenant, rows=None, **given):
    """The tokens of an answer, the prompt tokens that were cached, and the rows that were computed for it."""
    before = rows["rows"] if rows is not None else 0
    handle = engine.submit(Generation(prompt, 4, tenant=tenant, **given))
    text, end = outcome(handle)
    return text, end.cached_tokens, (rows["rows"] - before if rows is not None else 0)


def test_a_prompt_that_another_tenant_has_asked_is_read_like_one_that_nobody_has(loaded, start, rows):
    engine = start(loaded("llama"), **KEEP)
    unknown = asked(engine, LONG, "ben", rows)
    engine = start(loaded("llama"), **KEEP)
    for tenant in ("anna", None, ""):
        asked(engine, LONG, tenant)
    assert asked(engine, LONG, "ben", rows) == unknown
    text, cached, computed = asked(engine, LONG, "ben", rows)
    assert (text, cached) == (unknown[0], len(LONG) - 1)
    assert computed < unknown[2] / 10


def test_callers_that_cannot_be_told_apart_share_what_was_read(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    for tenant in ("", None):
        assert [asked(engine, LONG, tenant)[1] for _ in range(2)] == [0, len(LONG) - 1]


def test_no_token_of_a_prompt_can_be_guessed_from_what_is_cached(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    secret = (*SHARED, 111, 112)
    asked(engine, (*secret, 7, 8), "anna")
    guesses = [(*SHARED, guess, 9) for guess in range(105, 118)]
    assert {asked(engine, guess, "ben")[1] for guess in guesses[:1]} == {0}
    found = [asked(engine, guess, "ben")[1] for guess in guesses[1:]]
    assert {*found} == {len(SHARED)}  # of ben's own first guess


def test_a_prompt_is_not_copied_from_a_request_of_another_tenant_that_runs(loaded, start):
    engine = start(loaded("llama"))
    prompt, read = LONG[:40], threading.Event()
    running = engine.submit(Generation(prompt, 200, tenant="anna"), lambda _: read.set())  # it fills the window
    assert read.wait(60)
    assert asked(engine, prompt, "ben")[1] == 0
    assert asked(engine, prompt, "anna")[1] == len(prompt) - 1
    running.cancel()


def test_prompts_of_several_tenants_that_come_together_wait_for_none_of_each_other(loaded, start):
    engine = start(loaded("llama"))
    requests = [Generation((*SHARED, number, 9), 4, tenant=tenant) for number in (1, 2) for tenant in ("anna", "ben")]
    handles = submit_together(engine, requests)
    found = Counter()
    for handle in handles:
        tokens(handle)
        found[handle.sequence.request.tenant, handle.sequence.cached] += 1
    assert found == {(tenant, cached): 1 for tenant in ("anna", "ben") for cached in (0, len(SHARED))}


def test_what_drafters_learn_is_kept_for_their_tenant(loaded, start):
    """How often guesses came true tells how an answer repeats itself, and decides how much is drafted later."""
    learned = {}

    def making(equipment):
        equipment.learned["asked"] = equipment.learned.get("asked", 0) + 1
        learned[len(learned)] = equipment.learned["asked"]
        return Autoregressive()

    engine = start(loaded("llama"), drafters={**DRAFTERS, "learning": making})
    engine.equip("learning")
    learned.clear()
    for tenant in ("anna", "ben", "anna", None, "anna"):
        asked(engine, PROMPTS[0], tenant, decoding="learning")
    assert [*learned.values()] == [1, 1, 2, 1, 3]


def test_a_format_is_compiled_for_each_tenant(loaded, start, monkeypatch):
    engine = start(loaded("llama"))
    compiled, compile_format = [], engine._grammars._compile
    monkeypatch.setattr(engine._grammars, "_compile", lambda *given: compiled.append(1) or compile_format(*given))
    for tenant in ("anna", "ben", "anna"):
        asked(engine, PROMPTS[0], tenant, response_format="[a-f]{2}", end_ids=frozenset({2}))
    assert len(compiled) == 2


def test_a_failure_tells_no_tenant_what_it_says_of_the_request_of_another(loaded, start, monkeypatch, caplog):
    model = loaded("llama")

    def failing(self, rows, *given):
        raise ValueError(f"cannot read {rows.tokens.tolist()}")

    monkeypatch.setattr(type(model.forward), "__call__", failing)
    engine = start(model)
    secret = (*SHARED, 111)
    handles = submit_together(
        engine, [Generation(secret, 4, tenant="anna"), Generation(PROMPTS[0][:20], 4, tenant="ben")]
    )
    told = [str(outcome(handle)[1].error) for handle in handles]
    assert told == ["local:llama failed while generating: ValueError"] * 2
    assert "111" in caplog.text  # for the owner
    assert "111" in str(outcome(engine.submit(Generation(secret, 4, tenant="anna")))[1].error)


# What makes room


def filled(slots):
    cache = KeyValueCache(1)
    positions = torch.arange(slots)[None]
    cache.begin(Rows(positions, positions, slots))
    cache.write(0, torch.rand(1, slots, 2, 4), torch.rand(1, slots, 2, 6))
    return cache


def store_of(sequences):
    """A store for so many sequences of 10 tokens; and what keeps such a one, and tells whether it is there."""
    cache = filled(200)
    store = PrefixCache(sequences * blocks(10) * cache.bytes_per_slot)

    def keep(tenant, number, length=10):
        store.keep(range(1000 * number, 1000 * number + length), cache, 0, tenant, tenant)

    def has(tenant, number):
        return store.find(np.arange(1000 * number, 1000 * number + 11), tenant) is not None

    return store, keep, has


def test_a_tenant_that_holds_more_makes_room_and_takes_from_none_that_holds_less():
    store, keep, has = store_of(4)
    keep("anna", 1)
    for number in range(2, 9):
        keep("ben", number)
    assert has("anna", 1)
    assert [has("ben", number) for number in range(2, 9)] == [False] * 4 + [True] * 3
    for number in range(11, 15):
        keep("anna", number)
    held = [sum(has(tenant, number) for number in range(20)) for tenant in ("anna", "ben")]
    assert held == [2, 2]
    assert len(store) == 4


def test_one_long_prompt_empties_nobody_elses_cache():
    store, keep, has = store_of(4)
    keep("anna", 1)
    keep("ben", 2)
    keep("carl", 3, 4 * blocks(10))
    assert has("anna", 1)
    assert has("ben", 2)
    assert len(store) == 2
    keep("carl", 3)
    keep("carl", 3, 4 * blocks(10))
    assert has("carl", 3)  # where a turn is too long, the earlier one stays


def test_what_nobody_has_used_for_long_makes_room_for_whoever_asks():
    store, keep, has = store_of(4)
    keep("anna", 1)
    keep("anna", 2)
    for turn in range(30):
        keep("ben", 100 + turn)
        assert has("anna", 2)  # which is a use of it
    assert not has("anna", 1)
    assert len(store) == 4
