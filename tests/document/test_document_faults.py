"""Long documents over a real server and the real SDKs, with faults: the answer arrives, and says what was not read."""

import re
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from reader import FACTS, answer_to, haystack

from stretto import AsyncStretto, Document
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import IncompleteAnswerError

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]
QUICK = Resilience(attempts=2, first_wait_s=0.001, longest_wait_s=0.001, first_text_s=20, stall_s=20)
DOCUMENT = haystack(40, FACTS)
QUESTION = "What is the code of every person?"


def reading(received):
    return HttpReply(answer_to(received.prompt))


@asynccontextmanager
async def asked(replies=reading, model="openai:scripted", policy=QUICK, document=DOCUMENT, faults=(), **options):
    async with ScriptedServer(replies) as server:
        server.script(*faults)
        url = server.openai_url if model.startswith("openai") else server.url
        backend = open_backend(model, base_url=url, api_key="sk-test", resilience=policy)
        async with AsyncStretto(backend) as stretto:
            yield await stretto.ask(QUESTION, strategy="document", documents=[document], **options), server
        await backend.aclose()


def nothing_is_missing(answer, document=DOCUMENT):
    """Every character is in a passage that was read or that is named as unread."""
    position = 0
    for record in answer.passages:
        assert document.text[position : record.start].strip() == ""
        position = record.end
    assert document.text[position:].strip() == ""
    failed = [record for record in answer.passages if record.status == "failed"]
    told = [each for each in answer.warnings if each.code == "unread"]
    ranges = [(int(start), int(end)) for start, end in re.findall(r"report, chars (\d+)-(\d+)", " ".join(told))]
    for record in failed:
        assert any(start <= record.start and record.end <= end for start, end in ranges)
    assert [f"{len(failed)} of {len(answer.passages)} " in each for each in told] == [True] * bool(failed)
    return failed


@pytest.mark.parametrize("model", ["openai:scripted", "anthropic:scripted"])
async def test_all_is_found_over_a_real_server(model):
    async with asked(model=model) as (answer, _):
        assert not nothing_is_missing(answer)
        assert len(answer.citations) == len(FACTS)


@pytest.mark.parametrize("fault", [Fault("status", status=500), Fault("reset"), Fault("cut", after=2)])
async def test_where_a_tenth_of_the_calls_fails_all_is_read_all_the_same(fault):
    faults = [fault if number % 10 == 3 else None for number in range(60)]
    async with asked(faults=faults) as (answer, server):
        assert not nothing_is_missing(answer)
        assert len(answer.citations) == len(FACTS)
        assert any(received.outcome == fault.kind for received in server.requests)


async def test_a_passage_whose_server_always_fails_is_named_and_the_rest_is_there():
    def broken(received):
        text = received.prompt
        fails = '"no_information"' in text and "The code of name5 is" in text
        return HttpReply("", fault=Fault("status", status=503)) if fails else reading(received)

    async with asked(broken, policy=Resilience(attempts=2, first_wait_s=0.001, longest_wait_s=0.001)) as (answer, _):
        assert nothing_is_missing(answer)
        assert {citation.quote for citation in answer.citations} == {
            f"The code of {name} is {code}." for name, code in FACTS.items() if name != "name5"
        }


@pytest.mark.thorough
async def test_passages_side_by_side_that_cannot_be_read_are_named_as_one_range():
    def muddled(received):
        passage = re.search(r"passage (\d+) of", received.prompt)
        return HttpReply("What?") if passage and int(passage[1]) in (3, 4, 5, 6, 9) else reading(received)

    async with asked(muddled) as (answer, _):
        failed = nothing_is_missing(answer)
        assert len(failed) == 5
        places = f"report, chars {failed[0].start}-{failed[3].end}; report, chars {failed[4].start}-{failed[4].end}"
        assert f": {places}." in answer.warnings[0]


async def test_who_wants_no_answer_without_a_passage_gets_an_error_that_holds_it():
    def broken(received):
        text = received.prompt
        fails = '"no_information"' in text and "The code of name5 is" in text
        return HttpReply("", fault=Fault("status", status=503)) if fails else reading(received)

    policy = Resilience(attempts=1)
    with pytest.raises(IncompleteAnswerError) as raised:
        async with asked(broken, policy=policy, on_missing="raise"):
            pass
    assert nothing_is_missing(raised.value.answer)
    assert "The code of name3 is 1021" in raised.value.answer.text


