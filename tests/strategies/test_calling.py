"""Functions of the caller are called side by side while the model still asks, and the answer goes on in one stream."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Annotated

import anyio
import anyio.lowlevel
import pytest
from langchain_core.tools import tool
from patience import patience
from pydantic import BaseModel, Field
from pydantic_core import to_json

from stretto import (
    AsyncStretto,
    Budget,
    InvalidRequestError,
    ServerFailedError,
    StreamBrokenError,
    Stretto,
    StrettoError,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
)
from stretto.extending import Capabilities, Chunk
from stretto.testing import Reply, ScriptedBackend
from stretto.values.tool_calls import ToolCallFragment

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

TOOLS = Capabilities(tools=True)
DECLARED = {"type": "function", "function": {"name": "approve", "parameters": {"type": "object", "properties": {}}}}


def weather(place: str, days: Annotated[int, Field(ge=1)] = 1) -> str:
    """The weather of a place.

    Args:
        place: a town, with
            its country.
    """
    return f"Rain in {place} for {days} days."


def call(name, number=1, /, **arguments):
    return ToolCall(id=f"call-{number}", name=name, arguments=json.dumps(arguments))


def rounds(*replies):
    """A backend whose calls are answered by these replies, one after the other."""
    left = list(replies)
    return ScriptedBackend(lambda _: left.pop(0), capabilities=TOOLS)


class Asking(ScriptedBackend):
    """A backend whose first call streams these chunks, and whose second one is the answer."""

    def __init__(self, first):
        super().__init__({"": "Done."}, capabilities=TOOLS)
        self.first = first

    @asynccontextmanager
    async def stream(self, prompt, options):
        async with super().stream(prompt, options) as chunks:
            if len(self.calls) > 1:
                yield chunks
                return
            async with aclosing(self.first()) as first:
                yield first


async def ask(backend, *tools, **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask("Do I need an umbrella?", tools=list(tools), **options)


def results(backend):
    """What the model was given in its last call."""
    return [message.content for message in backend.calls[-1][0].messages if message.role == "tool"]


async def test_the_answer_goes_on_with_what_a_function_returns():
    backend = rounds(Reply("Let me see.", tool_calls=[call("weather", place="Bergen")]), "Yes, take one.")
    answer = await ask(backend, weather)
    assert (answer.text, answer.finish_reason, answer.tool_calls) == ("Let me see.\n\nYes, take one.", "stop", ())
    assert results(backend) == ["Rain in Bergen for 1 days."]
    assert [(branch.id, branch.kind, branch.title, branch.status) for branch in answer.branches] == [
        ("direct", "direct", "", "finished"),
        ("tool-1", "tool", "weather", "finished"),
        ("direct-2", "direct", "", "finished"),
    ]
    assert answer.warnings == ()
    assert answer.usage.calls == 2


async def test_the_turns_of_an_answer_are_the_next_requests_history():
    backend = rounds(Reply("Let me see.", tool_calls=[call("weather", place="Bergen")]), "Yes.", "Two.")
    answer = await ask(backend, weather)
    assert [turn["role"] for turn in answer.turns] == ["assistant", "tool", "assistant"]
    assert (answer.turns[0]["content"], answer.turns[-1]["content"]) == ("Let me see.", "Yes.")
    async with AsyncStretto(backend) as stretto:
        question = {"role": "user", "content": "Do I need an umbrella?"}
        await stretto.ask([question, *answer.turns, {"role": "user", "content": "How many?"}], tools=[weather])
    assert [message.role for message in backend.calls[-1][0].messages] == [
        *("user", "assistant", "tool", "assistant", "user")
    ]


async def test_calls_begin_while_the_model_still_asks_and_run_at_the_same_time():
    both, asked_on = anyio.Event(), anyio.Event()
    running = []

    async def asking():
        for place in range(3):
            yield Chunk(tool_calls=(ToolCallFragment(place, f"id-{place}", "look", f'{{"place": {place}}}'),))
        await asked_on.wait()  # the stream goes on only after the first two were called
        yield Chunk(finish_reason="tool_calls")

    async def look(place: int) -> str:
        running.append(place)
        if len(running) == 2:
            asked_on.set()
        if len(running) == 3:
            both.set()
        await both.wait()
        return str(place)

    backend = Asking(asking)
    with anyio.fail_after(5):
        answer = await ask(backend, look)
    assert (answer.text, running) == ("Done.", [0, 1, 2])
    assert results(backend) == ["0", "1", "2"]


async def test_events_tell_of_calls_and_not_of_their_pieces():
    backend = rounds(Reply("Hm.", tool_calls=[call("weather", place="Bergen")]), "Yes.")
    async with AsyncStretto(backend) as stretto, stretto.stream("Umbrella?", tools=[weather]) as stream:
        events = [event async for event in stream]
    assert [event for event in events if isinstance(event, ToolCallDelta)] == []
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert started.call == call("weather", place="Bergen")
    assert (finished.branch_id, finished.call_id, finished.name) == (started.branch_id, "call-1", "weather")
    assert (finished.result, finished.is_error) == ("Rain in Bergen for 1 days.", False)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == stream.answer.text


async def test_the_model_is_shown_what_signature_and_docstring_say():
    backend = rounds("No.")
    await ask(backend, weather)
    (tool,) = backend.calls[0][0].tools
    assert tool == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "a town, with its country."},
                    "days": {"type": "integer", "minimum": 1, "default": 1},
                },
                "required": ["place"],
                "additionalProperties": False,
            },
        },
    }


class Place(BaseModel):
    name: str
    height: float = 0.0


async def test_arguments_and_results_are_of_the_declared_types():
    seen = []

    async def keep(place: Place, tags: Annotated[list[str], "words for it"], json: bool = False) -> Place:
        seen.append((place, tags, json))
        return place

    asked = call("keep", place={"name": "Oslo", "height": "23"}, tags=["a"], json=True)
    backend = rounds(Reply(tool_calls=[asked]), "Kept.")
    await ask(backend, keep)
    assert seen == [(Place(name="Oslo", height=23.0), ["a"], True)]
    assert json.loads(results(backend)[0]) == {"name": "Oslo", "height": 23.0}
    properties = backend.calls[0][0].tools[0]["function"]["parameters"]["properties"]
    assert properties["tags"]["description"] == "words for it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "invalid JSON"),
        ("[]", "an object"),
        ("{}", "place: field required"),
        ('{"place": 3}', "place: input should be a valid string"),
        ('{"place": "x", "days": 0}', "days: input should be greater than or equal to 1"),
        ('{"place": "x", "__class__": 1}', "__class__: there is no such name"),
        ('{"place": ' + "[" * 100_000, "invalid JSON"),
    ],
)
async def test_wrong_arguments_reach_no_function_and_the_model_is_told(arguments, said):
    wrong = ToolCall(id="a", name="weather", arguments=arguments)
    backend = rounds(Reply(tool_calls=[wrong]), "Sorry.")
    answer = await ask(backend, weather)
    assert (answer.text, answer.finish_reason, answer.warnings) == ("Sorry.", "stop", ())
    (told,) = results(backend)
    assert told.startswith("Error: The arguments do not fit. ")
    assert said in told
    assert len(told) < 300


async def test_a_function_that_raises_is_an_error_for_the_model_and_a_warning():
    def broken() -> str:
        raise OSError("disk is full")

    def leaving() -> str:
        raise SystemExit(3)

    def exhausted() -> str:
        return next(iter(()))

    asked = [call(name, place) for place, name in enumerate(("broken", "leaving", "exhausted", "weather"))]
    backend = rounds(Reply(tool_calls=asked), "It failed.")
    answer = await ask(backend, broken, leaving, exhausted, weather)
    assert answer.text == "It failed."
    *failed, wrong = results(backend)
    assert failed == [
        "Error: OSError: disk is full",
        "Error: SystemExit: 3",
        "Error: RuntimeError: coroutine raised StopIteration",
    ]
    assert wrong.startswith("Error: The arguments do not fit.")
    assert {warning.code for warning in answer.warnings} == {"tool"}
    assert [branch.status for branch in answer.branches] == ["finished", *["failed"] * 4, "finished"]
    messages = backend.calls[-1][0].messages
    assert [message.extra for message in messages if message.role == "tool"] == [{"is_error": True}] * 4


class TextlessError(Exception):
    def __str__(self):
        raise SystemExit(1)

    __repr__ = __str__


async def meets_a_cancelled_task():
    met = asyncio.ensure_future(anyio.sleep_forever())
    met.cancel()
    await met


async def cancels_itself():
    asyncio.current_task().cancel()
    await anyio.lowlevel.checkpoint()


async def fails_in_a_group():
    async with anyio.create_task_group() as group:
        group.start_soon(raising(SystemExit(3)))


def raising(error):
    async def raises():
        raise error

    return raises


def raising_at_once(error):
    def raises():
        raise error

    return raises


@pytest.mark.parametrize("client", [AsyncStretto, Stretto])
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (meets_a_cancelled_task, "CancelledError"),
        (cancels_itself, "CancelledError"),
        *(
            (how(error), told)
            for error, told in [
                (asyncio.CancelledError(), "CancelledError"),
                (SystemExit(3), "SystemExit: 3"),
                (GeneratorExit(), "GeneratorExit"),
                (BaseExceptionGroup("both", [SystemExit(1)]), "BaseExceptionGroup: both (1 sub-exception)"),
                (TextlessError(), "TextlessError"),
            ]
            for how in (raising, raising_at_once)
        ),
    ],
)
async def test_whatever_a_function_raises_is_told_to_the_model(function, told, client):
    backend = rounds(Reply("Let me see.", tool_calls=[call("broken")]), "It failed.", "Still here.")
    tools = [Tool(function, name="broken")]
    if client is Stretto:
        answer, after = await anyio.to_thread.run_sync(ask_twice, backend, tools)
    else:
        async with AsyncStretto(backend) as stretto:
            answer, after = await stretto.ask("Umbrella?", tools=tools), await stretto.ask("Umbrella?")
    assert (answer.text, answer.finish_reason) == ("Let me see.\n\nIt failed.", "stop")
    assert answer.turns[1]["content"] == f"Error: {told}"
    assert [(w.code, w.endswith(f": {told}")) for w in answer.warnings] == [("tool", True)]
    assert after.text == "Still here."


def ask_twice(backend, tools):
    with Stretto(backend) as stretto:
        return stretto.ask("Umbrella?", tools=tools), stretto.ask("Umbrella?")


async def fails_in_a_task_of_its_own():
    await asyncio.gather(raising(SystemExit(3))())


async def leaves_a_task_that_fails():
    left = asyncio.create_task(raising(SystemExit(3))())
    await asyncio.wait([left])
    return type(left.exception()).__name__


async def stops_the_event_loop():
    for _ in range(3):
        asyncio.get_running_loop().stop()
        await anyio.lowlevel.checkpoint()
    return "stopped"


async def closes_the_event_loop():
    asyncio.get_running_loop().close()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (stops_the_event_loop, "stopped"),
        (closes_the_event_loop, "Error: RuntimeError: Cannot close a running event loop"),
        (fails_in_a_group, "Error: BaseExceptionGroup: "),
        (fails_in_a_task_of_its_own, "Error: SystemExit: 3"),
        (leaves_a_task_that_fails, "SystemExit"),
    ],
)
def test_no_function_ends_the_event_loop_of_a_synchronous_client(function, told):
    """Out of a task, asyncio raises `SystemExit` in the event loop as well."""
    backend = rounds(Reply(tool_calls=[call("broken")]), "It failed.", "Still here.")
    answer, after = ask_twice(backend, [Tool(function, name="broken")])
    assert answer.turns[1]["content"].startswith(told)
    assert (answer.text, after.text) == ("It failed.", "Still here.")


async def cancels_all_tasks():
    for task in asyncio.all_tasks():
        task.cancel()


def test_a_function_that_cancels_all_tasks_fails_its_answer_and_the_synchronous_client_lives_on():
    backend = rounds(Reply(tool_calls=[call("cancels")]), "Still here.")
    with Stretto(backend) as stretto:
        with pytest.raises(StrettoError, match="was cancelled by other code in the client's event loop"):
            stretto.ask("Umbrella?", tools=[Tool(cancels_all_tasks, name="cancels")])
        assert stretto.ask("Umbrella?").text == "Still here."


def test_a_function_that_asks_its_own_synchronous_client_is_told_how_to():
    backend = rounds(Reply(tool_calls=[call("asks")]), "It failed.")
    with Stretto(backend) as stretto:

        async def asks():
            return stretto.ask("Umbrella?").text

        answer = stretto.ask("Umbrella?", tools=[asks])
    assert answer.turns[1]["content"].startswith("Error: StrettoError: A Stretto cannot be asked by code that runs in")


@pytest.mark.parametrize("function", [raising(KeyboardInterrupt()), raising_at_once(KeyboardInterrupt())])
def test_an_interrupt_that_no_user_sent_is_told_to_the_model(function):
    """Python interrupts the main thread only, and these run in others."""
    backend = rounds(Reply(tool_calls=[call("broken")]), "It failed.", "Still here.")
    answer, after = ask_twice(backend, [Tool(function, name="broken")])
    assert answer.turns[1]["content"] == "Error: KeyboardInterrupt"
    assert (answer.text, after.text) == ("It failed.", "Still here.")


PROGRAM = """
import asyncio, os, signal
from stretto import AsyncStretto, ToolCall
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

