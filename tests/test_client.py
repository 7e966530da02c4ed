import asyncio
import gc
import threading
from contextlib import asynccontextmanager

import anyio
import pytest
from patience import patience

from stretto import (
    AnswerFinished,
    AsyncStretto,
    Budget,
    GenerationOptions,
    Message,
    Request,
    RouteChosen,
    Stretto,
    StrettoError,
)
from stretto.backends.base import Capabilities, ModelRequest
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import ScriptedServer
from stretto.values.errors import (
    BackendError,
    BudgetExceededError,
    DeadlineExceededError,
    InvalidRequestError,
    ServerFailedError,
    UnknownStrategyError,
)

pytestmark = pytest.mark.anyio

SKELETON = {
    "Write only the outline": "1. Tyres\n2. Chain\n3. Brakes",
    "point 1,": "Pump them.",
    "point 2,": "Oil it.",
    "point 3,": "Test them.",
    "": "A straight answer.",
}


class Noted(ScriptedBackend):
    """Notes in a list which point is asked for."""

    def __init__(self, replies, notes):
        super().__init__(replies)
        self.notes = notes

    @asynccontextmanager
    async def stream(self, prompt, options):
        self.notes.append("a point is asked for" if "point 1," in prompt.messages[-1].content else "a call")
        async with super().stream(prompt, options) as chunks:
            yield chunks


class Stuck(ScriptedBackend):
    """Hangs for ever in calls whose prompt holds ``on``, after their first chunk."""

    on = "point 2,"

    async def _chunks(self, prompt, options, reply):
        async for chunk in super()._chunks(prompt, options, reply):
            yield chunk
            if self.on in prompt.messages[-1].content:
                await anyio.sleep_forever()


async def test_the_first_event_is_the_route_and_the_last_the_answer():
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto, stretto.stream("Why?", strategy="direct") as stream:
        events = [event async for event in stream]
    assert isinstance(events[0], RouteChosen)
    assert events[0].route.strategy == "direct"
    assert isinstance(events[-1], AnswerFinished)
    assert events[-1].answer.text == str(events[-1].answer) == "A straight answer."


async def test_an_answer_is_shown_in_one_short_line():
    async with AsyncStretto(ScriptedBackend({"": "word " * 500})) as stretto:
        shown = repr(await stretto.ask("Why?", strategy="direct"))
    assert shown.startswith("<Answer 'word word")
    assert "stop, direct on scripted:model>" in shown
    assert "\n" not in shown
    assert len(shown) < 160


async def test_every_event_and_the_answer_survive_json():
    async with (
        AsyncStretto(ScriptedBackend(SKELETON)) as stretto,
        stretto.stream("Why?", strategy="skeleton", strategy_options={"form": "points"}) as stream,
    ):
        events = [event async for event in stream]
    for event in events:
        assert type(event).model_validate_json(event.model_dump_json()) == event


async def test_leaving_the_stream_early_cancels_every_branch():
    backend, tasks = Stuck(SKELETON), len(asyncio.all_tasks())
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream("Why?", strategy="skeleton", strategy_options={"form": "points"}) as stream:
            async for event in stream:
                if event.type == "branch_delta" and event.branch_id == "point-2":
                    break
            assert backend.running > 0
        assert backend.running == 0
    assert len(asyncio.all_tasks()) == tasks


async def test_a_cancelled_ask_leaves_nothing_running():
    backend = Stuck(SKELETON)
    async with AsyncStretto(backend) as stretto, anyio.create_task_group() as tasks:
        tasks.start_soon(stretto.ask, "Why?")
        with anyio.fail_after(patience(5)):
            while not backend.calls:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert backend.running == 0


async def test_an_error_in_the_readers_own_code_comes_out_as_it_is():
    backend = Stuck(SKELETON)
    async with AsyncStretto(backend) as stretto:
        with pytest.raises(KeyError, match="mine"):
            async with stretto.stream("Why?", strategy="skeleton", strategy_options={"form": "points"}) as stream:
                async for _ in stream:
                    raise KeyError("mine")
    assert backend.running == 0


@pytest.mark.leaping
async def test_at_the_deadline_what_is_there_is_kept_and_the_rest_is_named():
    backend = Stuck(SKELETON)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="skeleton", strategy_options={"form": "points"}, deadline_s=30)
    assert "1. **Tyres**: Pump them." in answer.text
    assert "2. **Chain**: Oil […broken off]" in answer.text
    assert answer.text.endswith("3. **Brakes**: Test them.")
    assert answer.finish_reason == "deadline"
    assert answer.usage.calls == 4  # the one that was cut off never reported; its cost is estimated
    assert backend.running == 0


