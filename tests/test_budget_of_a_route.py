"""``Budget(max_cost=..., deadline_s=...)``: a way that is forecast to be over it is not taken."""

import pytest

from stretto import AsyncStretto, Budget, BudgetExceededError, InvalidRequestError, Settings
from stretto.extending import Capabilities, Chunk
from stretto.prices import Prices
from stretto.testing import ScriptedBackend
from stretto.values.answer import Usage

pytestmark = pytest.mark.anyio

POINTS = "What are the main benefits of regular exercise? Give me six tips."
MINE = """
as_of = 2026-11-26
source = "a test"
[models]
"scripted:model" = { input = 1.0, output = 10.0 }
"""

LONG = "Some words about it. " * 99


@pytest.fixture
def priced(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(MINE)
    return Settings(prices=file)


def backend(straight="Some words about it."):
    """One that writes answers by points, wherever they suit."""
    able = Capabilities(prompt_family="pocket")
    return ScriptedBackend({"Outline the answer": "1. Heart\n2. Sleep\n3. Mood", "": straight}, capabilities=able)


async def test_forecasts_say_what_each_way_would_cost(priced):
    async with AsyncStretto(backend(), settings=priced) as stretto:
        route = await stretto.route(POINTS)
    direct, skeleton = route.forecast["direct"], route.forecast["skeleton"]
    assert direct.cost == pytest.approx((direct.tokens - direct.written) * 1e-6 + direct.written * 1e-5, abs=1e-6)
    assert skeleton.cost > direct.cost
    assert route.strategy == "skeleton"


async def test_a_way_that_is_over_the_budget_is_not_taken_and_the_route_says_so(priced):
    async with AsyncStretto(backend(LONG), settings=priced) as stretto:
        free = await stretto.route(POINTS)
        between = (free.forecast["direct"].cost + free.forecast["skeleton"].cost) / 2
        for named in ("auto", "skeleton"):
            answer = await stretto.ask(POINTS, budget=Budget(max_cost=between), strategy=named)
            assert (answer.strategy, answer.route.code) == ("direct", "budget")
            assert f"{free.forecast['skeleton'].cost:.3g} US dollars" in answer.route.reason
            assert f"max_cost={between:g}" in answer.route.reason
        assert (await stretto.route(POINTS, budget=Budget(max_cost=1))).strategy == "skeleton"


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(max_cost=0.0001), "it would cost about 0.00552 US dollars, and the budget has max_cost=0.0001"),
        (Budget(deadline_s=2), "it would take about 8.5 s, and the budget has deadline_s=2"),
    ],
)
async def test_if_even_the_straight_answer_is_over_it_one_error_comes_before_a_call(priced, budget, says):
    asked = backend()
    async with AsyncStretto(asked, settings=priced) as stretto:
        with pytest.raises(BudgetExceededError, match="does not allow even a direct answer: ") as error:
            await stretto.ask(POINTS, budget=budget)
    assert says in str(error.value)
    assert asked.calls == []


async def test_with_fastest_a_quicker_model_is_taken_where_the_main_one_is_over_the_budget(priced):
    small = ScriptedBackend({"": "Short."}, name="local:any")
    async with AsyncStretto(backend(), roles={"small": small}, settings=priced) as two:
        route = await two.route("Tell me a story.", budget=Budget(max_cost=0.0001), preference="fastest")
    assert route.role == "small"


async def test_documents_that_only_fit_in_passages_are_not_sent_straight_for_the_budget(priced):
    long = ScriptedBackend({"": "x"}, capabilities=Capabilities(context_window=2_000))
    async with AsyncStretto(long, settings=priced) as stretto:
        with pytest.raises(BudgetExceededError, match="a direct answer has no room for the prompt: it would cost"):
            await stretto.ask("Who signed?", documents="Some words. " * 5_000, budget=Budget(max_cost=0.01))
    assert long.calls == []


async def test_money_without_a_known_price_is_refused_before_a_call():
    asked = backend()
    async with AsyncStretto(asked) as stretto:
        with pytest.raises(BudgetExceededError, match="the price of scripted:model is unknown"):
            await stretto.ask(POINTS, budget=Budget(max_cost=1))
    assert asked.calls == []


