"""Answers in points by SmolLM2 behind llama.cpp's own server: no words of our prompts, nothing twice, or straight."""

import pytest

from stretto.backends.providers.servers import LlamaCpp
from stretto.prompts import Catalogue
from stretto.strategies.harm.phrases import Phrases
from stretto.strategies.harm.titles import is_placeholder, says_the_same
from stretto.strategies.harm.words import words_of

pytestmark = pytest.mark.anyio

BY_POINTS = [
    "What are the advantages of working from home?",
    "What are the main causes of traffic jams in cities?",
    "How can I reduce food waste at home?",
    "What should I think of before buying a used car?",
]
QUESTIONS = ["What are the advantages of working from home?", "Wie pflege ich ein Fahrrad?"]


async def test_the_server_tells_the_size_and_so_the_prompts(llamacpp):
    backend = LlamaCpp("smollm2", base_url=llamacpp.base_url)
    await backend.ask_server(60.0)
    family = backend.capabilities.prompt_family
    await backend.aclose()
    assert family == "small"


@pytest.mark.parametrize("temperature", [0, 0.7])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_points_hold_no_placeholder_and_no_line_of_a_prompt(llamacpp, question, temperature):
    sent = Phrases(text for template in Catalogue() for text in template.wordings)
    async with llamacpp.client() as stretto:
        answer = await stretto.ask(question, strategy="skeleton", max_tokens=400, temperature=temperature, seed=1)
    titles = [branch.title for branch in answer.branches if branch.kind == "point"]
    assert not any(is_placeholder(words_of(title)) for title in titles)
    assert not any(says_the_same(title, other) for title in titles for other in titles if title is not other)
    assert not sent.hold(words_of(answer.text))
    assert answer.strategy == "skeleton" or "in one piece instead of by points" in answer.warnings[0]


async def test_questions_that_ask_for_points_are_answered_by_points(llamacpp):
    async with llamacpp.client() as stretto:
        answers = [await stretto.ask(question, max_tokens=800, temperature=0) for question in BY_POINTS]
    by_points = [answer for answer in answers if answer.strategy == "skeleton"]
    assert len(by_points) >= 3, [(answer.route.reason, answer.warnings) for answer in answers]
    for answer in by_points:
        titles = [branch.title for branch in answer.branches if branch.kind == "point"]
        assert sum(f"**{title}**: " in answer.text for title in titles) >= 2
