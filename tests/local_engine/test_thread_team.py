"""Threads that compute one thing together."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import patience

from stretto.local_engine.kernels.thread_team import end_threads, limit_threads, most_parts, share, together


def test_all_parts_run_at_the_same_time():
    gate = threading.Barrier(4, timeout=patience(30))
    together(lambda part: gate.wait(), 4)
    assert gate.broken is False


def test_several_callers_do_not_wait_for_each_other():
    everybody, ends = threading.Barrier(12, timeout=patience(30)), []

    def ask(name):
        together(lambda part: everybody.wait(), 3)
        ends.append(name)

    callers = [threading.Thread(target=ask, args=(name,)) for name in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(patience(30))
    assert sorted(ends) == [0, 1, 2, 3]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_where_one_part_fails_the_others_are_let_go_and_the_next_call_works(failing):
    gate = threading.Barrier(3, timeout=patience(30))

    def work(part):
        if part == failing:
            raise MemoryError("no room")
        with pytest.raises(threading.BrokenBarrierError):
            gate.wait()

    with pytest.raises(MemoryError, match="no room"):
        together(work, 3, gate.abort)
    done = []
    together(done.append, 3)
    assert sorted(done) == [0, 1, 2]


def test_those_who_help_a_thread_end_with_it():
    before = set(threading.enumerate())

    def work():
        together(lambda part: None, 3)
        return [thread for thread in set(threading.enumerate()) - before if thread.name == "stretto product"]

    with ThreadPoolExecutor(1) as pool:
        helping = pool.submit(work).result()
    assert len(helping) == 2
    for thread in helping:
        thread.join(patience(30))
    assert not any(thread.is_alive() for thread in helping)


def test_they_are_dismissed():
    before = threading.active_count()
    together(lambda part: None, 5)
    end_threads()
    assert threading.active_count() <= before


def test_small_products_are_not_shared():
    limit_threads(4)
    try:
        assert [most_parts(rows * 4_000_000) for rows in (1, 2, 4, 64)] == [1, 1, 3, 4]
    finally:
        limit_threads(0)


def test_work_is_shared_by_as_many_as_are_allowed_or_done_by_one():
    limit_threads(3)
    try:
        seen = []
        for _ in range(40):
            parts = []
            share(2**26, lambda part, of, parts=parts: parts.append((part, of)))
            seen.append(sorted(parts))
    finally:
        limit_threads(0)
    assert seen[0] == [(0, 3), (1, 3), (2, 3)]
    assert seen[1] == [(0, 1)]
    assert all(parts in (seen[0], seen[1]) for parts in seen)
    alone = []
    share(0, lambda part, of: alone.append((part, of)))
    assert alone == [(0, 1)]
