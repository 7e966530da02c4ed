"""Calls with a long common beginning: one goes ahead, the others follow at its first text."""

import json

import anyio
import pytest
from pydantic import BaseModel, Field
from streaming import text_of

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

NOTES = "Notes on bicycles and their history, by someone who rode them. " * 400  # about 7,000 tokens
CACHES = Capabilities(json_schema=True, prompt_cache_minimum=1_024)


class Article(BaseModel):
    opening: str = Field(description="Two paragraphs")
    history: str = Field(description="Two paragraphs")
    outlook: str = Field(description="Two paragraphs")


class Reporting:
    """A backend that answers once it is let, and notes how many calls had come by then."""

    def __init__(self, capabilities=CACHES, words="Fill in only the field"):
        self.let = anyio.Event()
        self.waiting = []
        self.words = words
        self.backend = ScriptedBackend(self.reply, capabilities=capabilities)

    def reply(self, prompt):
        if self.words not in text_of(prompt):
            return "1. Tyres\n2. Chain\n3. Brakes"
        self.waiting.append(prompt)
        fields = (prompt.response_schema or {}).get("properties", {})
        text = json.dumps(dict.fromkeys(fields, "Said at length.")) if fields else "42"
        text = '{"changes": []}' if "changes" in fields else text
        return Reply(text, hold=self.let)

    async def ask(self, question, **options):
        """The calls that had come before the first was answered, and the answer."""
        async with AsyncStretto(self.backend) as stretto, anyio.create_task_group() as tasks:
            found = []

            async def asking():
                found.append(await stretto.ask(question, **options))

            tasks.start_soon(asking)
            while not self.waiting:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            before = len(self.waiting)
            self.let.set()
        return before, found[0]


ASKED = {
    "fields": (f"{NOTES}\nWrite an article.", {"response_format": Article, "strategy": "fields"}, "Fill in only", 3),
    "consensus": (f"{NOTES}\nHow many?", {"strategy": "consensus", "strategy_options": {"samples": 3}}, "How many", 3),
    "items": (
        "Translate each word into German: cat, child, mouse",
        {"strategy": "items", "system": NOTES},
        "<entry>",
        3,
    ),
    "rewrite": (
        "Correct the spelling of this text:\n\n" + "\n\n".join(["The brakes of a bicycle wear out. " * 60] * 3),
        {"strategy": "rewrite", "system": NOTES},
        'stands below "piece"',
        3,
    ),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("preference", ["balanced", "careful", "fastest"])
async def test_the_first_call_goes_ahead_unless_time_is_all_that_counts(name, preference):
    question, options, words, calls = ASKED[name]
    reporting = Reporting(words=words)
    before, answer = await reporting.ask(question, preference=preference, **options)
    assert before == (calls if preference == "fastest" else 1)
    assert len(reporting.waiting) == calls
    assert answer.strategy == name
    assert len({prompt.prefix for prompt in reporting.waiting}) == 1


async def test_the_points_of_an_outline_follow_the_call_that_wrote_it():
    asked = {"strategy": "skeleton", "system": NOTES, "strategy_options": {"form": "points"}}
    reporting = Reporting(words="Write the text of point")
    before, _ = await reporting.ask("How do I look after a bicycle?", **asked)
    assert before == len(reporting.waiting) == 3
    (prefix,) = {prompt.prefix for prompt, _ in reporting.backend.calls}
    assert NOTES.strip() in prefix


@pytest.mark.parametrize("capabilities", [Capabilities(json_schema=True), CACHES])
async def test_without_a_cache_or_with_a_short_beginning_nobody_waits(capabilities):
    long = NOTES if capabilities is not CACHES else ""
    before, _ = await Reporting(capabilities).ask(f"{long}\nWrite.", response_format=Article, strategy="fields")
    assert before == 3


async def test_a_first_call_that_fails_holds_up_nobody():
    def reply(prompt):
        return (
            Reply("", finish_reason="refusal")
            if "field `opening`" in text_of(prompt)
            else '{"history": "H", "outlook": "O"}'
        )

    backend = ScriptedBackend(reply, capabilities=CACHES)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(f"{NOTES}\nWrite.", response_format=Article, strategy="fields")
    assert json.loads(answer.text)["history"] == "H"


async def test_the_forecast_counts_what_comes_from_the_cache():
    backend = ScriptedBackend({}, name="openai:gpt-5-mini", capabilities=CACHES)
    plain = ScriptedBackend({}, name="openai:gpt-5-mini", capabilities=Capabilities(json_schema=True))
    asked = {"response_format": Article, "strategy": "fields"}
    async with AsyncStretto(backend) as caching, AsyncStretto(plain) as other:
        cached = (await caching.route(f"{NOTES}\nWrite.", **asked)).forecast["fields"]
        full = (await other.route(f"{NOTES}\nWrite.", **asked)).forecast["fields"]
        fastest = (await caching.route(f"{NOTES}\nWrite.", preference="fastest", **asked)).forecast["fields"]
    assert cached.cached > 12_000
    assert (full.cached, fastest.cached) == (0, 0)
    assert cached.seconds > full.seconds
    assert (cached.cost is None) or cached.cost < full.cost


@pytest.mark.parametrize("name", ["rewrite", "items"])
async def test_the_forecast_of_calls_that_read_a_part_each_counts_what_all_begin_with(name):
    question, options, _, _ = ASKED[name]
    backend = ScriptedBackend({}, name="openai:gpt-5-mini", capabilities=CACHES)
    async with AsyncStretto(backend) as stretto:
        waits = (await stretto.route(question, **options)).forecast[name]
        at_once = (await stretto.route(question, preference="fastest", **options)).forecast[name]
        short = (await stretto.route(question, **{**options, "system": ""})).forecast[name]
    before = len(NOTES) // 4
    assert waits.calls == at_once.calls == short.calls > 1
    assert (waits.cached, at_once.cached, short.cached) == ((waits.calls - 1) * before, 0, 0)
    assert waits.tokens == at_once.tokens == short.tokens + waits.calls * before
    assert waits.seconds > at_once.seconds
