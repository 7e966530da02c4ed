"""By how many threads work is shared, as it turns out what that takes."""

from itertools import pairwise

import pytest

from stretto.local_engine.kernels.sharing import Sharing

AMOUNT = 2**26


def ways(sharing, calls, shared_s, alone_s, amount=AMOUNT):
    """How so many calls were done, if both ways take that long."""
    done = []
    for _ in range(calls):
        parts = sharing.parts(amount, 4)
        sharing.note(amount, parts, shared_s if parts > 1 else alone_s)
        done.append(parts)
    return done


def test_both_ways_are_tried_and_the_faster_one_is_taken():
    assert ways(Sharing(), 12, shared_s=1.0, alone_s=3.0) == [4, 1, *[4] * 10]
    assert ways(Sharing(), 12, shared_s=3.0, alone_s=1.0) == [4, 1, *[1] * 10]


@pytest.mark.parametrize(("shared_s", "alone_s", "slower"), [(1.0, 3.0, 1), (3.0, 1.0, 4)])
def test_the_slower_way_is_tried_more_and_more_seldom(shared_s, alone_s, slower):
    done = ways(Sharing(), 4096, shared_s, alone_s)
    trials = [call for call, parts in enumerate(done) if parts == slower]
    assert len(trials) < 12
    gaps = [after - before for before, after in pairwise(trials[1:])]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 16


def test_it_changes_over_at_once_when_sharing_becomes_slow_and_back_after_a_while():
    sharing = Sharing()
    ways(sharing, 200, shared_s=1.0, alone_s=2.0)
    busy = ways(sharing, 200, shared_s=40.0, alone_s=2.0)
    assert busy[:1] == [4]
    assert sum(parts == 4 for parts in busy) < 10
    free = ways(sharing, 400, shared_s=1.0, alone_s=2.0)
    assert free[-20:] == [4] * 20


def test_much_work_is_never_left_to_one_thread_for_a_trial_but_goes_by_what_less_work_showed():
    assert set(ways(Sharing(), 100, shared_s=3.0, alone_s=1.0, amount=2**40)) == {4}
    sharing = Sharing()
    ways(sharing, 4, shared_s=3.0, alone_s=1.0, amount=2**30)
    assert sharing.parts(2**40, 4) == 1


def test_work_of_another_size_is_another_thing():
    sharing = Sharing()
    ways(sharing, 4, shared_s=3.0, alone_s=1.0)
    assert sharing.parts(AMOUNT // 2, 4) == 4


def test_one_slow_call_changes_nothing_and_one_slow_trial_is_no_end():
    """A helper that is called for the first time in a while wakes up late, and other programs run now and then."""
    sharing = Sharing()
    ways(sharing, 20, shared_s=1.0, alone_s=1.3)
    ways(sharing, 1, shared_s=40.0, alone_s=40.0)
    assert ways(sharing, 8, shared_s=1.0, alone_s=1.3) == [4] * 8
    sharing = Sharing()
    ways(sharing, 20, shared_s=2.0, alone_s=1.3)
    done = []
    for _ in range(200):  # sharing has become the faster way, but for the first call of a few
        parts = sharing.parts(AMOUNT, 4)
        late = parts == 4 and done[-1:] != [4]
        sharing.note(AMOUNT, parts, 1.8 if late else 1.0 if parts == 4 else 1.3)
        done.append(parts)
    assert done[-100:].count(4) > 90
