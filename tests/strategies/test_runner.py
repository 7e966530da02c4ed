"""What a call costs that failed before it could tell, and what a backend has to say beside its text."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from stretto import AsyncStretto, Budget
from stretto.backends.base import Capabilities, Chunk
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, StreamBrokenError

pytestmark = pytest.mark.anyio


@dataclass
class Broken:
    """A backend of a caller's own: the first calls break off after some text, and report no usage."""

    failures: int
    error: Exception
    name: str = "own:model"
    capabilities: Capabilities = field(default_factory=Capabilities)
    calls: list = field(default_factory=list)

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        self.calls.append(prompt)

        async def chunks():
            yield Chunk("Twelve chars" if len(self.calls) == 1 else " and more.")
            if len(self.calls) <= self.failures:
                raise self.error
            usage = Usage(prompt_tokens=20, completion_tokens=3, calls=1)
            yield Chunk(usage=usage, finish_reason="stop", warnings=("A drafter failed.",))

        yield chunks()

    async def count_tokens(self, prompt):  # noqa: ARG002 - as above
        return 10

    async def aclose(self):
        pass


async def test_a_call_that_failed_without_a_word_of_its_usage_is_estimated_beside_that_of_the_second():
    backend = Broken(1, BackendError("It broke.", backend="own:model"))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", budget=Budget(max_tokens_total=1000))
    assert answer.text == "Twelve chars and more."
    assert answer.usage == Usage(prompt_tokens=10 + 20, completion_tokens=3 + 3, calls=2)


async def test_it_counts_towards_the_budget_before_the_second_is_sent():
    backend = Broken(1, BackendError("It broke.", backend="own:model"))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", budget=Budget(max_calls=1))
    assert (len(backend.calls), answer.usage.calls, answer.finish_reason) == (1, 1, "error")


async def test_what_a_backend_has_to_say_is_a_warning_of_the_answer_once():
    async with AsyncStretto(Broken(0, ValueError())) as stretto:
        answer = await stretto.ask("Give the plural of each word: cat, child, mouse", strategy="items")
    assert answer.usage.calls == 3
    assert answer.warnings.count("A drafter failed.") == 1


class Unfinished(Broken):
    """It ends its first streams without a finish reason."""

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        self.calls.append(prompt)

        async def chunks():
            yield Chunk("Twelve chars" if len(self.calls) == 1 else " and more.")
            yield Chunk(
                usage=Usage(prompt_tokens=5, completion_tokens=3, calls=1),
                finish_reason=None if len(self.calls) <= self.failures else "stop",
            )

        yield chunks()


async def test_a_stream_without_a_finish_reason_was_broken_off_and_is_continued():
    backend = Unfinished(1, ValueError())
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    assert (answer.text, answer.finish_reason) == ("Twelve chars and more.", "stop")
    assert answer.usage.calls == 2


async def test_an_answer_that_stays_without_a_finish_reason_says_so():
    async with AsyncStretto(Unfinished(2, ValueError())) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    assert answer.finish_reason == "error"
    assert "without a finish reason" in answer.branches[0].error


@dataclass
class Odd:
    """A backend of a caller's own whose chunks for one point are not what their types say."""

    odd: dict
    name: str = "own:model"
    capabilities: Capabilities = field(default_factory=Capabilities)

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        words = prompt.messages[-1].content

        async def chunks():
            if "Write only the outline" in words:
                yield Chunk("1. Tyres\n2. Chain\n3. Brakes")
            else:
                yield Chunk("Some text.")
            if "text of point 2," in words or "<received>" in words:
                yield Chunk(**self.odd)
            yield Chunk(usage=Usage(calls=1), finish_reason="stop")

        yield chunks()

    async def count_tokens(self, prompt):  # noqa: ARG002 - as above
        return 10

    async def aclose(self):
        pass


@pytest.mark.parametrize(
    "odd",
    [
        {"text": ["a"]},
        {"text": 5},
        {"text": b"a"},
        {"usage": 5},
        {"usage": {"calls": 1}},
        {"decoding": "fast"},
        {"logprobs": ({"token": "a"},)},
        {"logprobs": 5},
        {"warnings": (5,)},
        {"warnings": 5},
        {"finish_reason": "end_turn"},
        {"finish_reason": ["stop"]},
    ],
    ids=repr,
)
async def test_a_chunk_that_is_not_what_its_types_say_is_an_error_of_its_branch_only(odd):
    async with AsyncStretto(Odd(odd)) as stretto:
        answer = await stretto.ask(
            "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
        )
    failed = {branch.id: branch.error for branch in answer.branches if branch.status == "failed"}
    assert list(failed) == ["point-2"]
    assert f"own:model yielded a chunk whose {next(iter(odd))}" in failed["point-2"]
    assert answer.text.count("Some text.") == 3  # what was asked to go on with it repeats it
    answer.model_dump_json()


async def test_half_a_character_from_a_backend_of_the_callers_own_can_be_exported():
    async with AsyncStretto(Odd({"text": " \ud83d"})) as stretto:
        answer = await stretto.ask(
            "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
        )
    assert "\ufffd" in answer.model_dump_json()


class BreakingOff(Broken):
    """It breaks off every stream behind its text; all that is known is that there was a call."""

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        async def chunks():
            yield Chunk("some words " * 40)
            error = StreamBrokenError("It broke off.")
            error.usage = Usage(calls=1)
            raise error

        yield chunks()


async def test_a_stream_that_broke_off_is_charged_by_what_was_sent_and_received():
    async with AsyncStretto(BreakingOff(0, ValueError())) as stretto:
        answer = await stretto.ask("Why? " * 40, strategy="direct")
    assert answer.usage.calls == 2
    assert answer.usage.completion_tokens == 2 * 110
    assert answer.usage.prompt_tokens >= 2 * 50