async def waits():
    os.kill(os.getpid(), signal.SIGINT)
    print("not interrupted")

async def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as at the second Ctrl-C, or without asyncio.run
    asked = Reply(tool_calls=[ToolCall(id="a", name="waits", arguments="{}")])
    async with AsyncStretto(ScriptedBackend({"": asked}, capabilities=Capabilities(tools=True))) as stretto:
        await stretto.ask("Umbrella?", tools=[waits])

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.thorough
def test_ctrl_c_in_a_function_interrupts_the_program():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=patience(60)
    )
    assert (ran.stdout, ran.stderr) == ("interrupted\n", "")


async def test_a_function_that_hangs_is_given_up():
    never = threading.Event()

    async def waits() -> None:
        await anyio.sleep_forever()

    tools = [Tool(waits, timeout_s=0.01), Tool(never.wait, name="blocks", timeout_s=0.01)]
    backend = rounds(Reply(tool_calls=[call("waits"), call("blocks", 2)]), "No news.")
    try:
        answer = await ask(backend, *tools)
    finally:
        never.set()
    assert answer.text == "No news."
    assert results(backend) == ["Error: It gave no result within 0.01 s."] * 2


async def test_calls_end_with_the_request():
    begun, ended = anyio.Event(), anyio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    tasks = len(asyncio.all_tasks())
    async with AsyncStretto(rounds(Reply(tool_calls=[call("waits")]))) as stretto:
        async with stretto.stream("Umbrella?", tools=[waits]):
            await begun.wait()
        assert ended.is_set()
    assert len(asyncio.all_tasks()) == tasks


