import anyio
import pytest
from patience import patience

from stretto import AsyncStretto
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio
QUESTION = "How do I look after a bicycle?"
OUTLINE = "1. Clean it\n2. Oil it\n3. Store it dry"
TEN = "\n".join(f"{number}. Thing number {number}" for number in range(1, 11))


def words(point):
    """Two hundred words of a token each that no other point has."""
    return "".join(f"{'abcdefghijk'[point]}{number:02x} " for number in range(200))


POINTS = {rf"text of point {number}\b": words(number) for number in range(1, 11)}
SCRIPT = {"Write only the outline": OUTLINE, **POINTS, "": words(0)}


async def ask(question=QUESTION, script=SCRIPT, **options):
    async with AsyncStretto(ScriptedBackend(script)) as stretto:
        return await stretto.ask(question, **options)


async def test_a_limit_that_points_would_pass_is_kept_by_a_straight_answer():
    answer = await ask(max_tokens=200)
    assert answer.strategy == "direct"
    assert answer.usage.completion_tokens <= 200


def written(answer):
    """Tokens of the text of an answer, without the outline."""
    told = [branch.usage for branch in answer.branches if branch.kind not in ("outline", "plan")]
    return sum(usage.completion_tokens - usage.discarded_tokens for usage in told)


@pytest.mark.parametrize("limit", [7, 60, 100, 333])
@pytest.mark.parametrize("options", [{}, {"preference": "careful"}])
async def test_a_limit_bounds_all_points_together(limit, options):
    answer = await ask(strategy="skeleton", strategy_options={"form": "points"}, max_tokens=limit, **options)
    assert 0 < written(answer) <= limit
    assert answer.finish_reason == "length"
    assert [(w.code, f"max_tokens={limit}." in w) for w in answer.warnings] == [("part_cut", True)]


async def test_a_limit_that_points_do_not_reach_leaves_them_whole_and_side_by_side():
    all_there = anyio.Event()

    def script(prompt):
        if "Write only the outline" in prompt.messages[-1].content:
            return OUTLINE
        if len(backend.calls) == 4:
            all_there.set()
        return Reply("A point of a few words.", hold=all_there)

    backend = ScriptedBackend(script)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton", strategy_options={"form": "points"}, max_tokens=1000)
    assert (answer.finish_reason, len(backend.calls)) == ("stop", 4)


async def test_a_short_point_leaves_its_room_to_a_long_one():
    script = {"Write only the outline": TEN, r"text of point 10\b": words(10), "": "Short."}
    answer = await ask(script=script, strategy="skeleton", strategy_options={"form": "points"}, max_tokens=160)
    last = answer.branches[-1]
    assert (last.id, last.usage.completion_tokens) == ("point-10", 160 // 6)
    assert answer.text.count("Short.") == 9


async def test_all_parts_that_wait_for_room_get_it():
    begun = anyio.Event()

    def script(prompt):
        if "Write only the outline" in prompt.messages[-1].content:
            return TEN
        if len(backend.calls) == 7:  # six points hold all the room, and four wait for it
            begun.set()
        return Reply("Short.", hold=begun)

    backend = ScriptedBackend(script)
    with anyio.fail_after(patience(60)):
        async with AsyncStretto(backend) as stretto:
            answer = await stretto.ask(
                QUESTION, strategy="skeleton", strategy_options={"form": "points"}, max_tokens=160
            )
    assert (answer.text.count("Short."), answer.finish_reason) == (10, "stop")


async def test_a_part_for_which_nothing_is_left_is_named_and_not_asked_for():
    backend = ScriptedBackend({"Write only the outline": TEN, **POINTS, "": words(0)})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton", strategy_options={"form": "points"}, max_tokens=64)
    assert written(answer) <= 64
    assert len(backend.calls) < 11
    assert ("part_missing", "point-10") in [(warning.code, warning.part) for warning in answer.warnings]
    assert (answer.finish_reason, answer.branches[-1].finish_reason) == ("length", "length")


@pytest.mark.parametrize("question", ["Translate into German:\n- cat\n- dog\n- cow", "Write 6 haiku about rain."])
async def test_a_limit_bounds_all_items_together(question):
    answer = await ask(question, strategy="items", max_tokens=50)
    assert 0 < written(answer) <= 50
    assert answer.finish_reason == "length"


async def test_each_of_several_choices_has_the_whole_limit():
    answer = await ask(n=3, max_tokens=20)
    assert [choice.finish_reason for choice in answer.choices] == ["length"] * 3
    assert 40 < answer.usage.completion_tokens <= 60


async def test_the_limit_of_a_part_holds_for_each_point():
    answer = await ask(strategy="skeleton", strategy_options={"form": "points"}, part_tokens=20)
    points = [branch for branch in answer.branches if branch.kind == "section"]
    assert [branch.usage.completion_tokens for branch in points] == [20] * 3
    assert "part_cut" in [warning.code for warning in answer.warnings]


async def test_the_limit_of_a_part_leaves_an_answer_in_one_piece_alone():
    assert (await ask(strategy="direct", part_tokens=20)).finish_reason == "stop"


@pytest.mark.parametrize(
    ("question", "strategy"),
    [(QUESTION, "skeleton"), ("Translate into German:\n- cat\n- dog\n- cow", "items")],
)
async def test_stop_texts_that_parts_are_not_given_are_told(question, strategy):
    script = {"You plan the answer": "Opening: Clean it.\nSections: Oil | Air\n1. a\n2. b", **SCRIPT}
    answer = await ask(question, script, strategy=strategy, stop="END")
    assert answer.strategy == strategy
    assert [warning.code for warning in answer.warnings] == ["option"]


async def test_parts_that_were_cut_in_the_same_way_share_a_warning():
    backend = ScriptedBackend({"": words(0)})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Translate into German:\n- cat\n- dog\n- cow", strategy="items", part_tokens=5)
    assert answer.warnings == ("'cat', 'dog' and 'cow' were cut at part_tokens=5. Allow more.",)


async def test_points_that_were_cut_are_named_in_one_warning():
    answer = await ask(strategy="skeleton", strategy_options={"form": "points"}, part_tokens=20)
    (warning,) = answer.warnings
    assert (warning.code, warning.part) == ("part_cut", None)
    assert all(f"Point {number}, " in warning for number in (1, 2, 3))


async def test_the_route_says_that_a_low_limit_rules_out_parts():
    answer = await ask(max_tokens=200)
    assert (answer.route.strategy, answer.route.code) == ("direct", "budget")
