"""Tests a backend against the contract of `stretto.extending.Backend`, and reports the rules it breaks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import anyio
from anyio.lowlevel import checkpoint

from stretto.backends.base import Backend, Capabilities, Chunk, LoadsAhead, ModelRequest, method_of
from stretto.backends.resilience.breaker import Breaker
from stretto.backends.resilience.hedge import Hedge
from stretto.backends.resilience.rate_limiter import RateLimiter
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.backends.resilience.retry import Retry
from stretto.backends.resilience.stall import StallGuard
from stretto.values.answer import Usage
from stretto.values.errors import StrettoError
from stretto.values.request import GenerationOptions, Message

MOST_AT_ONCE = 4
GIVING_UP_S = 2.0  # for what was asked to end

Wrap = Callable[[Backend], Backend]
WRAPPERS: dict[str, Wrap] = {
    "Retry": Retry,
    "StallGuard": StallGuard,
    "Breaker": Breaker,
    "RateLimiter": RateLimiter,
    "Hedge": lambda backend: Hedge(backend, after_s=0.0, share=1.0),
    "resilient": lambda backend: resilient(backend, Resilience(hedge=True, hedge_after_s=0.0, hedge_share=1.0)),
}


class BrokenContractError(AssertionError):
    """A backend breaks rules of its contract.

    Attributes:
        failures: one sentence for each broken rule, with the rule before it.
    """

    def __init__(self, name: str, failures: tuple[str, ...]) -> None:
        rules = "a rule" if len(failures) == 1 else f"{len(failures)} rules"
        listed = "".join(f"\n- {failure}" for failure in failures)
        super().__init__(f"{name} breaks {rules} of the contract of stretto.extending.Backend:{listed}")
        self.failures = failures


async def check_backend(
    backend: Backend,
    *,
    failing: Backend | None = None,
    prompt: str = "Count from one to twenty, in words.",
    options: GenerationOptions | None = None,
    limit_s: float = 60.0,
) -> None:
    """Test a backend against the contract of `stretto.extending.Backend`, and close it at the end.

    Call it from a test of yours. It makes some twenty short calls: complete ones, ones left early or cancelled, several
    concurrent ones, and calls through each of the library's wrappers.

    Args:
        backend: the backend, open.
        failing: the same kind of backend, made so that its calls fail (an address where nobody listens, a wrong key),
            to check the kind of error. Without one, that rule is only checked after closing.
        prompt: a question whose answer has at least a few words.
        options: the options of each call; by default at most 32 tokens.
        limit_s: the most seconds for one rule.

    Raises `BrokenContractError`, an `AssertionError` that lists every broken rule with what happened.

    >>> async def test_my_backend_keeps_the_contract():
    ...     await check_backend(MyBackend(), failing=MyBackend(url="http://127.0.0.1:9"))
    """
    with _tasks_noted() as tasks:
        check = _Check(backend, prompt, options or GenerationOptions(max_tokens=32), tasks)
        failures = await _broken_rules(check, failing, limit_s)
    if failures:
        name = backend.name if isinstance(getattr(backend, "name", None), str) else type(backend).__name__
        raise BrokenContractError(name, tuple(failures))


async def _broken_rules(check: _Check, failing: Backend | None, limit_s: float) -> list[str]:
    rules: dict[str, Callable[[], Awaitable[None]]] = {
        "name and capabilities": check.describes_itself,
        "load_ahead": check.loads_ahead,
        "a whole stream": check.streams,
        "count_tokens": check.counts_tokens,
        "leaving early": check.can_be_left,
        "cancellation in the reader": check.passes_a_cancellation_on,
        "cancellation while waiting": check.can_be_cancelled_while_waiting,
        "several at once": check.runs_several,
        **{f"under {name}": check.under(wrap) for name, wrap in WRAPPERS.items()},
    }
    if failing is not None:
        rules["errors"] = check.fails_as(failing)
    rules["aclose"] = check.closes
    failures = []
    for rule, obeys in rules.items():
        if problem := await _problem(obeys, limit_s):
            failures.append(f"{rule}: {problem}")
    return failures


Tasks = WeakSet[asyncio.Task[Any]]


@contextmanager
def _tasks_noted() -> Iterator[Tasks]:
    """Record each task started in this context or by such a task; what a backend leaves behind is among them."""
    loop, tasks = asyncio.get_running_loop(), Tasks()
    before: Any = loop.get_task_factory()

    def noted(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task = before(loop, coroutine, **options) if before else asyncio.Task(coroutine, loop=loop, **options)
        if _noting.get():
            tasks.add(task)
        return task

    loop.set_task_factory(noted)
    token = _noting.set(True)
    try:
        yield tasks
    finally:
        _noting.reset(token)
        loop.set_task_factory(before)


_noting: ContextVar[bool] = ContextVar("stretto_noting_tasks", default=False)


class _Broken(Exception):  # noqa: N818 - what a rule found, never raised to the caller
    pass


class _Check:
    """The rules for one backend; each raises `_Broken` with what it found."""

    def __init__(self, backend: Backend, prompt: str, options: GenerationOptions, tasks: Tasks) -> None:
        self._backend = backend
        self._prompt = ModelRequest((Message(role="user", content=prompt),))
        self._options = options
        self._tasks = tasks

    async def describes_itself(self) -> None:
        for member in ("name", "capabilities", "stream", "count_tokens", "aclose"):
            if not hasattr(self._backend, member):
                raise _Broken(f"it has no {member}.")
        name, capabilities = self._backend.name, self._backend.capabilities
        if not isinstance(name, str) or not all(name.partition(":")):
            raise _Broken(f"its name is {name!r}, and must be of the form 'provider:model'.")
        if not isinstance(capabilities, Capabilities):
            raise _Broken(
                f"its capabilities are a {type(capabilities).__name__}, and must be stretto.extending.Capabilities."
            )
        if capabilities.concurrent_calls < 1:
            raise _Broken(f"concurrent_calls={capabilities.concurrent_calls}, and it must run at least one call.")

    async def loads_ahead(self) -> None:
        for _ in range(2):
            if (load_ahead := method_of(self._backend, LoadsAhead.load_ahead)) is not None:
                await load_ahead()

    async def streams(self) -> None:
        _check_stream([chunk async for chunk in self._chunks(self._backend)])

    async def counts_tokens(self) -> None:
        long = ModelRequest((Message(role="user", content="a longer question " * 100),))
        few, many = await self._backend.count_tokens(self._prompt), await self._backend.count_tokens(long)
        if not isinstance(few, int) or not isinstance(many, int) or few < 1:
            raise _Broken(f"it returned {few!r}, and must return a whole number from 1 on.")
        if many <= few:
            raise _Broken(f"a prompt of 300 words has {many} tokens, no more than a short one with {few}.")

    async def can_be_left(self) -> None:
        await self._leave(self._backend)

    async def passes_a_cancellation_on(self) -> None:
        with anyio.CancelScope() as scope:
            async with self._open(self._backend) as chunks:
                async for chunk in chunks:
                    if chunk.text:
                        scope.cancel()
                        await checkpoint()
        if scope.cancel_called and not scope.cancelled_caught:
            raise _Broken("it swallowed a cancellation that came while its reader was at work: let it pass.")

    async def can_be_cancelled_while_waiting(self) -> None:
        swallowed = False
        async with anyio.create_task_group() as tasks:
            begun, scope = anyio.Event(), anyio.CancelScope()

            async def read() -> None:
                nonlocal swallowed
                finish = None
                with scope:
                    async with self._open(self._backend) as chunks:
                        async for chunk in chunks:
                            begun.set()
                            finish = chunk.finish_reason or finish
                        swallowed = scope.cancel_called and finish is None
                begun.set()

            tasks.start_soon(read)
            await begun.wait()
            scope.cancel()
        if swallowed:
            raise _Broken("it swallowed a cancellation and ended its stream instead: let it pass.")

    async def runs_several(self) -> None:
        together = min(MOST_AT_ONCE, self._backend.capabilities.concurrent_calls)
        errors: list[Exception] = []

        async def one() -> None:
            try:
                await self.streams()
            except Exception as error:  # noqa: BLE001 - reported below, outside the group
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(together):
                tasks.start_soon(one)
        if errors:
            raise _Broken(f"of {together} calls at once {len(errors)} failed, the first so: {_described(errors[0])}")

    def under(self, wrap: Wrap) -> Callable[[], Awaitable[None]]:
        async def obeys() -> None:
            wrapped = wrap(self._backend)
            chunks = [chunk async for chunk in self._chunks(wrapped)]
            if not any(chunk.finish_reason for chunk in chunks):
                raise _Broken("its stream had no finish reason there.")
            await self._leave(wrapped)

        return obeys

    def fails_as(self, failing: Backend) -> Callable[[], Awaitable[None]]:
        async def obeys() -> None:
            try:
                async for _ in self._chunks(failing):
                    pass
            except StrettoError:
                return
            finally:
                await failing.aclose()
            raise _Broken("the call of the failing backend did not fail.")

        return obeys

    async def closes(self) -> None:
        await self._backend.aclose()
        await self._backend.aclose()
        try:
            async for _ in self._chunks(self._backend):
                pass
        except StrettoError:
            pass  # as it should; a backend that still works is fine too
        await self._backend.aclose()
        if left := [task for task in self._tasks if not task.done() and task is not asyncio.current_task()]:
            _, running = await asyncio.wait(left, timeout=GIVING_UP_S)
            if names := ", ".join(sorted(task.get_name() for task in running)):
                raise _Broken(f"tasks were still running after it was closed ({names}): end them with their stream.")

    async def _leave(self, backend: Backend) -> None:
        async with self._open(backend) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break

    @asynccontextmanager
    async def _open(self, backend: Backend) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Open a stream, and check afterwards what it left behind."""
        async with backend.stream(self._prompt, self._options) as chunks:
            yield chunks
        if inspect.isasyncgen(chunks) and chunks.ag_frame is not None:
            raise _Broken(
                "after a stream was left, its async generator is still open: close it on the way out of the context, "
                "with contextlib.aclosing."
            )

    async def _chunks(self, backend: Backend) -> AsyncIterator[Chunk]:
        chunks = []
        async with self._open(backend) as stream:
            async for chunk in stream:
                if not isinstance(chunk, Chunk):
                    raise _Broken(
                        f"its stream yielded a {type(chunk).__name__}, and must yield stretto.extending.Chunk."
                    )
                chunks.append(chunk)
        for chunk in chunks:
            yield chunk


