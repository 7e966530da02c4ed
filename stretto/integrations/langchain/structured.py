"""`with_structured_output`: constrains a chat model to a schema, and parses its answers."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from stretto.backends.provider_table import on_this_machine
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from stretto.integrations.langchain.chat_model import ChatStretto

_WHOLE = (None, "auto", "direct", "fields", "document")
_METHODS = ("json_schema", "function_calling", "json_mode")


def structured(
    chat: ChatStretto, schema: Any, *, method: str | None, include_raw: bool, strict: bool | None, **kwargs: Any
) -> Runnable[Any, Any]:
    """Return the model constrained to a schema, followed by a parser. Raises `InvalidRequestError` for a bad method."""
    able = chat.capabilities
    method = method or ("json_schema" if able.json_schema else "function_calling" if able.tools else "json_mode")
    if method not in _METHODS:
        raise InvalidRequestError(f"method={method!r} is not known. Use one of: {', '.join(_METHODS)}.")
    shown = {"kwargs": {"method": method, "strict": strict}, "schema": convert_to_json_schema(schema)}
    is_class = isinstance(schema, type) and is_basemodel_subclass(schema)
    parser: BaseOutputParser[Any]
    bound: Runnable[Any, Any]
    if method == "function_calling":
        tool = convert_to_openai_tool(schema, strict=strict)
        name = tool["function"]["name"]
        bound = chat.bind_tools([tool], tool_choice=name, ls_structured_output_format=shown, **kwargs)
        parser = (
            PydanticToolsParser(tools=[schema], first_tool_only=True)
            if is_class
            else JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        )
    else:
        schema_form = {"schema": convert_to_json_schema(schema, strict=strict), "strict": strict}
        wanted: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": schema_form}}
        if method == "json_mode":
            # A local model can be constrained to any object; OpenAI has a mode for it; others only see the prompt.
            openai = chat.called.partition(":")[0] in ("openai", *on_this_machine())
            wanted = {"response_format": {"type": "object"}} if able.regex else {}
            wanted |= {"extra": {"response_format": {"type": "json_object"}}} if openai else {}
        if chat.strategy not in _WHOLE:  # it writes parts, but a schema applies to the whole
            wanted["strategy"] = "direct"
        bound = chat.bind(ls_structured_output_format=shown, **wanted | kwargs)
        parser = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
    if not include_raw:
        return bound | parser
    parsing = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    failed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=bound) | parsing.with_fallbacks([failed], exception_key="parsing_error")
