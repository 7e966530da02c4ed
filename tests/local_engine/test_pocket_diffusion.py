"""The pocket model that writes blocks at once, as it is published."""

import pytest

pytest.importorskip("torch")

from recipes.pocket.corpus import topics
from recipes.pocket.evaluate import text_present
from stretto import Stretto

pytestmark = pytest.mark.thorough


def test_it_knows_its_topics_and_writes_several_tokens_a_forward():
    held, forwards, tokens = [], 0, 0
    with Stretto("local:pocket-diffusion") as stretto:
        for topic in topics()[:8]:
            answer = stretto.ask(topic.questions[0], strategy="direct", temperature=0.0, max_tokens=640)
            held += [text_present(point.text, answer.text) for point in topic.points]
            forwards, tokens = forwards + answer.decoding.steps, tokens + answer.decoding.tokens
    assert sum(held) >= 0.9 * len(held)
    assert tokens / forwards >= 2.5
