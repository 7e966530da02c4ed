"""Functions of the caller that a model may ask for, and that the library then calls.

What the model is shown comes from the function's signature and docstring; pydantic checks what the model sends before
the function gets it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from stretto.foundation.arguments import reason, safe_repr
from stretto.foundation.threads import in_own_thread
from stretto.values.errors import InvalidRequestError

TIMEOUT_S = 60.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Attributes|Notes?):", re.IGNORECASE)
_GOOGLE = re.compile(r"(\w+) *(?:\([^()]*\))?: *(\S.*)")
_SPHINX = re.compile(r":param(?: [\w.\[\]]+)? (\w+): *(\S.*)")
_MOST_REPORTED = 5  # errors reported for the arguments of one call
_NO_NAMES = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


class WrongArgumentsError(ValueError):
    """A model's arguments do not fit the function; the message is for the model."""


class Tool:
    """A function that a model may call, with what its signature does not say.

    ``tools=`` also accepts the bare function: the model is shown its name, its docstring, its annotations and their
    ``Field(description=...)``.

    Args:
        function: synchronous or asynchronous. Arguments are passed by name. A synchronous one runs in a separate
            thread, which cannot be stopped: after ``timeout_s`` or a cancellation, it runs on and its result is
            ignored. An asynchronous one runs in a separate task. Whatever either raises is reported to the model,
            including `SystemExit` and a cancellation of its own. Only Ctrl-C propagates: a `KeyboardInterrupt` in the
            program's main thread.
        name: the function's name by default; up to 64 letters, digits, ``_`` and ``-``.
        description: the function's docstring by default, up to its section of arguments.
        timeout_s: seconds after which a call is abandoned, which is reported to the model.

    Attributes:
        name: the name by which the model calls it.
        description: the description that the model is shown.

    Raises `InvalidRequestError` for a function that a model cannot call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not callable(function):
            raise InvalidRequestError(f"Tool({safe_repr(function)}) cannot be used: it takes a function.")
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise InvalidRequestError(
                f"timeout_s={safe_repr(timeout_s)} of a tool cannot be used: it takes seconds above 0."
            )
        self.function, self.timeout_s = function, float(timeout_s)
        self.name = _checked_name(getattr(function, "__name__", "") if name is None else name, function)
        docstring = _Docstring(inspect.getdoc(function) or "")
        self.description = docstring.summary if description is None else description
        self._names, self._arguments = _arguments_of(function, self.name, docstring.arguments)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def spec(self) -> dict[str, Any]:
        """What the model is shown, in OpenAI's form."""
        described = {"description": self.description} if self.description else {}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": self.parameters()}}

    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema = self._arguments.model_json_schema()
        for name in ("title", "description"):
            schema.pop(name, None)
        for each in schema.get("properties", {}).values():
            each.pop("title", None)  # pydantic derives it from the name
        return {"type": "object", "properties": {}, **schema}

    def read(self, arguments: str) -> Mapping[str, Any]:
        """Parse the arguments of a call into the types that the function declares. Raises `WrongArgumentsError`."""
        try:
            read = self._arguments.model_validate_json(arguments if arguments.strip() not in ("", "null") else "{}")
        except ValidationError as error:
            raise WrongArgumentsError(_explained(error)) from None
        return {name: getattr(read, field) for field, name in self._names.items() if field in read.model_fields_set}

    async def call(self, arguments: Mapping[str, Any], written: Callable[[Any], str]) -> str:
        """Call the function, and serialise its result in a thread. Raises what it raises, `Exception` or not."""
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - of an object, to see whether it is a coroutine function
        ):
            return await _as_text(await self.function(**arguments), written)

        def called() -> Any:
            value = self.function(**arguments)
            return value if inspect.isawaitable(value) else written(value)

        value = await in_own_thread(called, f"stretto tool {self.name}")
        return value if isinstance(value, str) else await _as_text(await value, written)


class _LangChainTool(Tool):
    """A LangChain tool, which parses and checks its arguments itself."""

    def __init__(self, tool: Any) -> None:
        from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415 - of an extra

        self._tool, self.function, self.timeout_s = tool, tool.ainvoke, TIMEOUT_S
        self._spec: dict[str, Any] = convert_to_openai_tool(tool)
        self.name, self.description = _checked_name(tool.name, tool), tool.description

    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = self._spec["function"].get("parameters") or {}
        return {"type": "object", "properties": {}, **parameters}

    def read(self, arguments: str) -> Mapping[str, Any]:
        read = _AnyObject.model_validate_json
        try:
            return dict(read(arguments if arguments.strip() not in ("", "null") else "{}").model_extra or {})
        except ValidationError as error:
            raise WrongArgumentsError(_explained(error)) from None

    async def call(self, arguments: Mapping[str, Any], written: Callable[[Any], str]) -> str:
        try:
            return await _as_text(await self._tool.ainvoke(dict(arguments)), written)
        except ValidationError as error:
            raise WrongArgumentsError(_explained(error)) from None


