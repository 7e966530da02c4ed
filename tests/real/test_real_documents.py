"""SmolLM2-135M reads documents behind llama.cpp's server. ``-s`` prints what it found."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stretto import AsyncStretto
from stretto.backends.providers.servers import LlamaCpp

sys.path.insert(0, str(Path(__file__).parents[1] / "document"))
from test_small_models import FIVE, prose

pytestmark = pytest.mark.anyio
SAYS_NOTHING = {"The documents do not tell it.", "No sentence of the documents holds the words of the question."}
NOT_THERE = ["What is the code of Anna?", "Which ship sank near the coast?", "When was the concert of the violinist?"]


class Small:
    """A backend as it is, with the prompts for small models."""

    def __init__(self, inner):
        self.name, self.stream, self.count_tokens = inner.name, inner.stream, inner.count_tokens
        self.capabilities, self.aclose = replace(inner.capabilities, prompt_family="small"), inner.aclose


async def test_facts_are_found_and_none_is_invented(llamacpp):
    backend = LlamaCpp("smollm2", base_url=llamacpp.base_url)
    await backend.ask_server(60.0)
    document = prose()
    async with AsyncStretto(Small(backend)) as stretto:
        answers = {
            question: await stretto.ask(question, documents=[document], temperature=0)
            for question in [*FIVE, *NOT_THERE]
        }
    await backend.aclose()
    found = [question for question, fact in FIVE.items() if fact in answers[question].text]
    silent = [question for question, answer in answers.items() if answer.text in SAYS_NOTHING]
    told = {question: answer.text for question, answer in answers.items()}
    print(f"found {len(found)} of {len(FIVE)}; nothing said of {len(silent)} of {len(answers)}", told)
    assert len(found) >= 3, told
    assert sorted([*found, *silent]) == sorted(answers), told
    assert set(NOT_THERE) <= set(silent), told
    assert all(answers[question].finish_reason == "nothing_found" for question in silent)
