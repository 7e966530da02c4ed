"""A model that writes parallel tags, behind llama.cpp's own server: its paths begin with what the server has read."""

import pytest

from stretto.events import BranchStarted
from stretto.request import Message

pytestmark = pytest.mark.anyio

EXAMPLE = """Tea needs three things.

<Parallel>
<Goal>
<Outline>
1: Leaves
</Outline>
<Outline>
2: Water
</Outline>
<Outline>
3: Time
</Outline>
</Goal>
<Path>
1: Take a spoon of leaves for each cup.
</Path>
<Path>
2: Boil fresh water and pour it over the leaves.
</Path>
<Path>
3: Wait for three minutes.
</Path>
<Conclusion>
Then it is ready.
</Conclusion>
</Parallel>"""
ASKED = (
    Message(role="user", content="How do I make tea?"),
    Message(role="assistant", content=EXAMPLE),
    Message(role="user", content="How do I make coffee?"),
)
OPTIONS = {"strategy": "forking", "max_tokens": 600, "temperature": 0}


async def test_the_paths_of_a_model_are_written_side_by_side_and_the_answer_goes_on_behind_them(llamacpp):
    async with llamacpp.client() as stretto:
        answer = await stretto.ask(ASKED, **OPTIONS)
    paths = [branch for branch in answer.branches if branch.kind == "point"]
    assert len(paths) >= 2
    assert max(path.span.started_s for path in paths) < min(path.span.ended_s for path in paths)
    assert max(path.usage.cached_tokens for path in paths) > paths[0].usage.prompt_tokens / 2
    behind = answer.branches[-1]
    assert behind.kind == "direct"
    assert behind.usage.cached_tokens > behind.usage.prompt_tokens / 2
    assert "<" not in answer.text


async def test_leaving_a_fork_frees_the_slots_of_all_paths(llamacpp):
    paths = 0
    async with llamacpp.client() as stretto:
        async with stretto.stream(ASKED, **OPTIONS) as events:
            async for event in events:
                paths += isinstance(event, BranchStarted) and event.kind == "point"
                if paths == 2:
                    break
        while llamacpp.busy_slots():
            pass  # bounded by the test's own time limit
    assert paths == 2
