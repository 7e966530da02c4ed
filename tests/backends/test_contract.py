"""`check_backend`: our backends keep the contract, a backend that breaks a rule is told which one."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from patience import patience
from talking import KEY, asking

from stretto import AsyncStretto, BackendError, Budget, StreamBrokenError, Usage
from stretto.backends.local.backend import LocalBackend
from stretto.backends.providers.anthropic import AnthropicBackend
from stretto.backends.providers.langchain import LangChainBackend
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.resilience.hedge import Hedge
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.backends.resilience.retry import Retry
from stretto.backends.resilience.stall import StallGuard
from stretto.extending import Capabilities, Chunk
from stretto.testing import BrokenContractError, Reply, ScriptedBackend, check_backend
from stretto.testing.server import ScriptedServer
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

LAST = Chunk(usage=Usage(completion_tokens=3, calls=1), finish_reason="stop")


@dataclass
class Own:
    """A user's backend that keeps every rule; the broken ones change one thing."""

    name: str = "own:model"
    capabilities: Capabilities = field(default_factory=Capabilities)
    failure: Exception | None = None

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        async with aclosing(self.chunks()) as chunks:
            yield chunks

    async def chunks(self):
        for word in ("one ", "two ", "three"):
            await anyio.lowlevel.checkpoint()
            yield Chunk(word)
            if self.failure is not None:
                raise self.failure
        yield LAST

    async def count_tokens(self, prompt):
        return len(prompt.messages[0].content) // 4 + 1

    async def aclose(self):
        pass


class Grouped(Own):
    """It holds a task group around its yield, as many SDKs would have it."""

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        async with anyio.create_task_group() as tasks, aclosing(self.chunks()) as chunks:
            tasks.start_soon(anyio.sleep_forever)
            yield chunks
            tasks.cancel_scope.cancel()


class Limited(Own):
    """It holds a deadline around its yield."""

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        with anyio.fail_after(patience(600)):
            async with aclosing(self.chunks()) as chunks:
                yield chunks


# --- our own


async def test_the_scripted_backend_keeps_the_contract():
    failing = ScriptedBackend({"": Reply(fault=BackendError("down"))})
    await check_backend(ScriptedBackend({"": "one two three four"}), failing=failing)


@pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend])
async def test_a_provider_keeps_the_contract(kind):
    async with ScriptedServer("one two three four") as server:
        base_url = server.openai_url if kind is OpenAIBackend else server.url
        failing = kind("some-model", base_url="http://127.0.0.1:9", api_key=KEY)
        await check_backend(kind("some-model", base_url=base_url, api_key=KEY), failing=failing)
        await server.wait_until(lambda server: server.open_connections == 0)


async def test_a_model_of_langchain_keeps_the_contract():
    await check_backend(LangChainBackend(FakeListChatModel(responses=["one two three four"])))


@pytest.mark.thorough
async def test_a_local_model_keeps_the_contract(folder):
    await check_backend(LocalBackend(f"local:{folder}"))


async def test_a_resilient_backend_keeps_the_contract():
    await check_backend(resilient(ScriptedBackend({"": "one two three four"}), Resilience(hedge=True)))


@pytest.mark.parametrize("kind", [Own, Grouped, Limited])
async def test_a_backend_may_hold_a_task_group_or_a_deadline_around_its_yield(kind):
    await check_backend(kind())


# --- what wrappers do with a task group around a yield


@pytest.mark.parametrize("wrap", [Retry, StallGuard, Hedge, resilient])
async def test_under_a_wrapper_an_error_of_such_a_backend_comes_out_as_it_is(wrap):
    backend = wrap(Grouped(failure=StreamBrokenError("It broke.", transient=False)))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", budget=Budget(max_calls=1))
    assert (answer.text, answer.branches[0].error) == ("one ", "It broke.")


async def test_an_error_in_the_readers_code_leaves_a_guarded_stream_as_it_is():
    with pytest.raises(KeyError):
        async with StallGuard(Grouped()).stream(asking(), GenerationOptions()):
            raise KeyError


async def test_leaving_a_guarded_stream_lets_the_backend_close_what_it_holds():
    closed = []

    class Closing(Own):
        @asynccontextmanager
        async def stream(self, prompt, options):  # noqa: ARG002 - as above
            try:
                yield self.forever()
            finally:
                await anyio.lowlevel.checkpoint()  # without a shield: leaving is no cancellation
                closed.append("closed")

        async def forever(self):
            yield Chunk("one")
            await anyio.sleep_forever()

    async with StallGuard(Closing()).stream(asking(), GenerationOptions()) as chunks:
        assert (await anext(chunks)).text == "one"
    assert closed == ["closed"]


# --- a broken backend for each rule


class Nameless(Own):
    def __init__(self):
        super().__init__(name="model")


class LoadsTheWrongWay(Own):
    def load_ahead(self):
        pass


class Wordless(Own):
    async def chunks(self):
        yield LAST


class Strings(Own):
    async def chunks(self):
        yield "one"


