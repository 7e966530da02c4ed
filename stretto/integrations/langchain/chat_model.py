"""`ChatStretto`: a LangChain chat model that writes its answers in parallel where that helps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForLLMRun,
    CallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import AliasChoices, ConfigDict, Field

from stretto.backends.base import Capabilities, ModelRequest
from stretto.client.sync_client import Stretto
from stretto.integrations.langchain.caller_loop import aevents, answer_of, events
from stretto.integrations.langchain.connection import Connection
from stretto.integrations.langchain.conversion import documents_of, turns_of
from stretto.integrations.langchain.results import chunk_of, result_of
from stretto.integrations.langchain.stream_runs import parent_of_stream, under, with_stream_run
from stretto.integrations.langchain.structured import structured
from stretto.values.answer import Answer
from stretto.values.budget import Budget
from stretto.values.request import OnLoop, OnMissing, Preference, Request, RequestOptions

_MODEL_KWARGS = frozenset({"model", "model_name", "stream", "stream_usage"})  # given per call, not body fields
_CHOICES = {"any": "required", True: "required", False: "none"}


class ChatStretto(Connection, BaseChatModel):
    """A chat model that writes the parts of an answer in parallel where that serves the answer.

    What cannot be written in parts, such as a tool call, goes to the model unchanged. The route, its reason and the
    warnings of an answer are in ``response_metadata``. Tracers show the branches of an answer as runs below its own.

    ``timeout`` is LangChain's name for ``deadline_s``.

    All other fields, apart from those of `Connection` and of LangChain's chat models, are options of each request; see
    `RequestOptions`. They can also be bound or passed per call, as can `documents`.

    >>> chat = ChatStretto(model="local:pocket")
    >>> print(chat.invoke("How do I look after a bicycle?").content)
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    temperature: float | None = None
    max_tokens: int | None = Field(default=None, validation_alias=AliasChoices("max_tokens", "max_completion_tokens"))
    part_tokens: int | None = None
    max_parallel_parts: int | None = None
    timeout: float | None = Field(
        default=None, validation_alias=AliasChoices("timeout", "request_timeout", "deadline_s")
    )
    """Seconds for the whole answer; whatever is complete by then is returned."""

    stop: list[str] | None = Field(default=None, validation_alias=AliasChoices("stop", "stop_sequences"))
    top_p: float | None = None
    seed: int | None = None
    n: int | None = None
    logprobs: int | None = None
    streaming: bool = False
    """Stream even if a whole message is requested, so that callbacks see each chunk."""

    strategy: str | None = None
    strategy_options: Mapping[str, Any] | None = None
    preference: Preference | None = None
    on_missing: OnMissing | None = None
    on_loop: OnLoop | None = None
    budget: dict[str, float | None] | None = None
    """The limits of a `Budget` by name, because a LangChain chat model must be serialisable as JSON."""

    decoding: str | None = None
    adapter: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Other fields of the request body, for the model's server."""

    @property
    def _llm_type(self) -> str:
        return "stretto"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        given = self.backend
        backend = given._identifying_params if isinstance(given, BaseChatModel) else given and given.name
        return {"model": self.model, "backend": backend, "base_url": self.base_url, **self._own_options()}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        params = super()._get_ls_params(stop=stop, **kwargs)
        return {"ls_model_name": self.model or self.called, **params}

    # --- answers

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Stream the message in chunks; the last one contains usage, route and finish reason."""
        return super().stream(input, with_stream_run(config, CallbackManager), stop=stop, **kwargs)

    def astream(
        self,
        input: LanguageModelInput,  # noqa: A002 - as above
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """Stream the message in an event loop."""
        return super().astream(input, with_stream_run(config, AsyncCallbackManager), stop=stop, **kwargs)

    def _generate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        token = under.set(run_manager)
        try:
            return super()._generate_with_cache(messages, stop=stop, run_manager=run_manager, **kwargs)
        finally:
            under.reset(token)

    async def _agenerate_with_cache(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        token = under.set(run_manager)
        try:
            return await super()._agenerate_with_cache(messages, stop=stop, run_manager=run_manager, **kwargs)
        finally:
            under.reset(token)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        client, prompt, options = self._request(messages, stop, kwargs)
        with closing(events(client, prompt, options, run_manager)) as found:
            answer = _last(answer_of(event) for event in found)
        return result_of(answer)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        client, prompt, options = self._request(messages, stop, kwargs)
        async with aclosing(aevents(client, prompt, options, run_manager)) as found:
            answer = _last([answer_of(event) async for event in found])
        return result_of(answer)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        parent = run_manager or parent_of_stream()
        client, prompt, options = self._request(messages, stop, kwargs)
        with closing(events(client, prompt, options, parent)) as found:
            for event in found:
                if (chunk := chunk_of(event)) is not None:
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        parent = run_manager or parent_of_stream()
        client, prompt, options = self._request(messages, stop, kwargs)
        async with aclosing(aevents(client, prompt, options, parent)) as found:
            async for event in found:
                if (chunk := chunk_of(event)) is not None:
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _own_options(self) -> dict[str, Any]:
        fields = type(self).model_fields
        own = {name: getattr(self, name) for name in RequestOptions.__annotations__ if name in fields}
        return own | {"deadline_s": self.timeout, "stop": self.stop or None}

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, given: Mapping[str, Any]
    ) -> tuple[Stretto, list[dict[str, Any]], dict[str, Any]]:
        """Return the client, conversation and options of one call. Anything else goes into the body unchanged."""
        options_given = {name: value for name, value in given.items() if value is not None}
        options = self._own_options() | {
            name: options_given[name] for name in options_given if name in RequestOptions.__annotations__
        }
        if "timeout" in options_given:
            options["deadline_s"] = options_given["timeout"]
        if stop:
            options["stop"] = stop
        if "documents" in options:
            options["documents"] = documents_of(options["documents"])
        if isinstance(limits := options.get("budget"), Mapping):
            options["budget"] = Budget(**limits)
        others = {
            name: value for name, value in options_given.items() if name not in {*options, *_MODEL_KWARGS, "timeout"}
        }
        options["extra"] = {**self.model_kwargs, **(options_given.get("extra") or {}), **others} or None
        return self.client(options_given.get("model") or options_given.get("model_name")), turns_of(messages), options

    # --- tools and formats

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the same model with tools that it can call.

        ``tool_choice`` is "auto", "none", "any" (or "required", or ``True``), the name of the tool to call, or a
        mapping in OpenAI's or Anthropic's format.
        """
        own = [each if _is_provider_tool(each) else convert_to_openai_tool(each, strict=strict) for each in tools]
        choice: Any = tool_choice
        if isinstance(choice, str | bool):
            choice = _CHOICES.get(choice, choice)
        if isinstance(choice, str) and choice not in ("auto", "none", "required"):
            choice = {"type": "function", "function": {"name": choice}}
        return self.bind(tools=own, **({} if choice is None else {"tool_choice": choice}), **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        method: Literal["json_schema", "function_calling", "json_mode"] | None = None,
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the same model with structured answers: instances of a pydantic class, or dictionaries.

        Args:
            schema: a pydantic class, a ``TypedDict``, a JSON schema, or a tool.
            method: ``json_schema`` constrains the answer to the schema, and asks once more if it does not match;
                ``function_calling`` lets the model call a tool that takes such a value; ``json_mode`` asks for any
                JSON. By default the first of them that the model supports.
            include_raw: return a dictionary with ``raw``, ``parsed`` and ``parsing_error`` instead.
            strict: OpenAI's strict mode, for tools and schemas.
            kwargs: bound to the model as well.
        """
        return structured(self, schema, method=method, include_raw=include_raw, strict=strict, **kwargs)

    # --- tokens

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text as a one-message conversation; estimate them if only the server could count."""
        return self.get_num_tokens_from_messages([HumanMessage(text)])

    def get_num_tokens_from_messages(self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None) -> int:
        """Count the tokens of a conversation for ``trim_messages``. LangChain's default loads GPT-2's tokenizer."""
        if not messages:
            return 0
        client = self.client()
        own = [each if _is_provider_tool(each) else convert_to_openai_tool(each) for each in tools or ()]
        request = Request.of(turns_of(messages), tools=own or None)
        prompt = ModelRequest(request.messages, tools=request.tools)
        return client._loop.call(partial(client.backends["main"].count_tokens, prompt))

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model that answers."""
        return self.client().backends["main"].capabilities


def _is_provider_tool(tool: Any) -> bool:
    """Return whether a tool is run by a provider or in Anthropic's format; such tools are passed on unchanged."""
    if not isinstance(tool, Mapping):
        return False
    return "input_schema" in tool or ("type" in tool and tool["type"] != "function")


def _last(answers: Iterable[Answer | None]) -> Answer:
    return [answer for answer in answers if answer is not None][-1]
