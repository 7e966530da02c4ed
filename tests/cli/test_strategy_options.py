"""``--strategy-options`` and what the command line says of samples that agree."""

import json

import pytest

LEGS = "How many legs do 3 spiders have?"


def test_options_of_a_strategy_are_names_and_values(stretto):
    opened = []
    result = stretto(
        *("ask", LEGS, "-s", "consensus", "--strategy-options", "samples=3", "--strategy-options", "choices=23,24"),
        script="24",
        opened=opened,
    )
    assert result.stdout == "24\n"
    assert "2 of 2 votes" in result.stderr or "3 of 3 votes" in result.stderr
    assert len(opened[0].calls) <= 3


def test_the_agreement_is_part_of_the_json(stretto):
    result = stretto("ask", LEGS, "-s", "consensus", "--json", script="24")
    assert json.loads(result.stdout)["agreement"]["votes"] == {"24": 3}


def test_the_price_is_told_before(stretto):
    result = stretto("route", LEGS, "-s", "consensus", "--strategy-options", "samples=9", "--json")
    assert json.loads(result.stdout)["forecast"]["consensus"]["calls"] == 9


@pytest.mark.parametrize(("given", "said"), [("samples", "no NAME=VALUE"), ("samples=x", "samples='x'")])
def test_wrong_options_are_named(stretto, given, said):
    result = stretto("ask", LEGS, "-s", "consensus", "--strategy-options", given)
    assert result.exit_code == 2
    assert said in result.stderr