class _AnyObject(BaseModel):
    model_config = ConfigDict(extra="allow")


async def _as_text(value: Any, written: Callable[[Any], str]) -> str:
    """Convert a result to text; JSON is serialised without blocking the event loop."""
    if isinstance(value, str):
        return written(value)
    return await to_thread.run_sync(written, value, abandon_on_cancel=True)


def tool_of(given: Any) -> Tool | None:
    """Return a tool to call from a function, a `Tool` or a LangChain tool; ``None`` for anything else."""
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping | type):
        return None
    if hasattr(given, "tool_call_schema") and hasattr(given, "ainvoke"):
        return _LangChainTool(given)
    return Tool(given) if callable(given) else None


def _checked_name(name: Any, of: object) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise InvalidRequestError(
        f"The tool {safe_repr(of)} cannot be used: {safe_repr(name)} is no name that models can call, which is up to "
        "64 letters, digits, _ and -. Give it one: Tool(function, name='...')."
    )


def _arguments_of(
    function: Callable[..., Any], tool: str, described: Mapping[str, str]
) -> tuple[dict[str, str], type[BaseModel]]:
    """Return the names of a function's arguments by field name, and the pydantic model with these fields."""
    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    try:
        hinted = function if inspect.isroutine(function) else type(function).__call__
        hints = get_type_hints(hinted, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
        for place, each in enumerate(parameters):
            _check_named(each)
            field = f"argument_{place}"  # the names of a function's arguments may clash with pydantic's methods
            names[field] = each.name
            fields[field] = _field(each, hints.get(each.name, Any), described.get(each.name))
        model = create_model(f"{tool}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (TypeError, ValueError, NameError, PydanticUserError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        raise InvalidRequestError(
            f"The tool {tool!r} cannot be used: {why}. A model calls functions whose arguments have names, and types "
            "that JSON can hold."
        ) from None
    return names, model


def _check_named(parameter: inspect.Parameter) -> None:
    if parameter.kind in _NO_NAMES:
        raise TypeError(f"its argument {parameter} has no name of its own, so no model can give it")


def _field(parameter: inspect.Parameter, hint: Any, described: str | None) -> Any:
    """Return the pydantic field for an argument."""
    if get_origin(hint) is Annotated:
        described = next((each for each in get_args(hint)[1:] if isinstance(each, str)), described)
    about: dict[str, Any] = {"alias": parameter.name}
    if described:
        about["description"] = described
    default = parameter.default
    if default is inspect.Parameter.empty:
        return (hint, Field(**about))
    if default is None or isinstance(default, str | int | float):
        return (hint, Field(default, **about))
    return (hint, Field(default_factory=lambda: default, **about))


class _Docstring:
    """The parts of a docstring that a model is shown, in Google or Sphinx style.

    Attributes:
        summary: the text before the sections.
        arguments: the description of each argument, by name.
    """

    def __init__(self, text: str) -> None:
        lines: list[str] = []
        self.arguments: dict[str, str] = {}
        section, last = "", ""
        for line in text.splitlines():
            stripped = line.strip()
            if found := _SECTION.fullmatch(stripped):
                section, last = found[1].lower(), ""
            elif found := _SPHINX.fullmatch(stripped):
                section, last = "args", found[1]
                self.arguments[last] = found[2]
            elif section.startswith(("arg", "param")):
                if found := _GOOGLE.fullmatch(stripped):
                    last = found[1]
                    self.arguments[last] = found[2]
                elif last and stripped and not stripped.startswith(":"):
                    self.arguments[last] += f" {stripped}"
            elif not section and not stripped.startswith(":"):
                lines.append(line)
        self.summary = "\n".join(lines).strip()


def _explained(error: ValidationError) -> str:
    """Explain to the model what is wrong with the arguments of a call."""
    mistakes = [
        ": ".join(filter(None, (".".join(map(str, each["loc"])), reason(each))))
        for each in error.errors(include_url=False)[:_MOST_REPORTED]
    ]
    return "The arguments do not fit. " + "; ".join(mistakes) + "."
