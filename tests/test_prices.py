"""What an answer costs: list prices, prices of the caller's own, and models without a price."""

import sys
from datetime import date

import pytest

from stretto import AsyncStretto, Settings, SettingsError, Usage
from stretto.prices import Price, Prices
from stretto.prices.listed import load
from stretto.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio

OWN = """
as_of = 2026-11-01
source = "our contract"
[models]
"openai:house-model" = { input = 1.0, output = 3.0 }
"openai:gpt-5-mini" = { input = 100.0, output = 100.0 }
"""


def test_tokens_from_the_cache_and_into_it_have_their_own_prices():
    price = Price(input=2.0, output=10.0, cached=0.2, cache_write=2.5)
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=400_000, cache_write_tokens=100_000, completion_tokens=10_000)
    assert price.of(usage) == pytest.approx(500_000 * 2e-6 + 400_000 * 0.2e-6 + 100_000 * 2.5e-6 + 10_000 * 10e-6)


def test_cached_tokens_without_a_price_cost_as_much_as_others():
    assert Price(input=2.0, output=1.0).of(Usage(prompt_tokens=1_000_000, cached_tokens=900_000)) == 2.0


def test_a_long_prompt_costs_more_and_two_short_ones_together_do_not():
    price = Price.model_validate({"input": 1.0, "output": 0.0, "long": {"above": 1000, "input": 2.0, "output": 0.0}})
    long, short = Usage(prompt_tokens=1500, calls=1), Usage(prompt_tokens=1500, calls=2)
    assert price.at(long).input == 2.0
    assert price.at(short).input == 1.0


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    load.cache_clear()
    yield
    load.cache_clear()


@pytest.mark.usefixtures("no_package")
def test_list_prices_are_dated_and_know_dated_names():
    usage = [Usage(prompt_tokens=1_000_000, completion_tokens=1_000_000)]
    cost = Prices().cost("openai:gpt-5-mini", usage)
    dated = Prices().cost("openai:gpt-5-mini-2025-08-07", usage)
    assert cost is not None
    assert cost == dated
    assert cost.usd == pytest.approx(2.25)
    assert cost.as_of == date(2026, 11, 23)
    assert str(cost) == "$2.25"


@pytest.mark.parametrize("model", ["openai:gpt-5-mini-of-ours", "openai:gpt-5-miniature", "scripted:model", ""])
def test_a_name_that_only_begins_like_a_known_one_has_no_price(model):
    assert Prices().cost(model, [Usage(prompt_tokens=5)]) is None


def test_list_prices_hold_at_the_provider_only_and_own_prices_everywhere(tmp_path):
    own = tmp_path / "prices.toml"
    own.write_text(OWN)
    prices, usage = Prices(own), [Usage(prompt_tokens=1_000_000)]
    assert prices.cost("openai:gpt-5", usage, listed=False) is None
    assert prices.cost("openai:house-model", usage, listed=False).usd == 1.0
    assert prices.cost("openai:gpt-5-mini", usage).usd == 100.0  # before the list price
    assert prices.cost("openai:gpt-5", usage).usd == 1.25


@pytest.mark.parametrize(
    ("model", "prompt_tokens"),
    [("openai:gpt-5-mini", 90_000), ("anthropic:claude-sonnet-4-5-20250929", 190_000), ("openai:gpt-5.4", 600_000)],
)
def test_the_package_of_prices_gives_what_the_file_gave_where_both_know_the_model(model, prompt_tokens, monkeypatch):
    pytest.importorskip("genai_prices")
    usages = [
        Usage(prompt_tokens=1_000_000, completion_tokens=1_000_000, calls=100),
        Usage(prompt_tokens=prompt_tokens, cached_tokens=60_000, cache_write_tokens=0, completion_tokens=70, calls=1),
    ]
    by_package = Prices().cost(model, usages)
    monkeypatch.setattr("stretto.prices.cost_by_package", lambda *_: None)
    by_file = Prices().cost(model, usages)
    assert by_package.source.startswith("the list prices of genai-prices")
    assert by_package.as_of is None
    assert by_file.as_of is not None
    assert by_package.usd == pytest.approx(by_file.usd)


def test_own_prices_and_models_that_only_the_file_knows_go_around_the_package(tmp_path):
    pytest.importorskip("genai_prices")
    own = tmp_path / "prices.toml"
    own.write_text(OWN)
    usage = [Usage(prompt_tokens=1_000_000)]
    assert Prices(own).cost("openai:gpt-5-mini", usage).source == "our contract"
    assert Prices().cost("anthropic:claude-mythos-5", usage).as_of is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models = {}", "as_of"),
        (OWN.replace("1.0", "-1.0"), "models.openai:house-model.input=-1.0"),
        (OWN.replace("input", "inptu"), "inptu"),
        ("[", "prices.toml"),
    ],
)
def test_a_file_of_prices_that_cannot_be_used_is_named(tmp_path, text, says):
    own = tmp_path / "prices.toml"
    own.write_text(text)
    with pytest.raises(SettingsError, match=r"cost\.md") as raised:
        Prices(own)
    assert says in str(raised.value)


async def test_a_missing_file_of_prices_is_told_when_the_client_is_made(tmp_path):
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        AsyncStretto("local:pocket", settings=Settings(prices=tmp_path / "missing.toml"))


async def test_an_answer_carries_its_cost(tmp_path):
    own = tmp_path / "prices.toml"
    own.write_text(OWN)
    async with ScriptedServer("Yes.") as server:
        priced = AsyncStretto("openai:house-model", base_url=server.openai_url, settings=Settings(prices=own))
        unpriced = AsyncStretto("openai:gpt-5", base_url=server.openai_url, settings=Settings())
        async with priced, unpriced:
            answer, other = await priced.ask("Why?"), await unpriced.ask("Why?")
    usage = answer.usage
    assert answer.cost.usd == pytest.approx((usage.prompt_tokens + 3 * usage.completion_tokens) / 1e6)
    assert usage.calls
    assert answer.cost.source == "our contract"
    assert other.cost is None  # a server of another address: the list price of gpt-5 does not hold


@pytest.mark.thorough
async def test_a_model_in_this_process_costs_nothing():
    async with AsyncStretto("local:pocket", settings=Settings()) as stretto:
        answer = await stretto.ask("Why is the sky blue?", max_tokens=4, strategy="direct")
    assert str(answer.cost) == "$0.00"