async def test_the_deadline_ends_a_call_and_keeps_what_is_written():
    async def waits() -> None:
        await anyio.sleep_forever()

    answer = await ask(rounds(Reply("Let me see.", tool_calls=[call("waits")])), waits, deadline_s=30)
    assert (answer.text, answer.finish_reason) == ("Let me see.", "deadline")


async def test_an_endless_asker_has_to_answer_in_the_end():
    backend = ScriptedBackend(
        lambda prompt: (
            "Enough."
            if prompt.tool_choice == "none"
            else Reply(tool_calls=[call("weather", place=f"place {len(prompt.messages)}")])
        ),
        capabilities=TOOLS,
    )
    answer = await ask(backend, weather, budget=Budget(max_tool_rounds=3))
    assert (answer.text, len(backend.calls)) == ("Enough.", 4)
    assert [warning.code for warning in answer.warnings] == ["budget"]


async def test_a_model_that_asks_for_the_same_again_and_again_has_to_answer():
    """As Qwen2.5-Coder-1.5B does with a result before it. What gives another result each time may be asked for more."""
    backend = ScriptedBackend(
        lambda prompt: "Enough." if prompt.tool_choice == "none" else Reply(tool_calls=[call("weather", place="x")]),
        capabilities=TOOLS,
    )
    answer = await ask(backend, weather)
    assert (answer.text, len(backend.calls)) == ("Enough.", 4)
    assert [(w.code, "3 times" in w) for w in answer.warnings] == [("tool", True)]

    left = iter(range(5))

    def state() -> str:
        """How far it is."""
        return f"{next(left)} of 4"

    backend = rounds(*[Reply(tool_calls=[call("state")])] * 5, "Done.")
    answer = await ask(backend, state)
    assert (answer.text, answer.warnings) == ("Done.", ())


