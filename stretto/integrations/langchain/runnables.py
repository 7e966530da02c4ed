"""Runnables: a request in and an `Answer` out, a prompt in and a `Route` out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing, closing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import ConfigDict, Field

from stretto.integrations.langchain.caller_loop import aevents, answer_of, events
from stretto.integrations.langchain.connection import Connection
from stretto.integrations.langchain.conversion import documents_of, turns_of
from stretto.values.answer import Answer
from stretto.values.errors import InvalidRequestError
from stretto.values.request import RequestOptions
from stretto.values.route import Route

_PROMPTS = ("prompt", "question", "input", "messages", "query")
_DOCUMENTS = ("documents", "context")


class _OnRequests(Connection):
    """The input parsing of both runnables."""

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    options: dict[str, Any] = Field(default_factory=dict)
    """Options of every request, see `RequestOptions`."""

    def _read(self, given: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the prompt and the options of one input. Raises `InvalidRequestError`."""
        options = {**self.options, **kwargs}
        if isinstance(given, Mapping) and "role" not in given:
            fields = dict(given)
            if not (named := [name for name in _PROMPTS if name in fields]):
                raise InvalidRequestError(
                    f"The input has no prompt (its keys: {', '.join(map(repr, fields)) or 'none'}). Name it one of: "
                    f"{', '.join(_PROMPTS)}."
                )
            given = fields.pop(named[0])
            if found := [name for name in _DOCUMENTS if name in fields]:
                options["documents"] = fields.pop(found[0])
            options |= {name: value for name, value in fields.items() if name in RequestOptions.__annotations__}
        if "documents" in options:
            options["documents"] = documents_of(options["documents"])
        return _prompt(given), options


def _prompt(given: Any) -> Any:
    if isinstance(given, PromptValue):
        return turns_of(given.to_messages())
    if isinstance(given, BaseMessage):
        return turns_of([given])
    if isinstance(given, list | tuple) and any(isinstance(each, BaseMessage) for each in given):
        return [turn for each in given for turn in (turns_of([each]) if isinstance(each, BaseMessage) else [each])]
    return given


class StrettoRunnable(_OnRequests, RunnableSerializable[Any, Answer]):
    r"""A request in, an `Answer` with its branches, route and citations out.

    The input is a prompt (a string, messages, the output of a prompt template, a `Request`), or a dictionary that has
    one as ``question``, ``prompt``, ``input``, ``messages`` or ``query``. A retriever's documents go alongside it, as
    ``documents`` or ``context``, and so can every option of a request. Tracers show the branches as child runs.

    >>> chain = {"documents": retriever, "question": RunnablePassthrough()} | StrettoRunnable(model="local:pocket")
    """

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:  # noqa: A002 - LangChain's name
        """Answer a request. Raises `StrettoError`."""
        return self._call_with_config(self._answer, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:  # noqa: A002 - as above
        """Answer a request in an event loop. Raises `StrettoError`."""
        return await self._acall_with_config(self._aanswer, input, config, **kwargs)

    def _answer(self, given: Any, run_manager: CallbackManagerForChainRun, **kwargs: Any) -> Answer:
        prompt, options = self._read(given, kwargs)
        with closing(events(self.client(), prompt, options, run_manager)) as found:
            return next(answer for event in found if (answer := answer_of(event)) is not None)

    async def _aanswer(self, given: Any, run_manager: AsyncCallbackManagerForChainRun, **kwargs: Any) -> Answer:
        prompt, options = self._read(given, kwargs)
        async with aclosing(aevents(self.client(), prompt, options, run_manager)) as found:
            return [answer async for event in found if (answer := answer_of(event)) is not None][-1]


class RouterRunnable(_OnRequests, RunnableSerializable[Any, Route]):
    """A prompt in, the `Route` out: how the request would be written, on which backend, and why. Calls no model.

    Takes the same input as `StrettoRunnable`. Followed by ``RunnableBranch`` or a function, it sends requests to chains
    of yours by the shape of the answer.
    """

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Route:  # noqa: A002 - LangChain's name
        """Return the route of a request. Raises `StrettoError`."""
        return self._call_with_config(self._route, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Route:  # noqa: A002 - as above
        """Return the route of a request in an event loop. Raises `StrettoError`."""
        return await self._acall_with_config(self._aroute, input, config, **kwargs)

    def _route(self, given: Any, **kwargs: Any) -> Route:
        prompt, options = self._read(given, kwargs)
        return self.client().route(prompt, **options)

    async def _aroute(self, given: Any, **kwargs: Any) -> Route:
        prompt, options = self._read(given, kwargs)
        return await self.client().asynchronous.route(prompt, **options)
