"""A model that writes parallel tags, behind llama.cpp's own server: its paths begin with what the server has read."""

import pytest

from stretto.values.events import BranchStarted
from stretto.values.request import Message

pytestmark = pytest.mark.anyio


def example(dish, *parts):
    """A question, and an answer to it that forks."""
    outline = "".join(f"<Outline>\n{at}: {title}\n</Outline>\n" for at, (title, _) in enumerate(parts, 1))
    paths = "".join(f"<Path>\n{at}: {text}\n</Path>\n" for at, (_, text) in enumerate(parts, 1))
    fork = f"<Parallel>\n<Goal>\n{outline}</Goal>\n{paths}<Conclusion>\nThen it is ready.\n</Conclusion>\n</Parallel>"
    return (
        Message(role="user", content=f"How do I make {dish}?"),
        Message(role="assistant", content=f"{dish.capitalize()} needs {len(parts)} things.\n\n{fork}"),
    )


EXAMPLES = (
    *example(
        "tea",
        ("Leaves", "Take a spoon of leaves for each cup."),
        ("Water", "Boil fresh water and pour it over the leaves."),
        ("Time", "Wait for three minutes."),
    ),
    *example(
        "bread",
        ("Flour", "Take a cup of flour for each loaf."),
        ("Water", "Warm the water and stir it into the flour."),
        ("Heat", "Bake for half an hour."),
    ),
    *example(
        "soup",
        ("Vegetables", "Cut two carrots for each bowl."),
        ("Broth", "Boil the broth and pour it over the vegetables."),
        ("Salt", "Add salt at the end."),
    ),
)
# After the examples the model forks for each of these. A processor that rounds otherwise makes it write another text;
# where that does not fork, the next dish is tried.
DISHES = ("coffee", "jam", "rice", "pasta", "a cake", "a salad")
OPTIONS = {"strategy": "forking", "max_tokens": 600, "temperature": 0}


def asked(dish):
    return (*EXAMPLES, Message(role="user", content=f"How do I make {dish}?"))


def paths_of(answer):
    return [branch for branch in answer.branches if branch.kind == "section"]


async def test_the_paths_of_a_model_are_written_side_by_side_and_the_answer_goes_on_behind_them(llamacpp):
    async with llamacpp.client() as stretto:
        for dish in DISHES:
            answer = await stretto.ask(asked(dish), **OPTIONS)
            if paths := paths_of(answer):
                break
    assert len(paths) >= 2
    assert max(path.span.started_s for path in paths) < min(path.span.ended_s for path in paths)
    assert max(path.usage.cached_tokens for path in paths) > paths[0].usage.prompt_tokens / 2
    assert not any("</Path>" in path.text for path in paths)
    behind = answer.branches[-1]
    assert behind.kind == "direct"
    assert behind.usage.cached_tokens > behind.usage.prompt_tokens / 2


async def test_leaving_a_fork_frees_the_slots_of_all_paths(llamacpp):
    async with llamacpp.client() as stretto:
        for dish in DISHES:
            paths = 0
            async with stretto.stream(asked(dish), **OPTIONS) as events:
                async for event in events:
                    paths += isinstance(event, BranchStarted) and event.kind == "section"
                    if paths == 2:
                        break
            if paths:
                break
        while llamacpp.busy_slots():
            pass  # bounded by the test's own time limit
    assert paths == 2
