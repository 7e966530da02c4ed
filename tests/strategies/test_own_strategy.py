"""A strategy of a user's own: passed with a request, or registered and weighed by the router."""

import logging

import pytest
from pydantic import BaseModel, ConfigDict

from stretto import (
    AsyncStretto,
    Budget,
    Forecast,
    InvalidRequestError,
    Message,
    Request,
    Router,
    SettingsError,
    UnknownStrategyError,
)
from stretto.extending import BranchSpec, Direct, ModelRequest, Offer, Strategy
from stretto.strategies import STRATEGIES
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

ADVICE = "What are the advantages and disadvantages of keeping bees in a city?"
SCRIPT = {"for it": "Honey.", "against it": "Stings.", "": "A straight answer."}


class BothSides:
    """Two branches at once."""

    name = "both_sides"

    def __init__(self, offered=None):
        self.offered = offered
        self.seen = []

    def offer(self, case):
        self.seen.append(case)
        return self.offered

    async def run(self, request, route, runner):  # noqa: ARG002 - the protocol's arguments
        for side in ("for", "against"):
            prompt = ModelRequest((Message(role="user", content=f"{request.question} Only what speaks {side} it."),))
            branch = runner.start(BranchSpec(side, "section", lambda _, prompt=prompt: prompt, request.options))
            runner.merge.add(f"{side.title()}: ")
            runner.merge.add_branch(branch)
            runner.merge.add("\n")
        await runner.merge.finish()


SURE = Offer(confidence=0.9, reason="Both sides at the same time.", forecast=Forecast(seconds=1.0, tokens=9, calls=2))


async def ask(strategies=(), prompt=ADVICE, **options):
    async with AsyncStretto(ScriptedBackend(SCRIPT), strategies=strategies) as stretto:
        return await stretto.ask(prompt, **options)


async def test_a_strategy_can_be_passed_with_a_request():
    answer = await ask(strategy=BothSides())
    assert answer.text == "For: Honey.\nAgainst: Stings.\n"
    assert (answer.route.strategy, answer.route.code) == ("both_sides", "asked")


async def test_a_registered_strategy_is_called_by_its_name():
    assert (await ask([BothSides()], strategy="both_sides")).text.startswith("For: Honey.")


async def test_a_registered_strategy_is_weighed_by_its_offer():
    answer = await ask([BothSides(SURE)])
    assert answer.text.startswith("For: Honey.")
    assert (answer.route.strategy, answer.route.confidence) == ("both_sides", 0.9)
    assert answer.route.reason == "Both sides at the same time."
    assert answer.route.forecast["both_sides"].calls == 2
    assert set(answer.route.forecast) >= {"direct", "skeleton"}


@pytest.mark.parametrize(
    "offered",
    [
        None,
        Offer(confidence=0.9, reason="", eligible=False),
        Offer(confidence=0.9, reason="", priority=5),  # below the skeleton, which suits
    ],
)
async def test_without_a_better_offer_the_others_are_weighed(offered):
    answer = await ask([BothSides(offered)], prompt=ADVICE, preference="fastest")
    assert answer.route.strategy == "skeleton"


async def test_among_equals_the_most_confident_offer_is_taken():
    class Other(BothSides):
        name = "other_sides"

    offers = BothSides(SURE), Other(Offer(confidence=0.95, reason="More so."))
    assert (await ask(offers)).route.strategy == "other_sides"


async def test_an_obstacle_makes_the_answer_straight_and_is_named():
    hindered = Offer(
        confidence=0.9, reason="", when_blocked="two sides would serve", obstacle=lambda: "one of them is asleep"
    )
    answer = await ask([BothSides(hindered)])
    assert answer.text == "A straight answer."
    assert answer.route.code == "other"
    assert "two sides would serve: one of them is asleep" in answer.route.reason


async def test_a_doubt_becomes_the_cause_where_nothing_suits():
    doubtful = Offer(confidence=0.2, reason="", eligible=False, why_not="it hardly has two sides")
    answer = await ask([BothSides(doubtful)], prompt="Write a poem about the harbour at night.")
    assert (answer.route.code, "it hardly has two sides" in answer.route.reason) == ("doubt", True)


