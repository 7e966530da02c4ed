import pytest

from stretto import AsyncStretto, Route
from stretto.router import Router
from stretto.router.parse import Parse, parse_of
from stretto.strategies.items.splitting import Split
from stretto.testing import ScriptedBackend
from stretto.values.request import Request

ITEMS = "Translate each word into French:\n- apple\n- bread\n- cheese\n- milk"


@pytest.fixture
def request_and_route():
    request = Request.of(ITEMS)
    return request, Router().decide(request, {"main": ScriptedBackend({}, name="openai:any")})


def test_a_route_carries_what_the_router_read(request_and_route):
    request, route = request_and_route
    assert route.strategy == "items"
    assert parse_of(request, route) is route.parse
    assert route.parse.__dict__["split"].items == ("apple", "bread", "cheese", "milk")  # read, not only to be read


def test_a_copy_of_a_route_carries_it_on(request_and_route):
    request, route = request_and_route
    assert parse_of(request, route.model_copy(update={"reason": "Because."})) is route.parse


def test_what_was_read_of_another_question_is_not_used(request_and_route):
    _, route = request_and_route
    other = Request.of("Why is the sky blue?")
    assert parse_of(other, route).question == other.question
    assert parse_of(other, Route(strategy="items")).question == other.question


def test_what_was_read_is_no_part_of_the_value_of_a_route(request_and_route):
    _, route = request_and_route
    again = Route.model_validate_json(route.model_dump_json())
    assert again.parse is None
    assert again == route
    assert "parse" not in route.model_dump()


@pytest.mark.anyio
async def test_the_strategy_uses_what_the_router_read():
    class Reader(Router):
        async def route(self, request, backends, strategies=None, **prompts):
            parse = Parse.of(request)
            parse.__dict__["split"] = Split("Name the colour", items=("sky", "grass", "blood"), marks="bulleted")
            return (await super().route(request, backends, strategies, **prompts)).with_parse(parse)

    asked = []

    def reply(prompt):
        asked.append(prompt.messages[-1].content)
        return "Done."

    async with AsyncStretto(ScriptedBackend(reply), router=Reader()) as stretto:
        await stretto.ask(ITEMS, strategy="items")
    assert len(asked) == 3
    assert [any(item in text for text in asked) for item in ("sky", "grass", "blood")] == [True] * 3


def test_a_follow_up_is_read_with_the_question_before():
    turns = ("Give me 5 tips for dogs, in bullet points.", "Walk them.", "And for cats?")
    request = Request.of(
        [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]
    )
    parse = Parse.of(request)
    assert (parse.points.asked, parse.form) == (5, "bulleted")
