"""An option of a request, or of a local model, has one name in Python, on the command line and everywhere else."""

import inspect
import re
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from typer.main import get_command

from stretto import AsyncStretto, Budget, InvalidRequestError, RequestOptions
from stretto.cli.app import app
from stretto.cli.local_models import OF_A_LOCAL_MODEL
from stretto.cli.options import OF_A_REQUEST
from stretto.cli.output.plain import OPTIONS as TERMS
from stretto.cli.output.plain import in_options
from stretto.config.settings import Settings
from stretto.extending import Capabilities
from stretto.integrations.langchain import ChatStretto
from stretto.local import LocalBackend
from stretto.server.apis.extension import IN_EVERY_API, Extension
from stretto.server.problems import Problem
from stretto.testing import ScriptedBackend

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = set(RequestOptions.__annotations__)
PROGRAMS = "what a program makes of it does not fit on a command line"
NOT_ON_THE_COMMAND_LINE = {
    "budget": "--max-tokens and --deadline bound a command",
    "tools": "nobody at a terminal runs what the model calls",
    "tool_choice": "likewise",
    "n": "a terminal shows one answer",
    "response_format": "--schema FILE of `ask` and `chat`: the other commands make no record",
    "extra": PROGRAMS,
}
OTHERWISE_ON_THE_COMMAND_LINE = {"documents": "--document", "deadline_s": "--deadline"}
"""One file at a time; and seconds, as the help says."""

SERVER_ONLY = {"events"}
OTHERWISE_IN_LANGCHAIN = {
    "deadline_s": "its field timeout",
    "system": "a message of the conversation",
    "documents": "given at a call: they belong to one question",
    "tools": "bind_tools()",
    "tool_choice": "bind_tools()",
    "response_format": "with_structured_output()",
    "extra": "its field model_kwargs",
}
OTHERWISE_OF_A_LOCAL_MODEL = {
    "decoding": "an option of a request, too",
    "adapters": "STRETTO_ADAPTERS",
    "progress": "the command line shows what it waits for",
}
NOT_MEASURED = {"long_context", "draft_corpus"}
OUTLINE = "1. Tyres\n2. Chain\n3. Brakes\n4. Lights\n5. Saddle\n"


def command(name):
    return get_command(app).commands[name]


def test_the_field_of_the_server_has_every_option_that_other_apis_have_not():
    with pytest.raises(Problem) as refused:
        Extension.of({"stretto": {"?": 1}})
    has = set(refused.value.message.partition("Its arguments are: ")[2].rstrip(".").split(", "))
    assert has - SERVER_ONLY == OPTIONS - IN_EVERY_API
    assert IN_EVERY_API <= OPTIONS


def test_the_server_names_the_limit_of_a_budget_that_cannot_be_used():
    with pytest.raises(Problem) as refused:
        Extension.of({"stretto": {"budget": {"max_calls": 0}}})
    assert refused.value.param == "stretto.budget.max_calls"
    assert refused.value.message.startswith("stretto.budget.max_calls=0 cannot be used: ")


@pytest.mark.parametrize("name", ["ask", "route"])
def test_the_command_line_has_every_option(name):
    flags = {flag for each in command(name).params for flag in each.opts}
    ours = {name: OTHERWISE_ON_THE_COMMAND_LINE.get(name, f"--{name.replace('_', '-')}") for name in OPTIONS}
    assert {name for name, flag in ours.items() if flag not in flags} == set(NOT_ON_THE_COMMAND_LINE)


def test_shells_complete_every_option():
    context = command("ask").make_context("ask", [], resilient_parsing=True)
    offered = {each.value for each in command("ask").shell_complete(context, "--")}
    assert {TERMS[name] for name in OF_A_REQUEST} <= offered


def test_messages_for_a_terminal_know_every_option():
    assert set(TERMS) & OPTIONS == OPTIONS - NOT_ON_THE_COMMAND_LINE.keys()
    flags = {flag for each in command("ask").params for flag in each.opts}
    assert set(TERMS.values()) <= flags


@pytest.mark.parametrize(
    ("name", "without"), [("ask", set()), ("chat", set()), ("serve", set()), ("bench", NOT_MEASURED)]
)
def test_commands_have_every_option_of_a_local_model(name, without):
    flags = {flag for each in command(name).params for flag in each.opts}
    ours = {option: f"--{option.replace('_', '-')}" for option in OF_A_LOCAL_MODEL} | {"compiled": "--no-compiled"}
    assert {option for option, flag in ours.items() if flag not in flags} == without


def test_the_command_line_has_every_setting_of_a_local_model():
    settings = inspect.signature(LocalBackend).parameters.keys() & Settings.model_fields.keys()
    assert settings - {"model"} == OF_A_LOCAL_MODEL.keys() | OTHERWISE_OF_A_LOCAL_MODEL.keys()


def test_langchain_has_every_option():
    assert OPTIONS - ChatStretto.model_fields.keys() == OTHERWISE_IN_LANGCHAIN.keys()


def test_langchain_passes_every_option_on():
    given = {"part_tokens": 3, "max_parallel_parts": 2, "budget": {"max_calls": 4}}
    chat = ChatStretto(model="local:pocket", timeout=5.0, **given)
    own = chat._own_options()
    assert OPTIONS - own.keys() == OTHERWISE_IN_LANGCHAIN.keys() - {"deadline_s"}
    assert {name: value for name, value in own.items() if value is not None} == {**given, "deadline_s": 5.0}
    assert chat._request([], None, {})[2]["budget"] == Budget(max_calls=4)


def test_the_reference_lists_every_option():
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    section = page.partition("### `RequestOptions`")[2].partition("\n### ")[0]
    assert set(re.findall(r"^- `(\w+)`", section, re.MULTILINE)) == OPTIONS, "Run: make docs"


def test_messages_for_a_terminal_name_its_own_options():
    assert in_options("max_parallel_parts=0 cannot be used") == "--max-parallel-parts 0 cannot be used"


class Counting(ScriptedBackend):
    """Counts how many points are written at the same time."""

    now, most = 0, 0

    def stream(self, prompt, options):
        return self._counted(super().stream(prompt, options), "Write only the outline" in str(prompt))

    def _counted(self, stream, is_outline):
        @asynccontextmanager
        async def counted():
            self.now += 0 if is_outline else 1
            self.most = max(self.most, self.now)
            try:
                async with stream as chunks:
                    for _ in range(50):  # so that all that may run have begun before the first one ends
                        await anyio.lowlevel.checkpoint()
                    yield chunks
            finally:
                self.now -= 0 if is_outline else 1

        return counted()


@pytest.mark.anyio
@pytest.mark.parametrize(("given", "most"), [(None, 5), (2, 2), (1, 1)])
async def test_no_more_points_are_written_at_a_time_than_asked_for(given, most):
    backend = Counting(
        {"Write only the outline": OUTLINE, "": "Some words about it."}, capabilities=Capabilities(concurrent_calls=8)
    )
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(
            "Give me five tips.", strategy="skeleton", strategy_options={"form": "points"}, max_parallel_parts=given
        )
    assert (answer.strategy, backend.most) == ("skeleton", most)


@pytest.mark.anyio
async def test_points_at_a_time_are_a_number_from_one():
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        with pytest.raises(InvalidRequestError, match="max_parallel_parts=0 cannot be used"):
            await stretto.ask("Why?", max_parallel_parts=0)