@pytest.mark.leaping
async def test_a_deadline_before_the_first_word_is_an_error_that_says_so():
    backend = ScriptedBackend({"": Reply("late", hold=anyio.Event())})
    async with AsyncStretto(backend) as stretto:
        with pytest.raises(DeadlineExceededError, match="deadline_s"):
            await stretto.ask("Why?", deadline_s=0.05)
    assert backend.running == 0


async def test_a_budget_of_calls_leaves_the_last_points_unwritten_but_named():
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto:
        answer = await stretto.ask(
            "Why?", strategy="skeleton", strategy_options={"form": "points"}, budget=Budget(max_calls=3)
        )
    assert answer.usage.calls == 3
    assert "3. **Brakes**: [could not be written]" in answer.text
    assert "budget" in [warning.code for warning in answer.warnings]
    assert answer.finish_reason == "budget"


async def test_a_budget_of_tokens_too_small_for_the_prompt_is_an_error_that_says_so():
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto:
        with pytest.raises(BudgetExceededError, match="max_tokens_total=10"):
            await stretto.ask(
                "A question that by itself has more tokens than that " * 3, budget=Budget(max_tokens_total=10)
            )


async def test_a_budget_of_tokens_limits_what_a_call_may_write():
    backend = ScriptedBackend({"": " ".join(map(str, range(500)))})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", budget=Budget(max_tokens_total=101))
    assert answer.usage.total_tokens <= 101
    assert answer.finish_reason == "budget"
    assert [warning.code for warning in answer.warnings] == ["budget"]


async def test_an_answer_that_fails_altogether_raises_the_backends_error_not_a_group():
    async with AsyncStretto(ScriptedBackend({"": Reply(fault=ServerFailedError("down"))})) as stretto:
        with pytest.raises(ServerFailedError, match="down"):
            await stretto.ask("Why?")


async def test_a_broken_straight_answer_is_continued():
    script = {
        "<received>\nHalf": " and half.",
        "": Reply(chunks=["Half", "x"], fault=ServerFailedError("cut"), fault_after=1),
    }
    async with AsyncStretto(ScriptedBackend(script)) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    assert answer.text == "Half and half."


async def test_a_refusal_is_an_answer_with_that_finish_reason():
    backend = ScriptedBackend({"": Reply("I won't.", finish_reason="refusal")})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    assert (answer.text, answer.finish_reason) == ("I won't.", "refusal")


@pytest.mark.parametrize(
    ("prompt", "arguments", "error", "says"),
    [
        ("", {}, InvalidRequestError, "empty"),
        ("  \n", {}, InvalidRequestError, "empty"),
        ([], {}, InvalidRequestError, "no messages"),
        (7, {}, InvalidRequestError, "not int"),
        ([{"role": "robot", "content": "Hi"}], {}, InvalidRequestError, "robot"),
        ("Why?", {"temperature": 9}, InvalidRequestError, "temperature=9"),
        ("Why?", {"temprature": 1}, InvalidRequestError, "temprature"),
        ("Why?", {"preference": "best"}, InvalidRequestError, "best"),
        ("Why?", {"strategy": "magic"}, UnknownStrategyError, "magic.*direct"),
        ("Why?", {"budget": {"max_calls": 0}}, InvalidRequestError, "max_calls"),
    ],
)
async def test_bad_input_is_one_clear_error_that_names_it(prompt, arguments, error, says):
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto:
        with pytest.raises(error, match=says):
            await stretto.ask(prompt, **arguments)


async def test_a_backend_that_was_passed_in_belongs_to_the_caller_and_stays_open():
    main, local = ScriptedBackend(SKELETON), ScriptedBackend(SKELETON, name="local:scripted")
    async with AsyncStretto(main, roles={"local": local}) as stretto:
        await stretto.ask("Why?")
    with Stretto(main) as stretto:
        stretto.ask("Why?")
    assert not main.closed
    assert not local.closed


async def test_backends_that_a_client_opened_by_name_are_all_closed_with_it():
    async with ScriptedServer("Yes.") as server:
        names = {"main": "openai:one", "small": "openai:other"}
        async with AsyncStretto(names["main"], roles={"small": names["small"]}, base_url=server.openai_url) as stretto:
            backends = dict(stretto.backends)
        for role, backend in backends.items():
            with pytest.raises(BackendError, match=f"{names[role]} is closed"):
                async with backend.stream(ModelRequest((Message(role="user", content="Why?"),)), GenerationOptions()):
                    pass


