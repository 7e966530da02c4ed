"""The pocket model and its adapter for prompts longer than the window, as a user meets them."""

import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from recipes.pocket.source import held_out_source
from stretto import ContextOverflowError, Stretto
from stretto.local import LocalBackend
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE
from stretto.local_engine.pocket import pocket_folder

WINDOW = 2_048
PEOPLE = ("Anna", "Berta", "Olga")


def prompt_about(name):
    """Source code that fills several windows, with the code of every person in it, and a question for one of them."""
    text = "\n\n".join(held_out_source().values())[:30_000]
    chance = random.Random(11)  # noqa: S311 - the same places each time
    codes = {each: str(chance.randrange(10_000, 100_000)) for each in PEOPLE}
    for each, code in codes.items():
        end = text.find("\n", chance.randrange(len(text))) + 1
        text = f"{text[:end]}The code of {each} is {code}.\n{text[end:]}"
    return f"{text}\n\nWhat is the code of {name}?", codes[name]


@pytest.fixture(scope="module")
def stretto():
    with Stretto("local:pocket") as opened:
        yield opened


@pytest.mark.thorough
@pytest.mark.parametrize("name", PEOPLE)
def test_a_code_in_a_prompt_of_several_windows_is_found(name, stretto):
    prompt, code = prompt_about(name)
    answer = stretto.ask(prompt)
    assert code in answer.text
    assert answer.usage.prompt_tokens > 3 * WINDOW
    assert answer.route.strategy == "direct"
    assert answer.route.code == "window"


@pytest.mark.thorough
def test_such_a_prompt_is_refused_where_that_is_asked_for():
    prompt, _ = prompt_about("Anna")
    with Stretto(LocalBackend("local:pocket", long_context=None)) as stretto, pytest.raises(ContextOverflowError):
        stretto.ask(prompt)


def test_the_model_stays_small_with_all_its_adapters():
    sizes = {file.name: file.stat().st_size for file in pocket_folder().iterdir()}
    assert sizes[FOCUS_FILE] < 1e6
    assert sum(sizes.values()) < 25e6
