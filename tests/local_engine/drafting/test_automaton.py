import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.drafting.automaton import SuffixAutomaton, Tail
from stretto.local_engine.drafting.compiled.automaton import advance, shorten

TEXTS = st.integers(1, 4).flatmap(lambda size: st.lists(st.integers(0, size - 1), max_size=40))


def occurrences(part, text):
    return sum(text[start : start + len(part)] == part for start in range(len(text) - len(part) + 1))


def state_of(automaton, part):
    held, state = automaton.arrays, 0
    following = {(source, token): target for source, token, target, _ in held.edges[: held.own[1]].tolist()}
    for token in part:
        state = following.get((state, token))
        if state is None:
            return None
    return state


def lineage(automaton, state):
    """A state and the shorter suffixes'."""
    states = [int(state)]
    while (above := automaton.arrays.states[states[-1], 1]) >= 0:
        states.append(int(above))
    return states


def count_of(automaton, part):
    return automaton.arrays.states[state_of(automaton, part), 2]


@given(TEXTS)
def test_the_match_is_the_longest_suffix_that_occurred_before(text):
    expected = max((size for size in range(len(text)) if occurrences(text[len(text) - size :], text) > 1), default=0)
    assert SuffixAutomaton(text).match == expected


@given(TEXTS, st.integers(1, 50))
def test_it_holds_every_substring_with_its_count_and_nothing_else(text, counted):
    automaton = SuffixAutomaton(text, counted=counted)
    for start in range(len(text)):
        for end in range(start + 1, min(start + counted, len(text)) + 1):
            assert count_of(automaton, text[start:end]) == occurrences(text[start:end], text)
    assert state_of(automaton, [*text, 0]) is None
    assert state_of(automaton, [99]) is None


@given(TEXTS)
def test_it_has_at_most_two_states_for_each_token(text):
    states, edges = SuffixAutomaton(text).arrays.own[:2]
    assert states <= max(2 * len(text), 1)
    assert edges <= 3 * len(text)


@given(TEXTS, st.integers(1, 300))
def test_it_may_outgrow_its_arrays_at_any_time(text, repeated):
    grown, whole = SuffixAutomaton(), SuffixAutomaton(text * repeated)
    for _ in range(repeated):
        grown.extend(text)
    assert grown.match == whole.match
    assert (grown.arrays.own == whole.arrays.own).all()
    states, edges = whole.arrays.own[:2]
    assert (grown.arrays.states[:states] == whole.arrays.states[:states]).all()
    assert (grown.arrays.edges[:edges] == whole.arrays.edges[:edges]).all()


@given(TEXTS, TEXTS, st.integers(0, 40))
def test_a_cursor_follows_the_longest_match_while_the_automaton_grows(held, text, pause):
    """The automaton has ``held[:pause]`` when the cursor starts and gains a token with each one followed."""
    automaton = SuffixAutomaton(held[:pause])
    cursor, rest, length = np.zeros(2, np.int64), held[pause:], 0
    for place, token in enumerate(text):
        known = held[: min(pause + place, len(held))]
        with np.errstate(over="ignore"):  # hashes
            advance(automaton.arrays, cursor, token)
        # What the cursor can have matched: one token more than before, if the text held then had it.
        length = max(
            size for size in range(length + 2) if size == 0 or occurrences(text[place + 1 - size : place + 1], known)
        )
        assert cursor[1] == length
        if place < len(rest):
            automaton.extend([rest[place]])
    matched = int(cursor[1])
    shorten(automaton.arrays, cursor, matched)
    assert state_of(automaton, text[len(text) - matched :]) in lineage(automaton, cursor[0])


def test_a_text_that_loops_is_counted_in_bounded_time():
    """Each of its suffixes occurred before, 4,000 states one behind the other; only the shortest 48 are counted."""
    automaton = SuffixAutomaton([7] * 4000)
    assert count_of(automaton, [7] * 48) == 3953
    assert count_of(automaton, [7] * 49) == 0


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=20))
def test_it_holds_several_texts_that_grow_in_turns(texts, turns):
    automaton, tails, read = SuffixAutomaton(), [Tail() for _ in texts], [0] * len(texts)
    for which, count in [*turns, *((number, 99) for number in range(len(texts)))]:
        if which < len(texts):
            new = texts[which][read[which] : read[which] + count]
            read[which] += len(new)
            automaton.extend_from(tails[which], new)
    for text in texts:
        for start in range(len(text)):
            for end in range(start + 1, len(text) + 1):
                part = text[start:end]
                assert count_of(automaton, part) == sum(occurrences(part, each) for each in texts)
    states, edges = automaton.arrays.own[:2]
    assert states <= max(2 * sum(map(len, texts)), 1)
    assert edges <= 3 * sum(map(len, texts))
    assert state_of(automaton, [99]) is None