async def test_a_stall_is_given_up_and_asked_again():
    policy = replace(QUICK, attempts=4, first_text_s=20, stall_s=20)

    def in_time(received):
        return replace(reading(received), time_to_first_token_s=1)  # later calls overtake the one that hangs

    async with asked(in_time, policy=policy, faults=[None, Fault("stall"), Fault("stall", after=3)]) as (answer, _):
        assert not nothing_is_missing(answer)
        assert len(answer.citations) == len(FACTS)


@pytest.mark.thorough
async def test_a_storm_of_429_is_waited_out():
    busy = Fault("status", status=429, headers={"retry-after": "0.05"})
    policy = Resilience(attempts=6, first_wait_s=0.01, longest_wait_s=0.1)
    async with asked(policy=policy, faults=[busy] * 12) as (answer, _):
        assert not nothing_is_missing(answer)
        assert len(answer.citations) == len(FACTS)


async def test_a_deadline_in_the_middle_leaves_time_for_the_answer():
    def slow(received):
        text = received.prompt
        late = '"no_information"' in text and "The code of name9 is" in text
        return HttpReply("{}", time_to_first_token_s=600) if late else reading(received)

    async with asked(slow, deadline_s=30) as (answer, _):
        assert nothing_is_missing(answer)
        assert "The code of name3 is 1021" in answer.text
        assert answer.finish_reason == "stop"


async def test_leaving_in_the_middle_of_reading_ends_every_call():
    def silent(received):
        return HttpReply("{}", time_to_first_token_s=600)

    async with ScriptedServer(silent) as server:
        backend = open_backend("openai:scripted", base_url=server.openai_url, api_key="sk-test", resilience=QUICK)
        async with AsyncStretto(backend) as stretto, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: stretto.ask(QUESTION, strategy="document", documents=[DOCUMENT]))
            await server.wait_until(lambda server: server.active_streams >= 4)
            tasks.cancel_scope.cancel()
        await server.wait_until(lambda server: server.active_streams == 0)
        await backend.aclose()
        await server.wait_until(lambda server: server.open_connections == 0)


async def test_a_passage_that_breaks_off_is_read_anew_by_the_fallback():
    def breaking(received):
        said = answer_to(received.prompt)
        fails = '"no_information"' in received.prompt and "The code of name5 is" in received.prompt
        return HttpReply(said, fault=Fault("reset", after=3) if fails else None)

    async with ScriptedServer(breaking) as server, ScriptedServer(reading) as second:
        backends = [
            open_backend(f"openai:{name}", base_url=each.openai_url, api_key="sk-test", resilience=QUICK)
            for name, each in (("a", server), ("b", second))
        ]
        async with AsyncStretto(backends[0], fallback=backends[1]) as stretto:
            answer = await stretto.ask(QUESTION, strategy="document", documents=[DOCUMENT])
        for backend in backends:
            await backend.aclose()
        assert len(second.requests) == 1
    assert not nothing_is_missing(answer)
    assert len(answer.citations) == len(FACTS)
    (warning,) = answer.warnings
    assert warning.code == "fallback"


async def test_a_piece_of_a_translation_that_breaks_off_is_gone_on_with():
    def translating(received):
        if "<received>" in received.prompt:
            return HttpReply(" und gut.")
        return HttpReply("Alles ist kurz und gut.", fault=Fault("reset", after=4))

    document = Document(text="All is short and good.", title="note")
    async with ScriptedServer(translating) as server:
        backend = open_backend("openai:a", base_url=server.openai_url, api_key="sk-test", resilience=QUICK)
        async with AsyncStretto(backend) as stretto:
            answer = await stretto.ask("Translate the document into German.", strategy="document", documents=[document])
        await backend.aclose()
    assert (answer.text.strip(), answer.warnings) == ("Alles ist kurz und gut.", ())
    assert answer.branches[-1].kind == "direct"