def _check_stream(chunks: list[Chunk]) -> None:
    if not "".join(chunk.text for chunk in chunks).strip():
        raise _Broken("there was no text in it.")
    reasons = [chunk.finish_reason for chunk in chunks if chunk.finish_reason]
    if len(reasons) != 1:
        raise _Broken(
            f"{len(reasons)} of its chunks have a finish_reason, and one must: "
            "a stream without one counts as broken off."
        )
    end = next(place for place, chunk in enumerate(chunks) if chunk.finish_reason)
    if any(chunk.is_progress for chunk in chunks[end + 1 :]):
        raise _Broken("its answer went on after the finish_reason. Only the usage may follow.")
    if reasons[0] not in ("stop", "length", "refusal"):
        raise _Broken(f"finish_reason={reasons[0]!r}, and it must be 'stop', 'length' or 'refusal'.")
    usage = sum((chunk.usage for chunk in chunks if chunk.usage), Usage())
    if usage.calls < 1:
        raise _Broken("it reported no usage: one chunk must have Usage(calls=1, ...) with the tokens that are known.")


async def _problem(obeys: Callable[[], Awaitable[None]], limit_s: float) -> str | None:
    """Run a rule in a task, so that even a stream that cannot be cancelled does not block the others."""
    task = asyncio.ensure_future(obeys())
    task.add_done_callback(_error_of)  # retrieved even if it ends too late
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
        if done:
            return None if (error := _error_of(task)) is None else _described(error)
    finally:
        task.cancel()
    done, _ = await asyncio.wait({task}, timeout=min(limit_s, GIVING_UP_S))
    stuck = "" if done else ", nor could it be cancelled then"
    return f"it did not end within {limit_s:g} s{stuck}."


def _error_of(task: asyncio.Future[None]) -> BaseException | None:
    return asyncio.CancelledError("it cancelled its reader") if task.cancelled() else task.exception()


def _described(error: BaseException) -> str:
    if isinstance(error, _Broken):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        found = [_described(each) for each in error.exceptions if isinstance(each, _Broken)]
        first = error.exceptions[0]
        return found[0] if found else f"it raised an exception group around {type(first).__name__}: {first}."
    kind = f"it raised {type(error).__name__}: {error}".rstrip(": .")
    return f"{kind}." if isinstance(error, StrettoError) else f"{kind}. Its errors must be StrettoErrors."
