"""A model that people use, Qwen2.5-Coder-1.5B in Q4_K_M, in the engine and behind llama.cpp's server. ``-s`` prints.

The tasks and their judges are those of ``benchmarks/uses.py``. Every answer is greedy; what is asked for is what the
model did in both places with some room, since two programs round differently.
"""

import json
import re
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest
from conftest import running
from pydantic import BaseModel

from stretto import AsyncStretto, Document
from stretto.local import LocalBackend

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from uses_tasks import (
    ANSWERED,
    EDITS,
    LABELLING,
    LABELS,
    LEASE,
    MAILS,
    RECORDING,
    REVIEWS,
    UNANSWERED,
    edit,
    is_edited,
    is_right,
    labels_in,
    records_in,
)

pytestmark = [pytest.mark.anyio, pytest.mark.large]

GREEDY = {"temperature": 0.0, "max_tokens": 900}
PLACE = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PLACE}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time of day.", "parameters": PLACE}}
SYMPTOMS = "The parrot is green. " * 40


class Booking(BaseModel):
    """What six fields of a booking say."""

    guest: str
    town: str
    nights: int
    room: Literal["single", "double"]
    breakfast: bool
    wishes: list[str]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module", params=["engine", "llamacpp"])
def place(request, large_file):
    """Where the model runs: one at a time, since each takes 1.3 GB."""
    if request.param == "engine":
        backend = LocalBackend(f"local:{large_file}", draft_history_tokens=0)
        yield lambda: AsyncStretto(backend)
        anyio.run(backend.aclose)
        return
    with running(large_file, name="qwen", window=4096) as server:
        server.wait()
        yield lambda: server.client(first_text_s=900)  # its one thread reads 15 tokens a second beside other work


async def test_labels_are_right_more_often_by_items_and_none_is_lost(place):
    async with place() as stretto:
        route = await stretto.route(LABELLING)
        answer = await stretto.ask(LABELLING, **GREEDY)
    said = labels_in(answer.text)
    right = sum(label == expected for label, (_, expected) in zip(said, REVIEWS, strict=True))
    print(f"labels: {right} of {len(REVIEWS)}", answer.text)
    assert route.strategy == answer.strategy == "items"
    assert set(said) <= set(LABELS), answer.text
    assert right >= 24


async def test_every_mail_becomes_its_record(place):
    async with place() as stretto:
        answer = await stretto.ask(RECORDING, strategy="items", **GREEDY)
    records = records_in(answer.text)
    right = [is_right(record, expected) for record, (_, expected) in zip(records, MAILS, strict=True)]
    print("records:", right, answer.text)
    assert json.loads(answer.text) == records
    assert sum(right) >= 9


async def test_a_document_with_hard_line_ends_and_figures_is_quoted_whole(place):
    lease = Document(title="lease", text=LEASE)
    async with place() as stretto:
        answers = {each: await stretto.ask(each, documents=[lease], **GREEDY) for each in (*ANSWERED, *UNANSWERED)}
    told = {question: answer.text for question, answer in answers.items()}
    print("document:", json.dumps(told, indent=1, ensure_ascii=False))
    found = [each for each, fact in ANSWERED.items() if re.search(fact, " ".join(told[each].split()))]
    assert len(found) >= 6, told
    assert all(answers[each].finish_reason == "nothing_found" for each in UNANSWERED), told
    for answer in answers.values():
        for citation in answer.citations:
            before, quoted, behind = (
                LEASE[: citation.start],
                LEASE[citation.start : citation.end],
                LEASE[citation.end :],
            )
            assert not re.match(r"\w|[.,]\d", behind), quoted  # no word and no figure is cut
            assert not re.search(r"\w$", before), quoted
            assert not re.match(r"\d+,", quoted), quoted  # nor a sentence at the end of a line


