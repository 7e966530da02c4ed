"""A small model answers; the main one only where that answer does not stand."""

import math

import anyio
import pytest

from stretto import AsyncStretto, InvalidRequestError
from stretto.backends.base import Capabilities, Chunk
from stretto.errors import ServerFailedError
from stretto.strategies.cascade.standing import agreement
from stretto.testing import Reply, ScriptedBackend
from stretto.token_records import TokenLogprob

pytestmark = pytest.mark.anyio

CHECK = "Is this answer correct"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DOWN = Reply(fault=ServerFailedError("It is down."))


def model(script="The main answer.", name="own:main", **capabilities):
    script = script if isinstance(script, dict) else {"": script}
    return ScriptedBackend(script, name=name, capabilities=Capabilities(**capabilities))


def checked(said, text="A small answer."):
    """A small model that can be held to a schema, and what it says of its own answer."""
    return model({CHECK: said, "": text}, "own:small", json_schema=True)


class Scored(ScriptedBackend):
    """Reports the same log-probability of every token."""

    logprob = -0.1

    async def _chunks(self, prompt, options, reply):
        async for chunk in super()._chunks(prompt, options, reply):
            scores = (
                (TokenLogprob(token=chunk.text, logprob=self.logprob),)
                if chunk.text and options.logprobs is not None
                else ()
            )
            yield Chunk(chunk.text, chunk.usage, chunk.finish_reason, logprobs=scores)


def scored(logprob, text="A small answer."):
    backend = Scored({"": text}, name="own:small", capabilities=Capabilities(logprobs=True))
    backend.logprob = logprob
    return backend


async def ask(small, main=None, question="Why is the sky blue?", roles=None, **options):
    async with AsyncStretto(main or model(), small=small, roles=roles) as stretto:
        return await stretto.ask(question, **({"strategy": "cascade"} | options))


async def test_a_sure_answer_stands_and_the_main_model_is_not_asked():
    main = model()
    answer = await ask(scored(-0.1), main)
    assert (answer.text, answer.strategy, answer.finish_reason) == ("A small answer.", "cascade", "stop")
    assert main.calls == []
    assert answer.usage.calls == 1
    assert answer.route.reason.endswith(
        "own:small answered: the mean log-probability of its tokens is -0.10, and -0.5 is needed."
    )
    assert answer.logprobs == ()  # nobody asked for them
    assert answer.branches[0].model == "own:small"


async def test_an_unsure_answer_is_not_shown_and_both_are_counted():
    async with (
        AsyncStretto(model(), small=scored(-2.0)) as stretto,
        stretto.stream("Why?", strategy="cascade") as stream,
    ):
        events = [event async for event in stream]
    answer = events[-1].answer
    assert answer.text == "".join(event.text for event in events if event.type == "text_delta") == "The main answer."
    assert [branch.model for branch in answer.branches] == ["own:small", "own:main"]
    assert answer.usage.calls == 2
    assert answer.usage.discarded_tokens == answer.branches[0].usage.completion_tokens > 0
    assert "own:small was asked first, and the mean log-probability of its tokens is -2.00" in answer.route.reason
    assert answer.warnings == ()


@pytest.mark.parametrize(
    ("said", "text", "why"),
    [
        ('{"stands": true}', "A small answer.", "own:small answered: it is sure of its answer."),
        ('{"stands": false}', "The main answer.", "it is not sure of its answer."),
        ("Perhaps.", "The main answer.", "its check says neither yes nor no."),
        (DOWN, "The main answer.", "its check failed: It is down."),
    ],
)
async def test_a_model_without_log_probabilities_judges_itself(said, text, why):
    answer = await ask(checked(said))
    assert answer.text == text
    assert answer.route.reason.endswith(why)
    assert answer.warnings == ()


@pytest.mark.parametrize(("second", "text"), [("blue light!", "Blue light."), ("Red dust.", "The main answer.")])
async def test_a_model_without_schemas_is_asked_twice_and_has_to_agree_with_itself(second, text):
    answer = await ask(model({"": ["Blue light.", second]}, "own:small"))
    assert answer.text == text
    assert "two answers of it have" in answer.route.reason


def test_longer_answers_agree_by_the_words_that_they_have_in_common():
    one = "The sky is blue because air scatters blue light more than red light from the sun above us."
    assert agreement(one, one.upper()) == 1.0
    assert (
        agreement(one, "Air scatters blue light more than red light from the sun, so the sky is blue up there.") > 0.3
    )
    assert (
        agreement(one, "Tyres want air every week, and the chain wants oil after each ride in the rain out there.") == 0
    )


