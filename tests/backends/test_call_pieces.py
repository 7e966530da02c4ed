"""Tool calls put together from pieces, however a server numbers, names and splits them."""

import json
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.backends.providers.call_pieces import CallPiece, IncomingCalls
from stretto.values.tool_calls import ToolCallFragment, ToolCallsSoFar

ARGUMENTS = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from(["x", '{"', "}", "1", 5, 1.5, None, [{}], {"a": {}}])
)
CALLS = st.lists(st.tuples(st.sampled_from(["get", "get_all"]), ARGUMENTS), min_size=1, max_size=4)


def put_together(*events):
    calls, seen = IncomingCalls(), ToolCallsSoFar()
    for event in events:
        for fragment in calls.take(event):
            seen.add(fragment)
    for fragment in calls.rest():
        seen.add(fragment)
    return [(call.id, call.name, json.loads(call.arguments)) for call in seen.calls]


def split(draw, text):
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[begin:end] for begin, end in zip([0, *at], [*at, len(text)], strict=True)]


@given(data=st.data(), made=CALLS)
def test_calls_come_out_as_the_model_made_them_whatever_their_server_numbers_and_repeats(data, made):
    numbering = data.draw(st.sampled_from(["right", "all 0", "none", "text"]))
    name_again, id_again, whole_again, spaced, so_far = (data.draw(st.booleans()) for _ in range(5))
    number = {"right": int, "all 0": lambda _: 0, "none": lambda _: None, "text": "call {}".format}[numbering]
    events = []
    for place, (name, arguments) in enumerate(made):
        index, call_id, text = number(place), f"id-{place}", json.dumps(arguments)
        pieces = split(data.draw, text)
        for piece, more in enumerate(accumulate(pieces) if so_far else pieces):
            first = piece == 0
            own = call_id if first or id_again else None
            events.append([CallPiece(index, own, name if first or name_again else None, more)])
        if whole_again:
            events.append([CallPiece(index, call_id, name, json.dumps(arguments, indent=1) if spaced else text)])
    expected = [(f"id-{place}", name, arguments) for place, (name, arguments) in enumerate(made)]
    assert put_together(*events) == expected


@given(made=CALLS, numbered=st.booleans(), together=st.booleans())
def test_whole_calls_without_ids_stay_apart(made, numbered, together):
    pieces = [
        CallPiece(place if numbered else None, None, name, json.dumps(arguments))
        for place, (name, arguments) in enumerate(made)
    ]
    found = [call[1:] for call in put_together(*([pieces] if together else ([piece] for piece in pieces)))]
    # The same call once more in an event of its own is a repetition: without an id, nothing tells it from one.
    kept = [call for place, call in enumerate(made) if numbered or together or call not in made[:place]]
    assert [call for call in found if call in kept] == found
    assert all(call in found for call in made)
    if numbered or together:
        assert found == made


def test_pieces_of_calls_that_nothing_names_are_left_out():
    assert put_together([CallPiece(2, None, None, '{"query"')], [CallPiece(2, None, None, ': "rent"}')]) == []


@pytest.mark.parametrize("index", [0, None])
def test_arguments_under_another_id_than_their_name_belong_to_it(index):
    events = [
        [CallPiece(index, own, name, arguments)]
        for own, name, arguments in [("a", "get", ""), ("b", None, '{"x"'), ("b", None, ": 1}"), ("c", "get", "")]
    ]
    assert put_together(*events) == [("a", "get", {"x": 1}), ("c", "get", {})]


def test_the_input_of_a_custom_tool_is_no_json_and_stays_as_it_is():
    calls = IncomingCalls()
    pieces = [CallPiece(0, "a", "shell", "ls ", "custom"), CallPiece(0, None, None, "ls ", "custom")]
    assert [each.arguments for piece in pieces for each in calls.take([piece])] == ["ls ", "ls "]
    assert calls.rest() == []


def test_calls_of_a_backend_of_the_callers_with_one_index_are_apart_by_their_ids():
    seen = ToolCallsSoFar()
    for call_id, name, arguments in [
        ("a", "get", "{"),
        (None, None, "}"),
        ("b", "get_all", "{}"),
        ("b", "get_all", ""),
    ]:
        seen.add(ToolCallFragment(0, call_id, name, arguments))
    assert [(call.id, call.name, call.arguments) for call in seen.calls] == [("a", "get", "{}"), ("b", "get_all", "{}")]
