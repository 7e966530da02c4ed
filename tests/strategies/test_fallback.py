"""Which failures let another model go on, which model that is, and what it is asked."""

from dataclasses import dataclass

import pytest

from stretto import AsyncStretto, Budget, InvalidRequestError, Settings, SettingsError
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import (
    AllModelsFailedError,
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    ContextOverflowError,
    RequestRejectedError,
    ServerFailedError,
    StreamBrokenError,
)

pytestmark = pytest.mark.anyio

OUTLINE = {"Write only the outline": "1. Tyres\n2. Chain\n3. Brakes"}


def failing(error, name="own:a", **capabilities):
    error.backend = name
    return ScriptedBackend({"": Reply(fault=error)}, name=name, capabilities=Capabilities(**capabilities))


def answering(text="An answer.", name="own:b", script=None, **capabilities):
    return ScriptedBackend({**(script or {}), "": text}, name=name, capabilities=Capabilities(**capabilities))


async def ask(main, *fallback, question="Why?", **options):
    async with AsyncStretto(main, fallback=fallback) as stretto:
        return await stretto.ask(question, **({"strategy": "direct"} | options))


@pytest.mark.parametrize("error", [AuthenticationError, BreakerOpenError, ServerFailedError, BackendError])
async def test_a_failure_of_the_model_lets_the_next_one_go_on_at_once(error):
    main = failing(error("It failed."))
    answer = await ask(main, answering())
    assert answer.text == "An answer."
    assert len(main.calls) == 1


async def test_an_empty_answer_is_a_failure_too():
    answer = await ask(ScriptedBackend({"": ""}, name="own:a"), answering())
    assert answer.text == "An answer."
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("fallback", "direct")]


async def test_models_are_asked_in_their_order():
    models = [failing(ServerFailedError(f"{name} is down."), name) for name in ("own:a", "own:b")]
    answer = await ask(*models, answering(name="own:c"))
    assert [writer.model for writer in answer.branches[0].writers] == ["own:a", "own:b", "own:c"]
    assert answer.warnings == ("The answer was written by own:c for own:a and own:b: own:a is down. own:b is down.",)


async def test_a_request_that_was_refused_goes_to_no_other_model():
    other = answering()
    with pytest.raises(RequestRejectedError, match="no such role"):
        await ask(failing(RequestRejectedError("There is no such role.")), other)
    assert other.calls == []


async def test_an_option_that_one_model_does_not_take_goes_to_the_next():
    error = RequestRejectedError("own:a takes no temperature.")
    error.parameter = "temperature"
    assert (await ask(failing(error), answering(), temperature=0.5)).text == "An answer."


async def test_a_prompt_that_is_too_long_goes_to_a_larger_window_only():
    too_long = failing(ContextOverflowError("The prompt is too long."), context_window=8_000)
    small = answering(name="own:b", context_window=8_000)
    large = answering("Read.", name="own:c", context_window=64_000)
    assert (await ask(too_long, small, large)).text == "Read."
    with pytest.raises(ContextOverflowError, match=r"own:b was not asked: its context window is no larger\."):
        await ask(too_long, small)
    assert small.calls == []


async def test_a_refusal_is_the_answer_of_the_model_and_goes_to_no_other():
    other = answering()
    refusing = ScriptedBackend({"": Reply("I cannot help with that.", finish_reason="refusal")}, name="own:a")
    assert (await ask(refusing, other)).finish_reason == "refusal"
    assert other.calls == []


@dataclass
class Mistaken(ScriptedBackend):
    """A backend of a caller's own with a mistake."""

    def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        raise ZeroDivisionError


async def test_a_mistake_in_the_callers_own_code_reaches_the_caller():
    other = answering()
    with pytest.raises(ZeroDivisionError):
        await ask(Mistaken({"": ""}), other)
    assert other.calls == []


async def test_a_model_that_cannot_do_what_the_request_needs_is_not_asked():
    other = answering()
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    main = failing(ServerFailedError("own:a is down."), tools=True)
    with pytest.raises(ServerFailedError, match=r"own:a is down\. own:b was not asked: tools= cannot be used"):
        await ask(main, other, tools=[tool])
    assert other.calls == []
    with pytest.raises(InvalidRequestError, match="own:b takes no tools"):  # as without any fallback
        await ask(other, main, tools=[tool])


async def test_a_model_that_cannot_be_reached_is_asked_once_in_an_answer():
    main = failing(AuthenticationError("own:a knows you not."))
    answer = await ask(
        main,
        answering("Text of it.", script=OUTLINE),
        question="Give tips.",
        strategy="skeleton",
        strategy_options={"form": "points"},
    )
    assert answer.text.count("Text of it.") == 3
    assert len(main.calls) == 1
    (warning,) = answer.warnings
    assert (warning.code, warning.part) == ("fallback", None)
    assert all(name in warning for name in ("The outline", "'Tyres'", "'Chain'", "'Brakes'"))


async def test_the_budget_of_calls_holds_for_all_models_together():
    main, other = failing(ServerFailedError("own:a is down.")), answering()
    with pytest.raises(ServerFailedError, match=r"own:a is down"):
        await ask(main, other, budget=Budget(max_calls=1))
    assert other.calls == []