async def test_a_model_that_asks_on_when_it_may_not_ends_the_answer():
    backend = ScriptedBackend({"": Reply("Hm.", tool_calls=[call("weather", place="x")])}, capabilities=TOOLS)
    answer = await ask(backend, weather, budget=Budget(max_tool_rounds=1))
    assert (answer.text, answer.finish_reason, answer.tool_calls) == ("Hm.\n\nHm.", "budget", ())
    assert len(backend.calls) == 2


async def test_no_more_functions_are_called_than_the_budget_allows():
    asked = [call("weather", place, place=str(place)) for place in range(5)]
    backend = rounds(Reply(tool_calls=asked), "Two.")
    answer = await ask(backend, weather, budget=Budget(max_tool_calls=2))
    assert answer.text == "Two."
    assert [text.partition(":")[0] for text in results(backend)] == [
        *("Rain in 0 for 1 days.", "Rain in 1 for 1 days.", "Error", "Error", "Error")
    ]
    assert "max_tool_calls=2" in answer.warnings[0]


async def test_the_last_call_of_a_budget_is_for_the_answer():
    backend = rounds(Reply(tool_calls=[call("weather", place="x")]), "Yes.")
    answer = await ask(backend, weather, budget=Budget(max_calls=2))
    assert (answer.text, backend.calls[-1][0].tool_choice) == ("Yes.", "none")


