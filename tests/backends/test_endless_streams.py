"""Streams without an end, through both real SDKs: what is read of them is bounded."""

import gzip

import anyio
import pytest
from patience import patience
from raw_streams import Anthropic, OpenAI, fail, listen, raw, talk
from talking import hear

from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import RawResponse
from stretto.values.errors import ServerFailedError, StalledError, StreamBrokenError

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[OpenAI, Anthropic], ids=["openai", "anthropic"])
def api(request):
    return request.param


async def test_a_line_without_an_end_is_given_up(api):
    reply = raw(api.start(), b"data: ", b"x" * 65_536, endless=True)
    error, _ = await fail(api, reply, StreamBrokenError)
    assert "one line is longer than 8 MiB" in str(error)
    assert not error.transient


async def test_an_event_of_many_lines_is_given_up(api):
    error, _ = await fail(api, raw(api.start(), b"data: x\n" * 100, endless=True), StreamBrokenError)
    assert "one event has more than 1,000 lines" in str(error)


async def test_a_body_that_is_no_stream_and_has_no_end_is_given_up(api):
    error, _ = await fail(api, raw((b"<p>" * 1_000 + b"\n") * 100, endless=True), StreamBrokenError)
    assert "longer than 8 MiB" in str(error)


async def test_of_an_error_only_the_beginning_is_read(api):
    error, _ = await fail(api, raw(b"out of order " * 1000, endless=True, status=500), ServerFailedError)
    assert "out of order" in str(error)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["empty deltas", "comments"])
async def test_events_without_text_are_a_stall_although_they_never_stop(api, kind):
    endless = api.delta("") if kind == "empty deltas" else b": keep alive\n\n"
    for policy, before, said in (
        (Resilience(attempts=1, first_text_s=0.3, stall_s=60), b"", r"no text within 0\.3 s.*first_text_s"),
        (Resilience(attempts=1, first_text_s=60, stall_s=0.3), api.delta("one"), r"no more text for 0\.3 s.*stall_s"),
    ):
        async with talk(api, raw(api.start(), before, endless, endless=True), policy) as (backend, _):
            with anyio.fail_after(patience(30)), pytest.raises(StalledError, match=said):
                await hear(backend)


async def test_a_compressed_stream_is_bounded_by_what_it_unfolds_to(api):
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    whole = gzip.compress(api.start() + api.delta("one") + api.finish(api.usage) + api.done)
    assert (await listen(api, RawResponse([whole], headers=headers)))[:2] == ("one", "stop")
    bomb = gzip.compress(b"data: " + b"x" * 2**25)
    error, _ = await fail(api, RawResponse([bomb], headers=headers), StreamBrokenError)
    assert "longer than 8 MiB" in str(error)