async def test_a_format_that_does_not_parse_is_the_hardest_check():
    main = model('{"n": 3}', json_schema=True)
    answer = await ask(scored(-0.01, "Three."), main, response_format=SCHEMA)
    assert answer.parsed == {"n": 3}
    assert "its answer does not fit response_format" in answer.route.reason
    answer = await ask(scored(-0.01, '{"n": 4}'), main, response_format=SCHEMA)
    assert answer.parsed == {"n": 4}


async def test_a_small_model_that_fails_is_asked_once_and_the_main_one_answers():
    small = model(DOWN, "own:small", logprobs=True)
    answer = await ask(small)
    assert (answer.text, answer.warnings) == ("The main answer.", ())
    assert len(small.calls) == 1
    assert "own:small was asked first, and it failed: It is down." in answer.route.reason


async def test_where_the_main_model_fails_what_the_small_one_wrote_is_better_than_nothing():
    answer = await ask(scored(-2.0), model(DOWN))
    assert (answer.text, answer.finish_reason) == ("A small answer.", "stop")
    assert answer.warnings == (
        "The answer is that of own:small, which does not stand, because the main model failed: It is down.",
    )


async def test_with_fastest_both_begin_at_once_and_the_one_that_is_not_needed_is_cancelled_and_counted():
    held = anyio.Event()
    main = model(Reply("The main answer.", hold=held))
    answer = await ask(scored(-0.1), main, preference="fastest")
    assert answer.text == "A small answer."
    assert (len(main.calls), main.running) == (1, 0)
    assert answer.usage.calls == 2
    assert [(branch.model, branch.status) for branch in answer.branches] == [
        ("own:small", "finished"),
        ("own:main", "failed"),
    ]
    assert answer.branches[1].error == "an answer of a smaller model stands"


async def test_with_fastest_the_main_model_wins_if_it_is_there_first():
    held = anyio.Event()
    small = model(Reply("A small answer.", hold=held), "own:small", logprobs=True)
    answer = await ask(small, preference="fastest")
    assert answer.text == "The main answer."
    assert small.running == 0
    assert answer.route.role == "main"
    assert "The main model was there first." in answer.route.reason


async def test_with_fastest_a_small_answer_that_does_not_stand_is_not_waited_for_twice():
    answer = await ask(scored(-2.0), preference="fastest")
    assert answer.text == "The main answer."
    assert answer.usage.calls == 2


async def test_a_ladder_has_several_models():
    middle = scored(-0.2, "A middle answer.")
    middle.name = "own:middle"
    main = model()
    answer = await ask(scored(-2.0), main, roles={"smallest": scored(-3.0), "smaller": scored(-2.0)})
    assert [branch.id for branch in answer.branches] == ["smallest", "smaller", "small", "direct"]
    answer = await ask(middle, main, roles={"smaller": scored(-3.0)})
    assert answer.text == "A middle answer."
    assert [branch.id for branch in answer.branches] == ["smaller", "small"]


async def test_a_callers_own_ladder_and_threshold():
    options = {"ladder": ["draft"], "threshold": math.log(0.99)}
    answer = await ask(None, roles={"draft": scored(-0.1)}, strategy_options=options)
    assert answer.text == "The main answer."
    assert "is -0.10, and -0.0100503 is needed" in answer.route.reason


@pytest.mark.parametrize(("most", "asked"), [(1, ["own:main"]), (2, ["own:small", "own:main"])])
async def test_no_more_calls_are_made_than_the_budget_has(most, asked):
    answer = await ask(scored(-2.0), budget={"max_calls": most})
    assert answer.text == "The main answer."
    assert [branch.model for branch in answer.branches] == asked


async def test_without_a_small_model_there_is_one_clear_error():
    with pytest.raises(InvalidRequestError, match="needs a smaller model, and this client has none"):
        await ask(None)


async def test_a_small_model_that_cannot_do_what_is_needed_is_not_asked():
    small = checked('{"stands": true}')
    answer = await ask(small, model(logprobs=True), logprobs=0)
    assert answer.text == "The main answer."
    assert small.calls == []
    assert "own:small was not asked: logprobs=0 cannot be had" in answer.route.reason


async def test_the_router_chooses_it_for_nobody_and_its_price_is_told_beforehand():
    async with AsyncStretto(model(), small=scored(-0.1)) as stretto:
        route = await stretto.route("Why is the sky blue?", strategy="cascade", preference="fastest")
        assert (route.strategy, route.role) == ("cascade", "main")
        assert route.forecast["cascade"].calls == 3
        assert (await stretto.route("Why is the sky blue?")).strategy == "direct"
