"""Log-probabilities from the request to the answer: of a local model, over OpenAI's API, and where there are none."""

import pytest

from stretto import Answer, AsyncStretto
from stretto.backends.base import Capabilities
from stretto.backends.local.backend import LocalBackend
from stretto.backends.registry import open_backend
from stretto.testing import ScriptedBackend
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.values.errors import InvalidRequestError

pytestmark = pytest.mark.anyio
QUESTION = "How do I look after a bicycle?"


@pytest.mark.thorough
async def test_a_local_model_tells_the_same_under_every_way_of_drafting():
    found = {}
    async with AsyncStretto(LocalBackend("local:pocket", dtype="float32", device="cpu")) as stretto:
        for decoding in ("autoregressive", "suffix", "auto", "lookahead", "lexical"):
            answer = await stretto.ask(QUESTION, strategy="direct", decoding=decoding, logprobs=3, max_tokens=30)
            assert answer.decoding.methods == (decoding,)
            assert "".join(each.token for each in answer.logprobs) == answer.text
            found[decoding] = answer.logprobs
    plain = found["autoregressive"]
    assert len(plain) == 30
    for place, score in enumerate(plain):
        assert score.top[0][0] == score.token  # it is greedy
        assert [value for _, value in score.top] == sorted((value for _, value in score.top), reverse=True)
        for other in found.values():
            assert other[place].token == score.token
            assert [text for text, _ in other[place].top] == [text for text, _ in score.top]
            assert other[place].logprob == pytest.approx(score.logprob, abs=1e-3)


@pytest.mark.thorough
async def test_those_of_an_answer_in_parts_stand_in_its_branches_and_one_after_the_other():
    async with AsyncStretto("local:pocket") as stretto:
        answer = await stretto.ask("Give the plural of each word: cat, child, mouse", strategy="items", logprobs=0)
        without = await stretto.ask("Give the plural of each word: cat, child, mouse", strategy="items")
    assert [each for branch in answer.branches for each in branch.logprobs] == list(answer.logprobs)
    for branch in answer.branches:
        assert branch.text in "".join(each.token for each in branch.logprobs)
        assert branch.logprobs[-1].token not in branch.text  # the end of the answer is a token too
    assert all(each.top == () for each in answer.logprobs)
    assert without.logprobs == ()
    assert Answer.model_validate_json(answer.model_dump_json()) == answer


async def test_they_are_asked_of_openais_api_by_its_own_names():
    async with ScriptedServer(lambda _: HttpReply("Oil the chain.")) as server:
        async with AsyncStretto(open_backend("openai:any", base_url=server.openai_url)) as stretto:
            answer = await stretto.ask(QUESTION, strategy="direct", logprobs=2)
            bare = await stretto.ask(QUESTION, strategy="direct", logprobs=0)
            await stretto.ask(QUESTION, strategy="direct")
        sent = [(body.get("logprobs"), body.get("top_logprobs")) for body in (r.body for r in server.requests)]
    assert sent == [(True, 2), (True, None), (None, None)]
    assert [each.token for each in answer.logprobs] == ["Oil", " the", " chain."]
    assert answer.logprobs[0].logprob == -0.5
    assert answer.logprobs[0].top == (("word0", -1.0), ("word1", -2.0))
    assert [each.top for each in bare.logprobs] == [(), (), ()]


async def test_a_server_that_refuses_them_is_asked_without_and_a_warning_says_that_there_are_none():
    async with ScriptedServer(lambda _: HttpReply("Oil it."), rejects=("logprobs",)) as server:
        backend = open_backend("openai:any", base_url=server.openai_url)
        async with AsyncStretto(backend) as stretto:
            for _ in range(2):
                answer = await stretto.ask(QUESTION, strategy="direct", logprobs=2)
                assert (answer.text, answer.logprobs) == ("Oil it.", ())
                assert [warning.code for warning in answer.warnings] == ["option"]
        sent = [(request.body.get("logprobs"), request.body.get("top_logprobs")) for request in server.requests]
    assert sent == [(True, 2), (None, None), (None, None)]


async def test_the_outline_is_not_asked_for_any():
    outline = "1. Tyres\n2. Chain"
    backend = ScriptedBackend({"only the outline": outline, "": "Text."}, capabilities=Capabilities(logprobs=True))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton", strategy_options={"form": "points"}, logprobs=1)
    assert [options.logprobs for _, options in backend.calls] == [None, 1, 1]
    assert [warning.code for warning in answer.warnings] == ["option"]


@pytest.mark.parametrize("name", ["anthropic:claude-haiku-4-5", "openai:gpt-5-mini"])
async def test_a_model_that_has_none_is_not_asked_and_the_error_says_what_to_do(name):
    async with AsyncStretto(open_backend(name, api_key="sk-none")) as stretto:
        with pytest.raises(
            InvalidRequestError, match=rf"logprobs=1 cannot be had from {name}: .* Leave it out, or use"
        ):
            await stretto.ask(QUESTION, strategy="direct", logprobs=1)


@pytest.mark.parametrize("number", [-1, 21])
async def test_an_impossible_number_is_refused(number):
    async with AsyncStretto("local:pocket") as stretto:
        with pytest.raises(InvalidRequestError, match=f"logprobs={number} cannot be used"):
            await stretto.ask(QUESTION, logprobs=number)
