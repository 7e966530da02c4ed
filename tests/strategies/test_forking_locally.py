"""Forks on the local engine, by the pocket model that learned the tags."""

import pytest

pytest.importorskip("torch")

from recipes.pocket.corpus import topics
from recipes.pocket.evaluate import text_present
from stretto import AsyncStretto

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


async def test_the_model_forks_its_answer_and_the_engine_reads_what_the_paths_share_once():
    topic = topics()[0]
    async with AsyncStretto("local:pocket-forking") as stretto:
        answer = await stretto.ask(topic.questions[0], strategy="forking", temperature=0.0)
    paths = [branch for branch in answer.branches if branch.kind == "section"]
    assert [path.heading for path in paths] == [point.title for point in topic.points]
    assert all(text_present(point.text, path.text) for point, path in zip(topic.points, paths, strict=True))
    assert answer.text.startswith(topic.opening)
    assert answer.text.endswith(topic.closing)
    assert "<" not in answer.text
    assert answer.warnings == ()
    assert all(path.usage.cached_tokens > 0.8 * path.usage.prompt_tokens for path in paths)
    joined = answer.branches[-1].usage  # what stands before the fork, and the first path; the others are read again
    assert paths[0].usage.cached_tokens < joined.cached_tokens < joined.prompt_tokens


async def test_paths_placed_behind_each_other_are_not_read_again_and_end_as_before():
    topic = topics()[0]
    async with AsyncStretto("local:pocket-forking") as stretto:
        answer = await stretto.ask(
            topic.questions[0], strategy="forking", temperature=0.0, strategy_options={"join": "behind"}
        )
    joined = answer.branches[-1].usage
    assert answer.text.endswith(topic.closing)
    assert joined.cached_tokens > 0.95 * joined.prompt_tokens


async def test_asked_as_before_it_answers_as_before():
    topic = topics()[0]
    async with AsyncStretto("local:pocket-forking") as stretto:
        answer = await stretto.ask(topic.questions[0], strategy="direct", temperature=0.0)
    assert "<" not in answer.text
    assert all(text_present(point.text, answer.text) for point in topic.points)