@pytest.mark.parametrize("kind", [AsyncStretto, Stretto])
def test_a_client_shows_its_models_and_no_key(kind):
    client = kind(
        "openai:one",
        roles={"small": "anthropic:two"},
        base_url="http://me:secret@host/v1",
        api_key="sk-secret-key-123456",
    )
    assert repr(client) == f"<{kind.__name__} openai:one, small: anthropic:two>"


HISTORY = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "How do I look after a bicycle?"},
    {"role": "assistant", "content": "A bicycle asks for only a few minutes of care a week. " * 20},
]


@pytest.mark.parametrize("strategy", ["direct", "skeleton"])
async def test_a_model_that_reads_no_history_is_shown_the_question_alone_and_the_answer_says_so(strategy):
    backend = ScriptedBackend({"": "A plain answer."}, capabilities=Capabilities(reads_history=False))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask([*HISTORY, {"role": "user", "content": "And a scooter?"}], strategy=strategy)
        alone = await stretto.ask("And a scooter?", strategy="direct")
    assert not any("bicycle" in message.content for prompt, _ in backend.calls for message in prompt.messages)
    assert "Be kind." in backend.calls[0][0].messages[0].content
    assert answer.warnings[0].code == "unread"
    assert not alone.warnings


@pytest.mark.thorough
async def test_the_pocket_model_answers_the_second_question_of_a_chat_like_the_first():
    pytest.importorskip("torch")
    question = "How can I save on heating?"
    async with AsyncStretto("local:pocket") as stretto:
        first = await stretto.ask(question, strategy="direct", max_tokens=12)
        second = await stretto.ask(
            [*HISTORY[1:], {"role": "user", "content": question}], strategy="direct", max_tokens=12
        )
    assert second.text == first.text


async def test_the_answer_of_a_stream_is_there_only_at_its_end():
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto, stretto.stream("Why?") as stream:
        with pytest.raises(StrettoError, match="to its end"):
            _ = stream.answer
        assert (await stream.rest()).text


async def test_a_stream_that_was_not_opened_says_how_to_open_it():
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto:
        with pytest.raises(AttributeError, match=r"no attribute 'text'. Open the stream: async with stretto.stream"):
            stretto.stream("Why?").text()
        with pytest.raises(TypeError, match="Open the stream: async with"):
            async for _ in stretto.stream("Why?"):
                pass
    with Stretto(ScriptedBackend(SKELETON)) as stretto:
        with pytest.raises(AttributeError, match=r"no attribute 'answer'. Open the stream: with stretto.stream"):
            _ = stretto.stream("Why?").answer
        with pytest.raises(TypeError, match=r"is not iterable\. Open the stream: with"):
            list(stretto.stream("Why?"))


def test_a_request_can_be_changed():
    request = Request.of("Why?", temperature=0.5, strategy="direct")
    changed = Request.of(request, seed=7)
    assert (changed.options.temperature, changed.options.seed, changed.strategy) == (0.5, 7, "direct")


def test_the_synchronous_client_answers_streams_and_ends_its_thread():
    before = set(threading.enumerate())
    with Stretto(ScriptedBackend(SKELETON)) as stretto:
        assert str(stretto.ask("Why?", strategy="direct")) == "A straight answer."
        assert stretto.route("Why?", strategy="direct").strategy == "direct"
        with stretto.stream("Why?", strategy="direct") as events:
            assert [event.text for event in events if event.type == "text_delta"] == ["A", " straight", " answer."]
    assert set(threading.enumerate()) <= before  # those of others may have ended


async def test_the_synchronous_client_works_inside_a_running_loop():
    with Stretto(ScriptedBackend(SKELETON)) as stretto:
        assert str(stretto.ask("Why?", strategy="direct")) == "A straight answer."


def test_a_forgotten_synchronous_client_ends_its_thread():
    before = set(threading.enumerate())
    stretto = Stretto(ScriptedBackend(SKELETON))
    stretto.ask("Why?", strategy="direct")
    del stretto
    gc.collect()
    assert set(threading.enumerate()) <= before  # those of others may have ended


def test_a_closed_synchronous_client_says_so_and_starts_no_thread():
    before = set(threading.enumerate())
    stretto = Stretto(ScriptedBackend(SKELETON))
    stretto.ask("Why?", strategy="direct")
    stretto.close()
    with pytest.raises(StrettoError, match="closed"):
        stretto.ask("Why?")
    assert set(threading.enumerate()) <= before  # those of others may have ended


def test_errors_reach_the_synchronous_caller():
    with Stretto(ScriptedBackend(SKELETON)) as stretto, pytest.raises(UnknownStrategyError):
        stretto.ask("Why?", strategy="magic")
