"""The texts from which a model learns to fork and join."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tokenizers import Tokenizer

from recipes.forking.lessons import Forks, conclusion, forked, goal, path
from recipes.pocket.corpus import Topic, topics
from stretto.local_engine.pocket import pocket_folder
from stretto.strategies.research.forking.fork_reading import fork_in, forms

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def topic() -> Topic:
    return topics()[0]


def test_the_lessons_have_the_tags_that_are_read(topic: Topic):
    tags = forms()["multiverse"]
    before = goal(topic)
    assert before.endswith(tags.forks)
    fork = fork_in(before.removesuffix(tags.forks), [tags], tags.forks, 16)
    assert fork is not None
    assert [each.title for each in fork.paths] == [point.title for point in topic.points]
    begun, text = path(topic, 1)
    assert (begun, text[-len(tags.path_ends) :]) == (tags.path.format(number=2, title=""), tags.path_ends)
    assert conclusion(topic)[0] == tags.joins
    assert forked(topic).startswith(before)


def test_each_piece_is_learned_behind_what_stands_before_it(topic: Topic):
    held_out = Forks(pocket_folder(), 4, 1024, 1, topics=1).held_out(1)
    tokenizer = Tokenizer.from_file(str(pocket_folder() / "tokenizer.json"))
    learned = set()
    for batch in held_out:
        for tokens, texts, weights in zip(batch["tokens"], batch["texts"], batch["weights"], strict=True):
            for text in range(texts.max() + 1):
                learned.add(tokenizer.decode(tokens[(texts == text) & (weights > 0)].tolist()))
    assert goal(topic) in learned
    assert conclusion(topic)[1] in learned
    assert any(path(topic, at)[1] in learned for at in range(len(topic.points)))
