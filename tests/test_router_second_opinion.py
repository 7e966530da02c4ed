import anyio
import pytest

from stretto.backends.base import Capabilities
from stretto.router import Judgement, Router, SecondOpinion
from stretto.testing import Reply, ScriptedBackend
from stretto.values.budget import Budget
from stretto.values.errors import ServerFailedError
from stretto.values.request import Request

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

QUESTION = "What should I think of before I move to the country?"
BY_POINTS = Capabilities(prompt_family="pocket")  # whose answers are in parts wherever that suits


class InDoubt:
    """A model that cannot decide: the probability given, the threshold at one half."""

    def __init__(self, skeleton):
        self.thresholds = dict.fromkeys(("fastest", "balanced", "careful"), 0.5)
        shapes = dict.fromkeys(("short", "steps", "prose", "items", "code", "transform"), 0.0) | {"points": 1.0}
        self.judgement = Judgement(shapes, skeleton, known=20)

    def judge(self, _):
        return self.judgement


async def route(answer, *, first=0.5, opinion=None, small=None, **options):
    small = small or ScriptedBackend({"": answer}, name="openai:small")
    router = Router(second_opinion=opinion or SecondOpinion(), model=InDoubt(first))
    backends = {"main": ScriptedBackend({}, name="openai:main", capabilities=BY_POINTS), "small": small}
    return await router.route(Request.of(QUESTION, **options), backends), small


async def test_a_yes_makes_it_a_skeleton():
    chosen, small = await route("A", first=0.45)
    assert chosen.strategy == "skeleton"
    assert "spoke for a skeleton" in chosen.reason
    assert len(small.calls) == 1


@pytest.mark.parametrize("answer", ["B", "C", "b.", "Answer: C"])
async def test_a_no_makes_it_direct(answer):
    chosen, _ = await route(answer, first=0.6)
    assert (chosen.strategy, chosen.code) == ("direct", "doubt")


async def test_a_no_says_more_than_a_yes():
    opinion = SecondOpinion()
    assert 0.5 < opinion.update(0.5, True) < 0.75
    assert opinion.update(0.5, False) < 0.15


@pytest.mark.parametrize("first", [0.1, 0.9])
async def test_where_the_model_is_sure_nobody_is_asked(first):
    _, small = await route("A", first=first)
    assert not small.calls


@pytest.mark.parametrize("options", [{"strategy": "direct"}, {"max_tokens": 50}, {"budget": Budget(max_calls=2)}])
async def test_where_it_could_change_nothing_nobody_is_asked(options):
    _, small = await route("A", **options)
    assert not small.calls


async def test_a_failing_model_leaves_the_first_opinion():
    chosen, small = await route(Reply(fault=ServerFailedError("down")), first=0.55)
    assert chosen.strategy == "skeleton"
    assert "did not arrive" in chosen.reason
    assert len(small.calls) == 1


async def test_an_answer_that_is_no_letter_leaves_the_first_opinion():
    chosen, _ = await route("I would rather not say", first=0.55)
    assert chosen.strategy == "skeleton"


async def test_a_silent_model_is_left_at_the_deadline():
    never = ScriptedBackend({"": Reply("A", hold=anyio.Event())}, name="openai:small")
    chosen, small = await route("", first=0.45, opinion=SecondOpinion(deadline_s=0.01), small=never)
    assert chosen.strategy == "direct"
    assert "did not arrive in time" in chosen.reason
    assert small.running == 0


async def test_without_a_small_backend_the_first_opinion_stands():
    router = Router(second_opinion=SecondOpinion(), model=InDoubt(0.55))
    chosen = await router.route(
        Request.of(QUESTION), {"main": ScriptedBackend({}, name="openai:main", capabilities=BY_POINTS)}
    )
    assert chosen.strategy == "skeleton"
    assert "second opinion" not in chosen.reason


async def test_by_default_nobody_is_asked():
    small = ScriptedBackend({"": "A"}, name="openai:small")
    router = Router(model=InDoubt(0.5))
    await router.route(Request.of(QUESTION), {"main": ScriptedBackend({}, capabilities=BY_POINTS), "small": small})
    assert not small.calls


async def test_a_model_that_thinks_is_asked_with_low_effort_and_room_to_think():
    small = ScriptedBackend({"": "A"}, name="openai:small", capabilities=Capabilities(reasoning=True))
    await route("", small=small)
    prompt, options = small.calls[0]
    assert (prompt.effort, options.max_tokens) == ("low", None)


async def test_braces_in_the_request_are_sent_as_they_are():
    small = ScriptedBackend({"": "A"}, name="openai:small")
    await SecondOpinion().ask("What does {request} mean, {0}?", small)
    assert "What does {request} mean, {0}?" in small.calls[0][0].messages[0].content


@pytest.mark.parametrize(
    ("settings", "named"), [({"deadline_s": 0}, "deadline_s=0"), ({"hit_rate": 1.5}, "hit_rate=1.5")]
)
async def test_impossible_settings_are_refused(settings, named):
    with pytest.raises(ValueError, match=named):
        SecondOpinion(**settings)
