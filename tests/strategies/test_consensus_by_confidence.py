"""Samples that weigh as much as their model is sure of them: weak ones end early, the surest is shown."""

import math
from collections import Counter
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto import AsyncStretto, InvalidRequestError, TokenLogprob, Usage
from stretto.extending import Capabilities, Chunk
from stretto.strategies.consensus.stopping import confident, posterior
from stretto.testing import ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]
LEGS = "How many legs do 3 spiders have?"
ESSAY = "Why do bees dance?"


def backend(*replies, at_once=16, **able):
    return ScriptedBackend({"": list(replies)}, capabilities=Capabilities(concurrent_calls=at_once, **able))


def options(**given):
    return {"strategy": "consensus", "strategy_options": given}


async def ask(model, question=LEGS, given=None, **request):
    async with AsyncStretto(model) as stretto:
        return await stretto.ask(question, strategy="consensus", strategy_options=given, **request)


class Telling:
    """Writes each sample token by token, with the log-probabilities it is told; a late one waits for the others."""

    name = "own:telling"
    capabilities = Capabilities(logprobs=True)

    def __init__(self, *samples, late=()):
        self.samples, self.late = samples, late
        self.asked, self.sent, self.ended = [], Counter(), 0

    @asynccontextmanager
    async def stream(self, _, options):
        number = len(self.asked)
        self.asked.append(options)

        async def chunks():
            text, logprobs = self.samples[number]
            while number in self.late and self.ended < len(self.samples) - len(self.late):
                await anyio.lowlevel.checkpoint()
            for place, logprob in enumerate(logprobs):
                await anyio.lowlevel.checkpoint()
                self.sent[number] += 1
                token = f"{text}{place} " if len(logprobs) > 1 else text
                yield Chunk(token, logprobs=(TokenLogprob(token=token, logprob=logprob),))
            yield Chunk(usage=Usage(completion_tokens=len(logprobs), calls=1), finish_reason="stop")

        written = chunks()
        try:
            yield written
        finally:
            self.ended += 1
            await written.aclose()

    async def count_tokens(self, _):
        return 9

    async def aclose(self):
        pass


async def test_a_weak_sample_is_ended_in_mid_stream():
    weak = [-0.1] * 20 + [-3.0] * 60
    model = Telling(("a", [-0.5] * 10), ("b", [-0.4] * 10), ("c", weak), late=(2,))
    answer = await ask(model, ESSAY, {"samples": 3, "warm_up": 2, "window": 8, "compare": "text"})
    assert answer.text[:3] in ("a0 ", "b0 ")
    assert 20 < model.sent[2] < 40
    assert (answer.agreement.weak, answer.agreement.finished) == (1, 2)
    assert {asked.logprobs for asked in model.asked} == {0}
    assert answer.logprobs == ()
    assert "less sure" in answer.branches[2].error


async def test_a_sample_as_sure_as_the_others_is_not_ended_and_none_where_that_was_switched_off():
    sure = Telling(("a", [-0.5] * 10), ("b", [-0.4] * 10), ("c", [-0.5] * 60), late=(2,))
    assert (await ask(sure, ESSAY, {"samples": 3, "warm_up": 2, "window": 8})).agreement.finished == 3
    weak = Telling(("a", [-0.5] * 10), ("b", [-0.4] * 10), ("c", [-3.0] * 60), late=(2,))
    answer = await ask(weak, ESSAY, {"samples": 3, "warm_up": 2, "window": 8, "end_weak": False})
    assert (answer.agreement.finished, weak.asked[0].logprobs) == (3, None)


async def test_of_samples_that_agree_the_surest_is_shown_with_the_log_probabilities_that_were_asked_for():
    model = Telling(("24", [-0.9]), ("24.", [-0.1]), ("24!", [-0.5]))
    answer = await ask(model, given={"samples": 3, "certainty": 1}, logprobs=0)
    assert answer.text in ("24", "24.")  # the vote may end after two of them
    assert [each.token for each in answer.logprobs] == [answer.text]


def bayes(votes):
    """The probability of each answer by the product of likelihoods, one candidate unnamed; and the number of votes."""
    named = sorted({answer for answer, _ in votes})
    weights = dict.fromkeys([*named, "unnamed"], Fraction(1))
    for candidate in weights:
        for answer, sure in votes:
            weights[candidate] *= sure if answer == candidate else (1 - sure) / len(named)
    return {answer: weights[answer] / sum(weights.values()) for answer in named}


SURE = [Fraction(1, 2), Fraction(4, 5), Fraction(19, 20)]


def told_by(votes, enough):
    """How many of these votes are counted before the leader is probable enough."""
    for number in range(2, len(votes)):
        leader, probable = max(bayes(votes[:number]).items(), key=lambda each: each[1])
        if probable >= enough and [answer for answer, _ in votes[:number]].count(leader) > 1:
            return number
    return len(votes)


@given(
    votes=st.lists(st.tuples(st.sampled_from("123"), st.sampled_from(SURE)), min_size=2, max_size=9),
    enough=st.sampled_from([0.81, 0.93, 0.97]),
)
@settings(max_examples=15)
def test_by_confidence_exactly_the_calls_are_made_that_the_posterior_predicts(votes, enough):
    model = Telling(*((answer, [math.log(sure)]) for answer, sure in votes))
    given = {"samples": len(votes), "certainty": enough, "rule": "confidence"}
    answer = anyio.run(partial(ask, model, LEGS, given, max_parallel_parts=1))
    number = told_by(votes, enough)
    assert len(model.asked) == answer.usage.calls == number
    assert answer.agreement.decided_by == ("certain" if number < len(votes) else "all_votes")
    probable = bayes(votes[:number])
    assert probable[answer.text] == max(probable.values())


def test_the_posterior_counts_how_sure_each_vote_is():
    assert posterior([("a", 0.9)]) == {"a": pytest.approx(0.9)}
    even = posterior([("a", 0.8), ("b", 0.8)])
    assert even["a"] == pytest.approx(even["b"])
    assert posterior([("a", 0.5), ("a", 0.5), ("b", 0.99)])["b"] > 0.9
    assert confident([("a", 0.9), ("a", 0.9)], 0.95)
    assert not confident([("a", 1.0)], 0.95)  # one sample is no vote
    assert not confident([("a", 0.9), ("a", 0.9)], 1.0)


async def test_confidence_needs_log_probabilities_and_where_a_server_tells_none_the_votes_count():
    with pytest.raises(InvalidRequestError, match="rule='confidence', and scripted:model reports no log-probabilities"):
        await ask(backend("24"), given={"rule": "confidence"})
    silent = backend("24", at_once=1, logprobs=True)
    answer = await ask(silent, given={"samples": 5, "rule": "confidence"})
    assert (len(silent.calls), answer.agreement.decided_by) == (3, "unchangeable")