@pytest.mark.parametrize(
    ("question", "tool", "town"),
    [("What is the weather in Bergen?", "weather", "Bergen"), ("What time is it in Lima?", "clock", "Lima")],
)
async def test_a_call_counts_in_whatever_form_the_model_writes_it(place, question, tool, town):
    async with place() as stretto:
        answer = await stretto.ask(question, tools=[WEATHER, CLOCK], **GREEDY)
    print("tools:", answer.text, answer.tool_calls, answer.warnings)
    assert answer.finish_reason == "tool_calls"
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [(tool, {"place": town})]
    assert not answer.text.strip()


async def test_a_function_is_called_and_its_result_is_told(place):
    asked = []

    def weather(place: str) -> str:
        """The weather of a place."""
        asked.append(place)
        return f"In {place} it snows, at minus 7 degrees."

    async with place() as stretto:
        answer = await stretto.ask("What is the weather in Bergen today?", tools=[weather], **GREEDY)
    print("function:", asked, answer.text)
    assert set(asked) == {"Bergen"}
    assert "7" in answer.text or "snow" in answer.text.casefold()
    assert "arguments" not in answer.text


async def test_a_required_call_fits_its_schema(place):
    async with place() as stretto:
        answer = await stretto.ask("I am in Lima.", tools=[WEATHER, CLOCK], tool_choice="required", **GREEDY)
    [call] = answer.tool_calls
    assert call.name in ("weather", "clock")
    assert json.loads(call.arguments).keys() == {"place"}


async def test_an_answer_has_the_fields_of_its_class(place):
    text = "Ada Lind books a double room in Bergen for 3 nights with breakfast. She wants a cot and a late check-in."
    async with place() as stretto:
        answer = await stretto.ask(f"Read this booking: {text}", response_format=Booking, **GREEDY)
    booking = answer.parsed
    print("schema:", booking, answer.text)
    assert (booking.guest, booking.town, booking.nights) == ("Ada Lind", "Bergen", 3)
    assert (booking.room, booking.breakfast) == ("double", True)


async def test_a_long_prompt_is_read_whole_and_once(place):
    prompt = f"{SYMPTOMS * 6}The number of the locker is 7304. {SYMPTOMS * 2}\n\nWhat is the number of the locker?"
    async with place() as stretto:
        first = await stretto.ask(prompt, strategy="direct", **GREEDY)
        again = await stretto.ask(prompt + " Write the number only.", strategy="direct", **GREEDY)
    assert first.usage.prompt_tokens > 1600
    assert "7304" in first.text
    assert "7304" in again.text
    assert again.usage.cached_tokens > 1500


async def test_eight_at_once_answer_like_one_alone(place):
    sums = {f"What is {each} + {each + 3}? Write the number only.": str(2 * each + 3) for each in range(11, 19)}
    answers = {}

    async def ask(stretto, question):
        answers[question] = await stretto.ask(question, strategy="direct", **GREEDY)

    async with place() as stretto:
        async with anyio.create_task_group() as tasks:
            for question in sums:
                tasks.start_soon(ask, stretto, question)
        alone = await stretto.ask(next(iter(sums)), strategy="direct", **GREEDY)
    told = {question: answer.text for question, answer in answers.items()}
    assert all(result in told[question] for question, result in sums.items()), told
    assert alone.text == told[next(iter(sums))]


async def test_an_answer_that_is_left_leaves_room_for_the_next(place):
    async with place() as stretto:
        for strategy in ("direct", "items"):
            prompt = LABELLING if strategy == "items" else "Write the numbers from 1 to 900, one on each line."
            async with stretto.stream(prompt, strategy=strategy, temperature=0.0) as stream:
                async for _ in stream.text():
                    break
        with anyio.fail_after(300):
            answer = await stretto.ask("What is the capital of Japan?", strategy="direct", **GREEDY)
    assert "Tokyo" in answer.text


async def test_a_file_is_changed_as_it_is_streamed(place):
    task, expected = next(iter(EDITS.items()))
    async with place() as stretto:
        async with stretto.stream(edit(task), **GREEDY) as stream:
            streamed = [text async for text in stream.text()]
        answer = stream.answer
    assert "".join(streamed) == answer.text
    assert is_edited(answer.text, expected), answer.text
