"""What goes between the server and the replicas arrives as it was sent."""

import inspect
import time

import pytest

from stretto.backends.base import Capabilities, Chunk, ModelRequest, Stages
from stretto.backends.tenants import UNKNOWN, asked_for, asking
from stretto.integrations.ray_serve import RayOptions, build, wire
from stretto.integrations.ray_serve.engine import Engine
from stretto.testing import ScriptedBackend
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, ContextOverflowError, InvalidRequestError, StalledError
from stretto.values.request import GenerationOptions, Message
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCallFragment

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def asked(*texts, shared=0):
    roles = ("user", "assistant") * len(texts)
    turns = [Message(role=role, content=text) for role, text in zip(roles, texts, strict=False)]
    return ModelRequest((Message(role="system", content="Be brief."), *turns), shared=shared)


def test_a_call_arrives_with_everything_in_it():
    prompt = ModelRequest(
        (
            Message(role="user", content=[{"type": "text", "text": "Что? 😀"}, {"type": "image_url", "image_url": {}}]),
            Message(role="assistant", content="", tool_calls=(CALL,)),
            Message(role="tool", content="found", tool_call_id="1"),
        ),
        effort="low",
        response_schema={"type": "object"},
        shared=3,
        tools=(TOOL,),
        tool_choice={"type": "function", "function": {"name": "look"}},
        n=2,
        extra={"top_k": 3, "logit_bias": {"7": -1}},
        reads=True,
    )
    options = GenerationOptions(max_tokens=9, stop=("a", "b"), temperature=0.5, seed=0, decoding="suffix", logprobs=2)
    assert wire.read_call(wire.call_text(prompt, options)) == (prompt, options, None)
    assert wire.read_prompt(wire.prompt_text(prompt)) == prompt


@pytest.mark.parametrize("tenant", ["anna", UNKNOWN])
def test_a_call_says_for_whom_it_is(tenant):
    with asked_for(tenant):
        call = wire.call_text(ModelRequest((Message(role="user", content="Hi."),)), GenerationOptions())
    assert wire.read_call(call)[2] == tenant


class Noting(ScriptedBackend):
    """Notes for whom it was called."""

    def stream(self, prompt, options):
        self.tenant = asking()
        return super().stream(prompt, options)


@pytest.mark.anyio
async def test_a_replica_writes_for_the_tenant_of_the_server_and_for_nobody_else():
    replica = object.__new__(Engine)  # without a model
    replica._backend = Noting({"": "Hello."})
    with asked_for("anna"):
        call = wire.call_text(ModelRequest((Message(role="user", content="Hi."),)), GenerationOptions())
    async for _ in replica._chunks(call):
        assert asking() is None
    assert replica._backend.tenant == "anna"


def test_a_field_that_json_cannot_hold_is_refused():
    with pytest.raises(InvalidRequestError, match="another machine"):
        wire.call_text(
            ModelRequest((Message(role="user", content="Hi."),), extra={"odd": object()}), GenerationOptions()
        )


def test_a_chunk_arrives_with_everything_in_it():
    chunk = Chunk(
        text='{"failed": {"kind": "StalledError"}}',  # a model may write what it likes
        usage=Usage(prompt_tokens=3, calls=1),
        finish_reason="tool_calls",
        decoding=DecodingStats(methods=("suffix",), steps=3, drafted={"suffix": 2}),
        logprobs=(TokenLogprob(token="a", logprob=-0.5, top=(("a", -0.5),)),),  # noqa: S106 - of a text
        warnings=("Careful.",),
        thinking=True,
        tool_calls=(ToolCallFragment(id="1", name="look", arguments="{}"),),
        thoughts=({"type": "thinking", "thinking": "Hm."},),
        choice=1,
    )
    assert wire.read_chunk(wire.chunk_text(chunk)) == chunk
    assert wire.read_chunk(wire.chunk_text(Chunk())) == Chunk()


def test_times_of_stages_are_told_as_the_clock_of_the_reader_has_them():
    told = wire.read_chunk(wire.chunk_text(Chunk(stages=Stages(loaded_s=time.perf_counter() - 100))))
    assert told.stages.loaded_s == pytest.approx(time.perf_counter() - 100, abs=10)
    assert told.stages.admitted_s is None


@pytest.mark.parametrize(
    "error",
    [
        StalledError("Silent.", retry_after_s=2.5, status=504),
        ContextOverflowError("Too long."),
        InvalidRequestError("decoding='magic'"),
        BackendError("Closed.", transient=True),
    ],
)
def test_an_error_is_raised_where_it_is_read(error):
    with pytest.raises(type(error)) as caught:
        wire.read_chunk(wire.error_text(error))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    for name in ("transient", "status", "retry_after_s"):
        assert getattr(caught.value, name, None) == getattr(error, name, None)


def test_an_error_of_another_package_arrives_as_the_nearest_of_ours():
    class OwnError(StalledError):
        pass

    with pytest.raises(StalledError, match="Silent"):
        wire.read_chunk(wire.error_text(OwnError("Silent.")))


def test_capabilities_arrive():
    told = Capabilities(context_window=9, tools=True, decodings=("suffix",), passage_tokens=256)
    assert wire.read_capabilities(wire.capabilities_text(told)) == told


def test_the_turns_of_a_conversation_are_one_session_and_other_conversations_are_others():
    first, second = asked("How are you?"), asked("How are you?", "Well.", "And now?")
    assert wire.session_of(first) == wire.session_of(second)
    assert wire.session_of(first) != wire.session_of(asked("Who are you?"))


def test_the_points_of_an_answer_are_one_session():
    question = "How do I look after a bicycle?"
    points = [wire.session_of(asked(f"{question} Write point {number}.", shared=len(question))) for number in (1, 2)]
    assert points[0] == points[1]
    assert points[0] != wire.session_of(asked("Another question? Write point 1.", shared=len("Another question?")))


def test_serve_run_finds_out_what_its_arguments_are():
    assert [each.annotation for each in inspect.signature(build).parameters.values()] == [RayOptions]


def test_more_replicas_at_least_than_at_most_are_refused():
    assert RayOptions(engines=3).most_engines == 3
    with pytest.raises(ValueError, match="most_engines=2 is less than engines=3"):
        RayOptions(engines=3, most_engines=2)
    with pytest.raises(ValueError, match="modell"):
        RayOptions(modell="local:pocket")
