"""A mistake in the caller's own code reaches the caller as it is: nobody else is blamed, and nothing is repeated."""

import dataclasses

import anyio
import pytest
from anyio.lowlevel import checkpoint

from stretto import AsyncStretto, DeadlineExceededError, Message
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.extending import BranchSpec, ModelRequest, StrategyResult
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio


class OwnError(Exception):
    pass


class Own:
    """A strategy that runs what it is given."""

    name = "own"

    def __init__(self, run):
        self._run = run

    def offer(self, case):  # noqa: ARG002 - the protocol's arguments
        return None

    async def run(self, request, route, runner):  # noqa: ARG002 - as above
        await self._run(request, runner)


def branch(request, runner, name="one", prompt=None):
    asked = ModelRequest((Message(role="user", content=request.question),))
    running = runner.start(BranchSpec(name, "section", prompt or (lambda _: asked), request.options))
    runner.merge.add_branch(running)
    return running


async def ask(run, backend=None, **options):
    async with AsyncStretto(backend or ScriptedBackend({"": "Yes."}), strategies=[Own(run)]) as stretto:
        return await stretto.ask("Why?", strategy="own", **options)


async def test_what_a_prompt_raises_reaches_the_caller_and_is_not_asked_again():
    made = []

    def prompt(_):
        made.append(1)
        raise OwnError("in the prompt")

    async def run(request, runner):
        branch(request, runner, "one")
        branch(request, runner, "two", prompt)
        await runner.merge.finish()

    with pytest.raises(OwnError, match=r"^in the prompt$"):
        await ask(run)
    assert made == [1]


@pytest.mark.parametrize("hook", ["fallback_prompt", "on_end"])
async def test_what_a_specification_raises_reaches_the_caller(hook):
    def mistake(*_):
        raise OwnError(hook)

    async def run(request, runner):
        asked = ModelRequest((Message(role="user", content="Why?"),))
        running = runner.start(BranchSpec("one", "section", lambda _: asked, request.options, **{hook: mistake}))
        runner.merge.add_branch(running)
        await runner.merge.finish()

    with pytest.raises(OwnError, match=hook):
        await ask(run, ScriptedBackend({"": Reply("", finish_reason="stop")}))


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(StrategyResult)])
async def test_what_a_strategy_returns_cannot_be_set_on_its_runner(field):
    async def run(request, runner):
        setattr(runner, field, ())

    with pytest.raises(
        AttributeError, match=rf"^A Runner has no '{field}'\. .* return StrategyResult\({field}=\.\.\.\)"
    ):
        await ask(run)


async def test_what_a_strategy_raises_reaches_the_caller():
    async def run(request, runner):
        branch(request, runner)
        raise OwnError("in the strategy")

    with pytest.raises(OwnError, match=r"^in the strategy$"):
        await ask(run)


async def test_what_a_backend_of_the_callers_raises_is_no_fault_and_not_repeated():
    class Plugin(ScriptedBackend):
        def _reply(self, prompt):  # noqa: ARG002 - as above
            raise OwnError("in the backend")

    backend = resilient(
        Plugin({}), Resilience(first_wait_s=0, longest_wait_s=0, breaker_faults=1, breaker_over_s=0, hedge=True)
    )
    async with AsyncStretto(backend) as stretto:
        for _ in range(3):
            with pytest.raises(OwnError, match=r"^in the backend$"):
                await stretto.ask("Why?", strategy="direct")
    assert len(backend.calls) == 3


# The deadline


@pytest.mark.leaping
async def test_a_strategy_that_works_on_past_the_deadline_is_ended():
    async def run(request, runner):
        await anyio.sleep_forever()

    with pytest.raises(DeadlineExceededError, match=r"0\.05 s. Allow more with deadline_s"):
        await ask(run, deadline_s=0.05)


@pytest.mark.leaping
async def test_what_was_written_before_the_deadline_is_the_answer():
    async def run(request, runner):
        await branch(request, runner).ended()
        await checkpoint()
        await anyio.sleep_forever()

    answer = await ask(run, deadline_s=30)
    assert (answer.text, answer.finish_reason) == ("Yes.", "deadline")
    assert "deadline" in [warning.code for warning in answer.warnings]


@pytest.mark.thorough
@pytest.mark.leaping
async def test_a_backend_that_holds_on_to_its_call_does_not_hold_the_reader():
    let_go = anyio.Event()

    class Shielded(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            with anyio.CancelScope(shield=True):
                await let_go.wait()
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk

    async with (
        AsyncStretto(Shielded({"": "Yes."})) as stretto,
        stretto.stream("Why?", deadline_s=60) as events,
    ):
        with pytest.raises(DeadlineExceededError, match="the backend holds on to its call"):
            await events.rest()
        let_go.set()


# Many branches


class Counted(str):
    """A branch's id that counts how often it is looked at."""

    looked = 0

    def __hash__(self):
        Counted.looked += 1
        return super().__hash__()

    def __eq__(self, other):
        Counted.looked += 1
        return super().__eq__(other)


async def test_starting_branches_is_linear_in_their_number():
    many = 500
    Counted.looked = 0

    async def run(request, runner):
        for number in range(many):
            runner.start(BranchSpec(Counted(f"b{number}"), "item", lambda: None, request.options))
        Counted.looked, looked = 0, Counted.looked
        assert looked <= 20 * many
        raise OwnError("enough")

    with pytest.raises(OwnError, match="enough"):
        await ask(run)


async def test_equal_ids_get_an_ending_each():
    ids = []

    async def run(request, runner):
        ids.extend(branch(request, runner, "same").spec.id for _ in range(4))
        await runner.merge.finish()

    await ask(run)
    assert ids == ["same", "same-again", "same-again-2", "same-again-3"]