async def test_the_budget_of_tokens_holds_for_all_models_together():
    main, other = failing(ServerFailedError("own:a is down.")), answering()
    with pytest.raises(ServerFailedError, match=r"own:a is down"):
        await ask(main, other, question="Why? " * 40, budget=Budget(max_tokens_total=80))
    assert other.calls == []


async def test_an_answer_in_a_format_is_written_anew_because_nobody_has_seen_its_beginning():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    main = ScriptedBackend({"": Reply(chunks=['{"n"', ": "], fault=StreamBrokenError("Broke."), fault_after=2)})
    answer = await ask(main, answering('{"n": 3}', json_schema=True), response_format=schema)
    assert answer.parsed == {"n": 3}
    assert answer.usage.discarded_tokens == answer.branches[0].writers[0].usage.completion_tokens


async def test_a_second_try_in_a_format_is_asked_for_as_the_model_needs_it_that_goes_on():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    script = {"That cannot be used": Reply(fault=ServerFailedError("Down."))}
    main, other = answering("no JSON", "own:a", script, json_schema=True), answering('{"n": 3}', json_schema=False)
    assert (await ask(main, other, response_format=schema)).parsed == {"n": 3}
    second, theirs = (
        "".join(message.content for message in prompt.messages) for (prompt, _) in (main.calls[1], other.calls[0])
    )
    assert ('"properties"' in second, '"properties"' in theirs) == (False, True)


async def test_a_model_without_history_is_shown_the_question_alone():
    turns = ["One.", {"role": "assistant", "content": "Two."}, "Three?"]
    other = answering(reads_history=False)
    await ask(failing(ServerFailedError("Down.")), other, question=[{"role": "system", "content": "Be kind."}, *turns])
    (prompt, _), *_ = other.calls
    assert [message.content for message in prompt.messages] == ["Be kind.", "Three?"]


async def test_prompts_are_those_of_the_model_that_is_asked():
    main = failing(BreakerOpenError("own:a is left alone."))
    other = answering("1. Tyres\n2. Chain\n3. Brakes", prompt_family="pocket")
    await ask(
        main, other, question="How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
    )
    ours, theirs = main.calls[0][0].messages[-1].content, other.calls[0][0].messages[-1].content
    assert "Write only the outline" in ours
    assert theirs != ours


async def test_a_model_that_goes_on_with_a_turn_is_given_the_text_as_one():
    main = ScriptedBackend({"": Reply(chunks=["Oil", " it"], fault=StreamBrokenError("Broke."), fault_after=2)})
    other = answering(" now and then.", continues=True)
    assert (await ask(main, other)).text == "Oil it now and then."
    (prompt, _), *_ = other.calls
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("user", "Why?"),
        ("assistant", "Oil it"),
    ]


async def test_each_model_is_paid_by_its_own_price(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'as_of = 2026-01-01\nsource = "mine"\n'
        '[models."own:a"]\ninput = 1000000\noutput = 0\n[models."own:b"]\ninput = 0\noutput = 1000000\n'
    )
    main = ScriptedBackend({"": Reply(chunks=["An "], fault=StreamBrokenError("Broke."), fault_after=1)}, name="own:a")
    async with AsyncStretto(main, fallback=answering("answer."), settings=Settings(prices=prices)) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    first, second = (writer.usage for writer in answer.branches[0].writers)
    assert answer.cost.usd == first.prompt_tokens + second.completion_tokens
    assert answer.cost.source == "mine"


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        (["local:pocket"], "which is the main model already"),
        (["local:other", "local:other"], "'local:other' twice"),
        ([5], "fallback= takes a model, not a value of type int"),
        ("nonsense", "passed as fallback=, is not known"),
    ],
)
def test_a_fallback_that_cannot_be_used_is_a_clear_error(fallback, said):
    with pytest.raises((SettingsError, ValueError), match=said):
        AsyncStretto("local:pocket", fallback=fallback)


def test_the_settings_name_fallbacks_too(monkeypatch):
    monkeypatch.setenv("STRETTO_FALLBACK", "local:pocket, local:other")
    assert [each.name for each in AsyncStretto("openai:x", api_key="any").fallback] == ["local:pocket", "local:other"]
    assert [each.name for each in AsyncStretto("local:pocket").fallback] == ["local:other"]
    assert AsyncStretto("local:pocket", fallback=()).fallback == ()


def test_a_model_that_has_a_role_is_opened_once():
    client = AsyncStretto("openai:x", api_key="any", roles={"local": "local:pocket"}, fallback="local:pocket")
    assert client.fallback[0] is client.backends["local"]


async def test_an_error_that_names_all_models_knows_each_error():
    models = [
        failing(error, name)
        for error, name in ((BreakerOpenError("Open."), "own:a"), (AuthenticationError("No."), "own:b"))
    ]
    with pytest.raises(AllModelsFailedError, match=r"Every model failed\. own:a: Open\. own:b: No\.") as caught:
        await ask(*models)
    assert [type(each) for each in caught.value.errors] == [BreakerOpenError, AuthenticationError]