@pytest.mark.parametrize("forecast", [None, {"seconds": 1}], ids=["raises", "no forecast"])
async def test_a_strategy_that_cannot_make_its_offer_is_left_out_and_logged(caplog, forecast):
    class Careless(BothSides):
        def offer(self, case):  # noqa: ARG002 - as above
            if forecast is None:
                raise ZeroDivisionError
            return Offer(confidence=1.0, reason="", forecast=forecast)

    with caplog.at_level(logging.ERROR, "stretto.router.policy"):
        assert (await ask([Careless()], preference="fastest")).route.strategy == "skeleton"
    assert "both_sides could not make an offer" in caplog.text


def test_the_case_tells_what_an_offer_needs():
    strategy = BothSides()
    request = Request.of(ADVICE, budget=Budget(max_calls=1))
    Router().decide(request, {"main": ScriptedBackend(SCRIPT)}, {**STRATEGIES, "both_sides": strategy})
    case = strategy.seen[0]
    assert (case.text, case.role, case.backend.name) == (ADVICE, "main", "scripted:model")
    assert case.judgement.shape == "points"
    assert case.direct_forecast.calls == 1
    assert case.obstacle(Forecast(seconds=0.1, tokens=10, calls=2)) == (
        "the budget of 1 call is too small, 2 are needed"
    )


class Texts(BaseModel):
    summary: str
    reasons: str
    steps: list[str]


@pytest.mark.parametrize("strategy", STRATEGIES.values())
def test_the_strategies_of_the_library_are_strategies_and_offer_themselves(strategy):
    assert isinstance(strategy, Strategy)
    own = {
        "fields": {"messages": "Report on it.", "response_format": Texts},
        "rewrite": {"messages": "Translate into German:\n\n" + "\n\n".join(["The chain needs some oil now."] * 40)},
    }
    asked = own.get(strategy.name, {"messages": "List 12 ideas.", "documents": "Ideas."})
    request = Request.of(asked.pop("messages"), strategy=strategy.name, **asked)
    decided = Router().decide(request, {"main": ScriptedBackend({})}, {"direct": Direct(), strategy.name: strategy})
    assert decided.forecast[strategy.name].calls >= 1


class Sides(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sides: int = 2


async def test_options_of_a_strategy_are_checked_before_the_first_call():
    strategy = BothSides()
    strategy.options = Sides
    assert (await ask([strategy], strategy="both_sides", strategy_options={"sides": 2})).text.startswith("For:")
    with pytest.raises(InvalidRequestError, match=r"'side', and strategy='both_sides' .* Its options are: sides"):
        await ask([strategy], strategy="both_sides", strategy_options={"side": 2})
    with pytest.raises(InvalidRequestError, match="strategy='both_sides' has none"):
        await ask([BothSides()], strategy="both_sides", strategy_options={"sides": 2})


# --- what is no strategy


@pytest.mark.parametrize("wrong", [object(), BothSides, 3])
async def test_what_is_no_strategy_is_refused(wrong):
    with pytest.raises(InvalidRequestError, match="neither a name nor a strategy"):
        await ask(strategy=wrong)
    with pytest.raises(SettingsError, match="not a strategy"):
        await ask([wrong])


@pytest.mark.parametrize("taken", ["direct", "auto"])
async def test_a_name_that_is_taken_is_refused(taken):
    strategy = BothSides()
    strategy.name = taken
    with pytest.raises(SettingsError, match=f"{taken}.*is taken"):
        await ask([strategy])


async def test_an_unknown_name_is_refused_with_those_of_the_client():
    with pytest.raises(UnknownStrategyError, match=r"'both_side'.*items, fields, document, .*both_sides"):
        await ask([BothSides()], strategy="both_side")


def test_a_request_survives_json_by_the_name_of_its_strategy():
    request = Request.of("Why?", strategy=BothSides())
    assert Request.model_validate_json(request.model_dump_json()).strategy == "both_sides"
    assert "own_strategy" not in request.model_dump_json()
