"""What attends together, and what is read together."""

import pytest

from stretto.local_engine.model.forward.segments import segments
from stretto.local_engine.serving.admission import common_prefix, next_wave


def step(kv_lens, counts=None):
    return segments([slice(0, count) for count in counts or [1] * len(kv_lens)], kv_lens)


def test_neighbours_of_about_the_same_length_attend_together_and_nobody_is_padded_to_a_long_one():
    found = step([60, 64, 62, 400, 410, 58])
    assert [(part.sequences.start, part.sequences.stop, part.kv_len) for part in found] == [
        (0, 3, 64),
        (3, 5, 410),
        (5, 6, 58),
    ]
    assert [part.packed for part in found] == [slice(0, 3), slice(3, 5), slice(5, 6)]


def test_sequences_with_different_numbers_of_rows_attend_apart():
    found = step([60, 60, 60, 60], [1, 3, 3, 2])
    assert [part.packed for part in found] == [slice(0, 1), slice(1, 7), slice(7, 9)]
    assert [part.rows for part in found] == [slice(0, 1), slice(0, 3), slice(0, 2)]


def test_a_sequence_without_rows_is_in_no_segment_and_parts_its_neighbours():
    found = step([60, 60, 60], [2, 0, 2])
    assert [part.sequences for part in found] == [slice(0, 1), slice(2, 3)]
    assert [part.packed for part in found] == [slice(0, 2), slice(2, 4)]


def prompts(*lengths):
    return [tuple(range(1000 * number, 1000 * number + length)) for number, length in enumerate(lengths)]


def wave(given, known=None, rows=512, *, packed=True):
    return next_wave(given, known or [0] * len(given), rows, packed=packed)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((15, 378), [0]),  # the short one need not wait
        ((378, 15), [1]),
        ((378,), [0]),
        ((2000,), [0]),  # longer than a forward
        ((20, 21, 20, 21), [0, 2, 1, 3]),
        ((15, 378, 19, 22), [0, 2, 3]),
        ((300, 310), [0]),
        ((60, 60, 60, 60), [0, 1, 2]),
    ],
)
def test_prompts_are_read_together_where_it_helps_all(lengths, expected):
    assert wave(prompts(*lengths)) == expected


def test_what_is_known_of_a_prompt_takes_no_time():
    assert wave(prompts(400, 30), known=[390, 0]) == [0, 1]


def test_padding_counts_where_it_is_not_left_out():
    lengths = prompts(2, 2, 2, 60, 60, 60, 60, 60, 60, 60)
    assert len(wave(lengths)) > 3
    assert wave(lengths, packed=False) == [0, 1, 2]


def test_a_forward_reads_no_more_than_it_may():
    assert wave(prompts(40, 40, 40, 40, 40, 40, 40), rows=100) == [0, 1]


def test_a_prompt_waits_for_another_that_begins_alike():
    shared = tuple(range(30))
    asked = [(*shared, 50, 51), (*shared, 60), (*shared, 70, 71, 72), tuple(range(100, 120))]
    assert wave(asked) == [3, 1]
    assert wave(asked[:3], known=[30, 30, 30]) == [1, 0, 2]


def test_a_request_that_others_went_before_goes_first():
    asked = prompts(5, 500, 40)
    assert next_wave(asked, [0] * 3, 512, packed=True) == [0, 2]
    assert next_wave(asked, [0] * 3, 512, packed=True, overdue=[False, True, False])[0] == 1


def test_every_request_is_read_in_some_wave():
    left = prompts(5, 500, 40, 40, 41, 6, 300, 700)
    while left:
        chosen = wave(left, rows=64)
        assert chosen
        left = [prompt for number, prompt in enumerate(left) if number not in chosen]


@pytest.mark.parametrize(
    ("prompt", "other", "expected"),
    [
        ((1, 2, 3), (1, 2, 4), 2),
        ((1, 2), (1, 2), 1),
        ((1,), (1, 2), 0),
        ((1, 2), (3,), 0),
        ((1, 2, 3, 4), (1, 2), 2),
    ],
)
def test_the_common_prefix_leaves_the_prompt_a_token(prompt, other, expected):
    assert common_prefix(prompt, other) == expected