class Endless(Own):
    async def chunks(self):
        yield Chunk("one", usage=Usage(calls=1))


class EndsTooSoon(Own):
    async def chunks(self):
        yield Chunk("one", usage=Usage(calls=1), finish_reason="stop")
        yield Chunk("two")


class Uncounted(Own):
    async def chunks(self):
        yield Chunk("one", finish_reason="stop")


class LeftOpen(Own):
    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        yield self.chunks()


class LeavesATask(Own):
    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        self.task = asyncio.create_task(asyncio.Event().wait(), name="forgotten")
        async with aclosing(self.chunks()) as chunks:
            yield chunks


class SwallowsInContext(Own):
    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        try:
            async with aclosing(self.chunks()) as chunks:
                yield chunks
        except asyncio.CancelledError:
            pass


class SwallowsInStream(Own):
    async def chunks(self):
        yield Chunk("one")
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return


class CannotBeCancelled(Own):
    def __init__(self, released):
        super().__init__()
        self.released = released

    async def chunks(self):
        yield Chunk("one")
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


class OneAtATime(Own):
    busy = False

    async def chunks(self):
        if self.busy:
            raise BackendError("busy")
        self.busy = True
        try:
            async for chunk in super().chunks():
                yield chunk
        finally:
            self.busy = False


class NotAtHomeInAnotherTask(Own):
    """Works where it was made, and nowhere else."""

    def __init__(self):
        super().__init__()
        self.home = None

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - as above
        if asyncio.current_task().get_name().startswith("stretto call"):
            raise BackendError("not here")
        async with aclosing(self.chunks()) as chunks:
            yield chunks


class Uncountable(Own):
    async def count_tokens(self, prompt):  # noqa: ARG002 - as above
        return 0


class CountsNothing(Own):
    async def count_tokens(self, prompt):  # noqa: ARG002 - as above
        return 7


class ClosesOnce(Own):
    closed = False

    async def aclose(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class FailsAfterClosing(Own):
    closed = False

    async def chunks(self):
        if self.closed:
            raise RuntimeError("no connection")
        async for chunk in super().chunks():
            yield chunk

    async def aclose(self):
        self.closed = True


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Nameless, "name and capabilities: its name is 'model', and must be of the form 'provider:model'"),
        (LoadsTheWrongWay, "load_ahead: it raised TypeError"),
        (Wordless, "a whole stream: there was no text"),
        (Strings, "a whole stream: its stream yielded a str"),
        (Endless, "a whole stream: 0 of its chunks have a finish_reason"),
        (EndsTooSoon, "a whole stream: its answer went on after the finish_reason"),
        (Uncounted, "a whole stream: it reported no usage"),
        (LeftOpen, "leaving early: after a stream was left, its async generator is still open"),
        (LeavesATask, "aclose: tasks were still running after it was closed (forgotten"),
        (SwallowsInContext, "cancellation in the reader: it swallowed a cancellation"),
        (SwallowsInStream, "cancellation while waiting: it swallowed a cancellation"),
        (OneAtATime, "several at once: of 4 calls at once 3 failed, the first so: it raised BackendError: busy"),
        (NotAtHomeInAnotherTask, "under StallGuard: it raised BackendError: not here"),
        (Uncountable, "count_tokens: it returned 0"),
        (CountsNothing, "count_tokens: a prompt of 300 words has 7 tokens"),
        (ClosesOnce, "aclose: it raised RuntimeError: closed already"),
        (FailsAfterClosing, "aclose: it raised RuntimeError: no connection. Its errors must be StrettoErrors"),
    ],
)
@pytest.mark.leaping
async def test_a_broken_rule_is_named_with_what_happened(kind, says):
    backend = kind()
    with pytest.raises(BrokenContractError) as caught:
        await check_backend(backend, limit_s=0.3 if kind in (SwallowsInStream, LeftOpen) else 60)
    assert any(failure.startswith(says) for failure in caught.value.failures), str(caught.value)
    if kind is LeavesATask:
        backend.task.cancel()


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (ValueError("what?"), "errors: it raised ValueError: what?. Its errors must be StrettoErrors"),
        (None, "errors: the call of the failing backend did not fail"),
    ],
)
async def test_errors_of_another_kind_are_named(failure, says):
    with pytest.raises(BrokenContractError) as caught:
        await check_backend(Own(), failing=Own(failure=failure))
    assert [failure[: len(says)] for failure in caught.value.failures] == [says]


async def test_an_error_in_a_group_is_named():
    with pytest.raises(BrokenContractError, match="errors: it raised an exception group around BackendError: down"):
        await check_backend(Own(), failing=Grouped(failure=BackendError("down")))


@pytest.mark.thorough
async def test_a_stream_that_cannot_be_cancelled_does_not_hold_up_the_check():
    released = asyncio.Event()
    with pytest.raises(BrokenContractError) as caught:
        await check_backend(CannotBeCancelled(released), limit_s=0.05)
    released.set()
    stuck = "cancellation while waiting: it did not end within 0.05 s, nor could it be cancelled then."
    assert stuck in caught.value.failures