async def test_a_demanded_call_is_demanded_once():
    backend = rounds(Reply(tool_calls=[call("weather", place="x")]), "Yes.")
    await ask(backend, weather, tool_choice="required")
    assert [prompt.tool_choice for prompt, _ in backend.calls] == ["required", None]


async def test_a_tool_that_does_not_exist_is_an_error_for_the_model():
    backend = rounds(Reply(tool_calls=[call("wether"), call("weather", 2, place="x")]), "Yes.")
    answer = await ask(backend, weather)
    assert answer.text == "Yes."
    assert results(backend)[0] == "Error: There is no tool 'wether'. There are: weather."


async def test_calls_of_other_tools_are_left_to_the_caller():
    backend = rounds(Reply("Hm.", tool_calls=[call("approve"), call("weather", 2, place="x")]))
    async with AsyncStretto(backend) as stretto, stretto.stream("?", tools=[DECLARED, weather]) as stream:
        deltas = [event.delta async for event in stream if isinstance(event, ToolCallDelta)]
    answer = stream.answer
    assert (answer.text, answer.finish_reason) == ("Hm.", "tool_calls")
    assert answer.tool_calls == (call("approve"),)
    assert [(delta.index, delta.name, delta.arguments) for delta in deltas] == [(0, "approve", "{}")]
    assert [turn["role"] for turn in answer.turns] == ["assistant", "tool"]
    assert len(answer.turns[0]["tool_calls"]) == 2


async def test_a_stream_that_breaks_in_a_call_keeps_the_calls_before_it():
    async def breaking():
        yield Chunk(tool_calls=(ToolCallFragment(0, "a", "weather", '{"place": "x"}'),))
        yield Chunk(tool_calls=(ToolCallFragment(1, "b", "weather", '{"pla'),))
        raise StreamBrokenError("The stream broke.", backend="scripted:model")

    backend = Asking(breaking)
    answer = await ask(backend, weather)
    assert (answer.text, answer.finish_reason) == ("Done.", "stop")
    assert results(backend) == ["Rain in x for 1 days."]
    assert [warning.code for warning in answer.warnings] == ["tool"]


async def test_what_was_said_stays_when_a_later_round_fails():
    down = Reply(fault=ServerFailedError("out of order", backend="scripted:model"))
    answer = await ask(rounds(Reply("Let me see.", tool_calls=[call("weather", place="x")]), down, down), weather)
    assert (answer.text, answer.finish_reason) == ("Let me see.", "error")
    with pytest.raises(ServerFailedError):
        await ask(rounds(Reply(tool_calls=[call("weather", place="x")]), down, down), weather)


async def test_calls_without_ids_are_told_apart():
    asked = [call("weather", place=place).model_copy(update={"id": ""}) for place in "ab"]
    backend = rounds(Reply(tool_calls=asked), "Yes.")
    await ask(backend, weather)
    *_, turn, first, second = backend.calls[-1][0].messages
    assert [each["id"] for each in turn.tool_calls] == [first.tool_call_id, second.tool_call_id]
    assert first.tool_call_id != second.tool_call_id


async def test_an_answer_in_a_format_is_checked_in_the_round_that_ends_it():
    class City(BaseModel):
        name: str

    backend = rounds(Reply("Hm.", tool_calls=[call("weather", place="x")]), "no JSON", '{"name": "Oslo"}')
    answer = await ask(backend, weather, response_format=City)
    assert (answer.text, answer.parsed) == ('{"name": "Oslo"}', City(name="Oslo"))
    assert "Rain in x for 1 days." in [message.content for message in backend.calls[-1][0].messages]


