import pytest

from stretto import AsyncStretto
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio
QUESTION = "How do I look after a bicycle?"
SCRIPT = {"Write only the outline": "1. Clean it\n2. Oil it\n3. Store it dry", "": "word " * 200}


async def ask(question=QUESTION, **options):
    async with AsyncStretto(ScriptedBackend(SCRIPT)) as stretto:
        return await stretto.ask(question, **options)


async def test_a_limit_that_points_would_pass_is_kept_by_a_straight_answer():
    answer = await ask(max_tokens=200)
    assert answer.strategy == "direct"
    assert answer.usage.completion_tokens <= 200


async def test_a_limit_of_a_skeleton_limits_each_point_and_says_so():
    answer = await ask(strategy="skeleton", max_tokens=20)
    points = [branch for branch in answer.branches if branch.kind == "point"]
    assert max(branch.usage.completion_tokens for branch in points) <= 20
    assert any(warning.startswith("max_tokens=20 limits each part") for warning in answer.warnings)


@pytest.mark.parametrize(
    ("question", "strategy"),
    [(QUESTION, "skeleton"), ("Translate into German:\n- cat\n- dog\n- cow", "items")],
)
async def test_stop_texts_that_parts_are_not_given_are_told(question, strategy):
    answer = await ask(question, strategy=strategy, stop="END")
    assert answer.strategy == strategy
    assert any(warning.startswith("stop was left out") for warning in answer.warnings)
