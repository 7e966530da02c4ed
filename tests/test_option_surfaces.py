"""An option of a request has one name in Python, on the command line, on the server and in LangChain."""

import inspect
from contextlib import asynccontextmanager

import anyio
import pytest

from stretto import AsyncStretto, InvalidRequestError, RequestOptions
from stretto.cli import ask
from stretto.cli.terms import in_options
from stretto.extending import Capabilities
from stretto.integrations.langchain import ChatStretto
from stretto.server.extension import Extension
from stretto.testing import ScriptedBackend

OPTIONS = set(RequestOptions.__annotations__)
SERVER_ONLY = {"events"}
ELSEWHERE = {"system", "tools", "tool_choice", "n", "extra", "response_format", "logprobs"}
"""Those that every API and LangChain write in their own way."""
SAMPLING = {"max_tokens", "temperature", "top_p", "stop", "seed"}
OUTLINE = "1. Tyres\n2. Chain\n3. Brakes\n4. Lights\n5. Saddle\n"


def test_the_server_has_every_option_that_other_apis_have_not():
    assert set(Extension.model_fields) - SERVER_ONLY == OPTIONS - ELSEWHERE - SAMPLING


def test_the_command_line_has_no_other_names_than_python():
    taken = set(inspect.signature(ask.ask).parameters)
    assert {"part_tokens", "concurrent_points", "on_missing", "on_loop"} <= taken & OPTIONS


def test_langchain_has_no_other_names_than_python():
    assert {"part_tokens", "concurrent_points", "strategy", "preference", "on_missing"} <= set(ChatStretto.model_fields)


def test_messages_for_a_terminal_name_its_own_options():
    assert in_options("concurrent_points=0 cannot be used") == "--concurrent-points 0 cannot be used"


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
        answer = await stretto.ask("Give me five tips.", strategy="skeleton", concurrent_points=given)
    assert (answer.strategy, backend.most) == ("skeleton", most)


@pytest.mark.anyio
async def test_points_at_a_time_are_a_number_from_one():
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        with pytest.raises(InvalidRequestError, match="concurrent_points=0 cannot be used"):
            await stretto.ask("Why?", concurrent_points=0)
