"""The data of events as plain JSON."""

import json

import pytest

from stretto.backends.providers.transport.event_lines import json_events

pytestmark = pytest.mark.anyio


async def read(*pieces):
    async def body():
        for piece in pieces:
            yield piece

    return [event async for event in json_events(body())]


async def test_an_event_is_read_once_it_is_complete_however_its_lines_came():
    assert await read(b'data: {"a": 1}\n', b'\ndata: {"a": 2}\n\ndata: {"a": 3}\n\n') == [{"a": 1}, {"a": 2}, {"a": 3}]


async def test_data_of_several_lines_is_one_value_and_other_fields_say_nothing():
    assert await read(b"event: word\nid: 7\ndata: [1,\ndata: 2]\nretry: 1\n\n") == [[1, 2]]


async def test_an_event_without_data_says_nothing():
    assert await read(b"event: ping\n\ndata:\n\ndata: \n\ndata: 1\n\n") == [1]


async def test_the_last_event_needs_no_empty_line():
    assert await read(b'data: "end"\n') == ["end"]


async def test_data_that_is_no_json_is_an_error():
    with pytest.raises(json.JSONDecodeError):
        await read(b"data: {\n\n")