async def test_long_results_are_cut():
    def much() -> str:
        return "x" * 300_000

    backend = rounds(Reply(tool_calls=[call("much")]), "Much.")
    await ask(backend, much)
    assert results(backend)[0].endswith("\n[cut here: 200,000 more characters]")


@dataclass
class Table:
    rows: list


@pytest.mark.parametrize(
    "value",
    [
        "[0, 0]" * 50_000,
        itertools.repeat([0, 0]),
        [[0, 0]] * 50_000,
        {"rows": {str(number): ({0}, None) for number in range(50_000)}},
        Table([[0, 0]] * 50_000),
        ["x" * 300_000],
    ],
)
async def test_no_more_json_is_written_than_the_model_is_given(value):
    async def much():
        return value

    backend = rounds(Reply(tool_calls=[call("much")]), "Much.")
    await ask(backend, much)
    kept, cut, _ = results(backend)[0].partition("\n[cut here: ")
    assert (len(kept), bool(cut)) == (100_000, True)


async def test_results_below_the_bound_are_whole():
    value = {"a": [1, (2.5, None)], (1, 2): {"x"}, "at": date(2026, 1, 2), "of": Table([Place(name="Bergen")])}

    async def mixed():
        return value

    backend = rounds(Reply(tool_calls=[call("mixed")]), "Much.")
    await ask(backend, mixed)
    assert results(backend)[0] == to_json(value).decode()


async def test_the_event_loop_goes_on_while_a_result_is_written():
    loop_thread = threading.get_ident()
    written_in = []

    class Slow:
        def __str__(self):
            written_in.append(threading.get_ident())
            return "slow"

    async def slow():
        return [Slow()]

    backend = rounds(Reply(tool_calls=[call("slow")]), "There.")
    await ask(backend, slow)
    assert results(backend) == ['["slow"]']
    assert written_in
    assert loop_thread not in written_in


async def test_a_synchronous_function_does_not_hold_the_event_loop():
    thread = threading.get_ident()
    backend = rounds(Reply(tool_calls=[call("where")]), "There.")

    def where() -> int:
        time.sleep(0)
        return threading.get_ident()

    await ask(backend, where)
    assert results(backend) != [str(thread)]


def test_the_synchronous_client_calls_functions_too():
    backend = rounds(Reply(tool_calls=[call("weather", place="Bergen")]), "Yes.")
    with Stretto(backend) as stretto:
        assert stretto.ask("Umbrella?", tools=[weather]).text == "Yes."


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([lambda: 1], "'<lambda>' is no name that models can call"),
        ([weather, weather], "two tools called 'weather'"),
        ([weather, {**DECLARED, "function": {"name": "weather"}}], "two tools called 'weather'"),
        ([{"type": "custom", "custom": {"name": "weather"}}, weather], "two tools called 'weather'"),
        ([DECLARED, {"name": "approve", "input_schema": {}}], "two tools called 'approve'"),
        ([tool(weather), weather], "two tools called 'weather'"),
        ([tool(weather), tool(weather)], "two tools called 'weather'"),
        ([3], "which is not a tool: a Python function"),
        ([Place], "which is not a tool: a Python function"),
        ([print], "no name of its own"),
        ([Tool(weather, name="other"), weather], None),
    ],
)
async def test_functions_that_no_model_can_call_are_refused(tools, said):
    backend = rounds("Yes.")
    if said is None:
        assert (await ask(backend, *tools)).text == "Yes."
        return
    with pytest.raises(InvalidRequestError, match=said):
        await ask(backend, *tools)


async def test_several_answers_cannot_go_on_with_results():
    with pytest.raises(InvalidRequestError, match="n=2 cannot be used with tools= that are functions"):
        await ask(rounds("x"), weather, n=2)


async def test_a_type_that_json_cannot_hold_is_refused():
    def keep(lock: threading.Event) -> None: ...

    with pytest.raises(InvalidRequestError, match="The tool 'keep' cannot be used"):
        await ask(rounds("x"), keep)


async def test_a_tool_of_langchain_is_called():
    @tool
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    backend = rounds(Reply(tool_calls=[call("add", a=1, b="2"), call("add", 2, a="x")]), "Three.")
    answer = await ask(backend, add)
    assert answer.text == "Three."
    three, wrong = results(backend)
    assert three == "3"
    assert wrong.startswith("Error: The arguments do not fit.")
    assert backend.calls[0][0].tools[0]["function"]["description"] == "Adds two numbers."