async def test_no_model_of_unknown_price_is_called_where_money_counts(priced):
    main, small = backend(), ScriptedBackend({"": "Short."}, name="own:small")
    budget = Budget(max_cost=1)
    async with AsyncStretto(main, roles={"small": small}, fallback=[small], settings=priced) as two:
        cascade = await two.ask("Why is it?", strategy="cascade", budget=budget)
        together = await two.ask("Why is it?", strategy="collaborate", budget=budget)
    assert small.calls == []
    assert "price of own:small" in cascade.route.reason
    assert (cascade.text, cascade.cost.usd > 0) == ("Some words about it.", True)
    assert together.warnings[0].code == "part_missing"
    assert "price of own:small" in together.warnings[0]


async def test_a_forecast_of_several_models_adds_their_prices(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(MINE + '"own:small" = { input = 0.1, output = 1.0 }\n')
    small = ScriptedBackend({"": "Short."}, name="own:small")
    async with AsyncStretto(backend(), roles={"small": small}, settings=Settings(prices=file)) as two:
        told = {
            name: (await two.route(POINTS, strategy=name)).forecast[name].cost
            for name in ("direct", "cascade", "collaborate")
        }
        vote, judged, own = [
            (await two.route(POINTS, strategy="consensus", strategy_options=options)).forecast["consensus"].cost
            for options in ({}, {"judge": "small"}, {"judge": "main"})
        ]
        between = Budget(max_cost=told["direct"] * 1.1)
        cascade = await two.route(POINTS, strategy="cascade", budget=between)
    assert told["cascade"] == pytest.approx(1.2 * told["direct"], rel=0.01)  # two calls at a tenth of the price
    assert told["collaborate"] > 2 * told["direct"]
    assert judged - vote == pytest.approx(0.1 * (own - vote), rel=0.05)  # a judge at a tenth of the price
    assert (cascade.strategy, cascade.code) == ("direct", "budget")


async def test_local_models_cost_nothing():
    async with AsyncStretto(ScriptedBackend({"": "Yes."}, name="local:any")) as stretto:
        answer = await stretto.ask("Is water wet?", budget=Budget(max_cost=0.01))
    assert answer.text == "Yes."


async def test_once_the_money_is_spent_no_further_call_is_made(priced):
    class Dear(ScriptedBackend):
        """Its calls report a hundred times the tokens that were expected of them."""

        async def _chunks(self, prompt, options, reply):
            async for chunk in super()._chunks(prompt, options, reply):
                dear = Usage(completion_tokens=2_000, calls=1)
                yield chunk if chunk.usage is None else Chunk(usage=dear, finish_reason="stop")

    dear = Dear({"Write only the outline": "1. Heart\n2. Sleep\n3. Mood", "": "Some words about it."})
    async with AsyncStretto(dear, settings=priced) as stretto:
        answer = await stretto.ask(
            POINTS,
            budget=Budget(max_cost=0.05),
            strategy="skeleton",
            strategy_options={"form": "points"},
            max_parallel_parts=1,
        )
    assert len(dear.calls) == 3
    assert answer.finish_reason == "budget"
    assert (answer.warnings[-1].code, answer.warnings[-1].part) == ("budget", "point-3")
    assert all(value in answer.warnings[-1] for value in ("max_cost=0.05", ": 0.06 "))


async def test_the_deadline_of_a_budget_ends_the_answer_too():
    async with AsyncStretto(backend()) as stretto:
        request = stretto._request("Why?", {"budget": Budget(deadline_s=20)})
        assert request.deadline_s == 20
        assert stretto._request("Why?", {"budget": Budget(deadline_s=20), "deadline_s": 5}).deadline_s == 5


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_cost": 0}, r"^Budget\.max_cost=0 cannot be used: input should be greater than 0\.$"),
        ({"max_cost": True}, r"^Budget\.max_cost=True cannot be used: input should be a number\.$"),
        ({"deadline_s": -1}, r"^Budget\.deadline_s=-1 cannot be used"),
        ({"max_cost": float("nan")}, r"^Budget\.max_cost=nan cannot be used"),
        ({"calls": 3}, r"^Budget has no argument calls=\. Did you mean max_calls=\?"),
    ],
)
def test_budgets_are_numbers_above_zero(given, says):
    with pytest.raises(InvalidRequestError, match=says):
        Budget(**given)


@pytest.mark.parametrize("model", ["openai:gpt-4.1-mini", "anthropic:claude-haiku-4-5"])
@pytest.mark.parametrize("usage", [Usage(prompt_tokens=90, completion_tokens=500, calls=1)])
def test_the_quick_price_is_that_of_the_bill(model, usage):
    prices = Prices()
    assert prices.expected(model, usage) == pytest.approx(prices.cost(model, [usage]).usd, rel=0.001)
    assert prices.expected("openai:nobody-knows-it", usage) is None
