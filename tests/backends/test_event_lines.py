import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.backends.providers.transport.event_lines import MOST_EVENT, BodyTooLargeError, EventLines

STREAM = b"\xef\xbb\xbf: hello\r\n\r\nevent: a\r\ndata: 1\r\n\r\n: still here\n\n\n\ndata: 2\rdata: 3\r\rdata: 4"


def passed(stream, cuts=()):
    lines, out, at = EventLines(), b"", 0
    for cut in [*sorted(cuts), len(stream)]:
        out += lines.feed(stream[at:cut])
        at = cut
    return out + lines.end(), lines


def test_events_pass_without_comments_and_with_one_kind_of_line_end():
    out, lines = passed(STREAM)
    assert out == b"event: a\ndata: 1\n\ndata: 2\ndata: 3\n\ndata: 4\n"
    assert lines.last_data == b" 4"


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_events_pass_the_same_however_they_are_cut(cuts):
    assert passed(STREAM, cuts)[0] == passed(STREAM)[0]


def test_what_comes_before_the_first_field_is_kept():
    out, lines = passed(b'{"error":\r\n "no"}')
    assert (out, bytes(lines.other)) == (b"", b'{"error":\n "no"}\n')


@pytest.mark.parametrize("mark", [b"data: [DONE]", b"data:[DONE]", b"data: [DONE] bye"])
def test_the_mark_of_the_end_and_what_follows_it_are_dropped(mark):
    out, lines = passed(b"data: 1\n\n" + mark + b"\n\ndata: 2\n\n")
    assert out == b"data: 1\n\n"
    assert lines.last_data.strip() == mark.removeprefix(b"data:").strip()


def test_the_mark_of_the_end_ends_an_event_that_is_open():
    assert passed(b"data: 1\ndata: [DONE]\n\n")[0] == b"data: 1\n\n"


@pytest.mark.parametrize(
    "piece",
    [b"x" * 9999, b"data: x\n", b"data: x\r", b"data: x\r\n", b"data: " + b"x" * 9999 + b"\n", b"id: 5\n: comment\n"],
    ids=["line", "lf", "cr", "crlf", "long", "comments"],
)
def test_an_event_without_an_end_is_bounded(piece):
    lines = EventLines()
    lines.feed(b"event: a\n")
    pieces = piece * (9999 // len(piece) + 1)
    with pytest.raises(BodyTooLargeError):
        for _ in range(2 * MOST_EVENT // len(pieces)):
            lines.feed(pieces)


def test_a_stream_of_many_events_is_not_bounded():
    lines, event = EventLines(), b"data: " + b"x" * 2**20 + b"\n\n"
    assert all(lines.feed(event) == event for _ in range(20))
