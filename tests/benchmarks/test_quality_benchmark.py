"""The tasks of the quality benchmark, and what it makes of their scores."""

import random

import pytest
from quality import Row, most_kept, summaries
from quality_tasks import KINDS, MOST, by_line, tasks


@pytest.mark.parametrize("kind", KINDS)
def test_every_size_can_be_made_and_an_empty_answer_scores_nothing(kind):
    for size in (2, 8, MOST):
        task = KINDS[kind](kind, size, 0, random.Random(1))  # noqa: S311 - a seeded generator
        assert task.score("") == 0.0
        assert task.score("I cannot do that.") <= 1 / size
        assert task.strategies


def test_the_same_seed_makes_the_same_tasks():
    assert [task.prompt for task in tasks([2, 4], 2)] == [task.prompt for task in tasks([2, 4], 2)]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("1. blue\n2. a very old house", 1.0),
        ("Here they are:\n- Blue\n- A very old house.", 1.0),
        ("blueish\na very old house", 0.5),
        ("a very old house\nblue", 0.0),
        ("blue", 0.5),
    ],
)
def test_a_line_counts_where_it_stands(text, score):
    assert by_line(["blue", "a very old house"])(text) == score


def test_right_answers_score_fully():
    for task in tasks([4], 3):
        if task.kind == "names in a story":
            baker, dog = (
                word
                for word in task.prompt.replace(".", "").split()
                if word[0].isupper() and len(word) > 2 and word not in ("Write", "Use")
            )
            assert task.score("\n\n".join([f"{baker} and {dog}."] * 4)) == 1.0
        elif task.kind == "list without repetition":
            assert task.score("1. one\n2. two\n3. three\n4. four") == 1.0
            assert task.score("1. one\n2. One\n3. one.\n4. two") == 0.5
        elif task.kind == "arithmetic":
            sums = [line.partition(". ")[2] for line in task.prompt.splitlines()[1:]]
            assert task.score("\n".join(f"{each} = {sum(map(int, each.split(' + ')))}" for each in sums)) == 1.0


def row(asked, size, score):
    return Row("copy", size, 0, asked, asked, score, 1.0, 1, 10, 2.0)


def test_the_most_parts_end_at_the_first_size_that_loses():
    scores = {2: 1.0, 4: 0.92, 8: 1.0}
    rows = [row("direct", size, 1.0) for size in scores] + [row("items", size, score) for size, score in scores.items()]
    found = summaries(rows, by_kind=False)
    assert [each.straight for each in found] == [1.0, 1.0, 1.0]
    assert most_kept(found, "items", 0.9) == 8
    assert most_kept(found, "items", 0.95) == 2
    assert most_kept(summaries([row("direct", 2, 0.0), row("items", 2, 0.0)], by_kind=False), "items", 0.9) is None
