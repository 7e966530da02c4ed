"""With a seed, or at temperature 0, how long the calls take does not change the text."""

import itertools

import pytest

from stretto import Stretto
from stretto.extending import ModelRequest
from stretto.testing import Reply, ScriptedBackend

QUESTION = "How do I look after a bicycle?"
SAME = "Look at it once a week and keep it clean at all times of the year. "
SLOW_S = 0.03
OUTLINE = "1. Tyres and air\n2. The chain\n3. The brakes\n4. The lights"


@pytest.mark.parametrize("slow", range(5))
def test_a_slow_sample_does_not_change_the_vote(slow):
    said = [
        "The answer is 7, I think.",
        "The answer is 9.",
        "It is 7: the answer is 7.",
        "The answer is 9!",
        "Answer: 7",
    ]

    def reply(prompt: ModelRequest) -> Reply:
        place = next(counter)
        return Reply(said[place], chunk_delay_s=SLOW_S * (place == slow))

    counter = itertools.count()
    options = {"strategy": "consensus", "strategy_options": {"samples": 5}}
    with Stretto(ScriptedBackend({"": reply})) as stretto:
        answer = stretto.ask("What is 3 + 4?", seed=1, **options)
    assert answer.text == said[0]
    assert list(answer.agreement.votes) == ["7", "9"]
