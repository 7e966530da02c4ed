"""Options shared by commands, and their shell completion."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from stretto.backends.provider_table import PROVIDERS, on_this_machine
from stretto.cli.completing import completions
from stretto.foundation import plugins

LOCAL = ("local:", "local:pocket")
_SERVERS = on_this_machine()


class Preference(StrEnum):
    """Whether speed or care matters more."""

    fastest = "fastest"
    balanced = "balanced"
    careful = "careful"


class OnMissing(StrEnum):
    """What to do about a part that cannot be written."""

    note = "note"
    omit = "omit"
    # "raise" is a Python keyword.
    error = "raise"


class OnLoop(StrEnum):
    """What to do about a direct answer that repeats itself."""

    warn = "warn"
    cut = "cut"


def complete_strategy(incomplete: str) -> list[str]:
    """Complete the name of a strategy."""
    from stretto.strategies import STRATEGIES  # noqa: PLC0415 - keeps `stretto --help` light

    return [name for name in ("auto", *STRATEGIES) if name.startswith(incomplete)]


def complete_decoding(incomplete: str) -> list[str]:
    """Complete the name of a decoding method of local models."""
    from stretto.local_engine.drafting.catalogue import all_drafters  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.local_engine.research_registry import block_rules  # noqa: PLC0415 - as above

    return [name for name in (*all_drafters(), *block_rules()) if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Complete providers, and the one model with a fixed name."""
    return completions([*(f"{name}:" for name in (*PROVIDERS, *plugins.names("backends"))), *LOCAL], incomplete)


def complete_local_model(incomplete: str) -> list[str]:
    """Complete models for commands that run one in this process."""
    return completions(LOCAL, incomplete)


def complete_prompt(incomplete: str) -> list[str]:
    """Complete the names of the library's templates."""
    return _of_templates("name", incomplete)


def complete_family(incomplete: str) -> list[str]:
    """Complete prompt families."""
    return _of_templates("family", incomplete)


def complete_version(incomplete: str) -> list[str]:
    """Complete versions of the templates."""
    return _of_templates("version", incomplete)


def _of_templates(field: str, incomplete: str) -> list[str]:
    from stretto.prompts import Catalogue  # noqa: PLC0415 - keeps `stretto --help` light

    return sorted({value for each in Catalogue() if (value := getattr(each, field)).startswith(incomplete)})


def path_of(text: str) -> Path:
    """Parse a path; without the check, an empty string would be the current folder."""
    if not text.strip():
        raise typer.BadParameter("it names no file")
    return Path(text)


def _argument(text: str) -> tuple[str, Any]:
    """Parse an argument of a chat template into its name and value, which is JSON or text."""
    name, value = _pair(text, "NAME=VALUE, such as enable_thinking=true")
    with suppress(ValueError, RecursionError):
        return name, json.loads(value)
    return name, value


def _pair(text: str, form: str = "NAME=VALUE, such as samples=9") -> tuple[str, str]:
    """Split a name and its value."""
    name, between, value = text.partition("=")
    if not (name.strip() and between):
        raise typer.BadParameter(f"it is no {form}")
    return name.strip(), value.strip()


def _role(text: str) -> tuple[str, str]:
    """Split a role and its model."""
    form = "ROLE=PROVIDER:MODEL, such as small=openai:gpt-5.4-nano"
    role, model = _pair(text, form)
    if not model:
        raise typer.BadParameter(f"it is no {form}")
    return role, model


Question = Annotated[
    list[str] | None,
    typer.Argument(metavar="QUESTION", help="The question; text from a pipe is put below it.", show_default=False),
]


def names_of_models() -> str:
    """Return the providers' models as a help text lists them."""
    return ", ".join(f"{name}:NAME" for name in PROVIDERS if name not in _SERVERS)


def of_model(*names: str, says: str) -> Any:
    """Return an option whose value is the name of a model."""
    return typer.Option(*names, metavar="PROVIDER:MODEL", help=says, autocompletion=complete_model)


Model = Annotated[
    str | None,
    of_model(
        "--model",
        "-m",
        says=f"{names_of_models()}, {_SERVERS[0]}:NAME (or {', '.join(f'{name}:' for name in _SERVERS[1:])}), "
        "local:FOLDER, local:HUB_NAME, local:pocket, or the address of a server with one model. "
        "Without it, settings and keys decide.",
    ),
]
Roles = Annotated[
    list[Any] | None,
    typer.Option(
        "--role",
        metavar="ROLE=PROVIDER:MODEL",
        help="A further model by its role: small (a quicker one, for 'fastest' and cascade), local (in this process, "
        "for 'fastest'), or a name that you give to a strategy. May be repeated.",
        parser=_role,
    ),
]
Fallback = Annotated[
    list[str] | None,
    of_model(
        "--fallback", says="A model that takes over if the model fails. May be repeated; they are asked in this order."
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of an OpenAI-compatible server, for models of openai: and of the names of servers.",
    ),
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--key-variable",
        metavar="NAME",
        help="Environment variable with the key for --base-url; without it, STRETTO_API_KEY.",
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        help="How to write the answer: auto (the router decides), direct, skeleton, ...",
        autocompletion=complete_strategy,
    ),
]
StrategyOptions = Annotated[
    list[Any] | None,
    typer.Option(
        "--strategy-options",
        metavar="NAME=VALUE",
        help="An option of the strategy, such as samples=9 of consensus. May be repeated.",
        parser=_pair,
    ),
]
Preferred = Annotated[Preference | None, typer.Option("--preference", "-p", help="What matters more, speed or care.")]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Instructions for the model.")]
Documents = Annotated[
    list[Path] | None,
    typer.Option(
        "--document",
        "-d",
        metavar="FILE",
        help="A file, folder or pattern to read: text, Markdown, HTML, PDF, DOCX, code. May be repeated.",
        parser=path_of,
    ),
]
Schema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        dir_okay=False,
        help="A JSON schema: the answer is a record that fits it, printed as JSON when it is complete.",
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="Maximum number of tokens of the whole answer.")
]
PartTokens = Annotated[
    int | None, typer.Option("--part-tokens", metavar="N", help="Maximum number of tokens of each part of an answer.")
]
MaxParallelParts = Annotated[
    int | None, typer.Option("--max-parallel-parts", metavar="N", help="Maximum number of parts written at a time.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="T", help="0: always the likeliest word; up to 2.")
]
TopP = Annotated[
    float | None, typer.Option("--top-p", metavar="P", help="Sample from the likeliest words of this probability.")
]
Stop = Annotated[
    list[str] | None, typer.Option("--stop", metavar="TEXT", help="A text that ends the answer. May be repeated.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Sample the same way again, where supported.")]
Decoding = Annotated[
    str | None,
    typer.Option(
        "--decoding",
        metavar="METHOD",
        help="How a local model finds its tokens: auto, autoregressive, suffix, ... Without it, the router decides.",
        autocompletion=complete_decoding,
    ),
]
Deadline = Annotated[float | None, typer.Option("--deadline", metavar="SECONDS", help="Maximum time for the answer.")]
Missing = Annotated[
    OnMissing | None,
    typer.Option(
        "--on-missing",
        help="What to do if a part cannot be written: put a note in its place, omit it, or raise an error.",
    ),
]
Looping = Annotated[
    OnLoop | None,
    typer.Option("--on-loop", help="What to do if a direct answer repeats itself: warn about it, or cut it there."),
]
Logprobs = Annotated[
    int | None,
    typer.Option(
        "--logprobs",
        metavar="N",
        help="How probable each token was, and the N most probable in its place; 0 to 20.",
    ),
]
Adapter = Annotated[
    str | None,
    typer.Option(
        "--adapter",
        metavar="NAME",
        help="An adapter of a local model. STRETTO_ADAPTERS says where it is: NAME=FOLDER.",
    ),
]
ChatTemplateKwargs = Annotated[
    list[Any] | None,
    typer.Option(
        "--chat-template-kwargs",
        metavar="NAME=VALUE",
        help="An argument of an open model's chat template, such as enable_thinking=true. May be repeated.",
        parser=_argument,
    ),
]
PromptFamily = Annotated[
    str | None,
    typer.Option(
        "--prompt-family",
        metavar="NAME",
        help="Prompts for the model: general, small (for models of up to 2 billion parameters), or one of your own.",
        autocompletion=complete_family,
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Show the answer as it is written, without drawing its Markdown.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer and nothing else.")]

OF_A_REQUEST: dict[str, Any] = {
    "strategy": Strategy,
    "strategy_options": StrategyOptions,
    "preference": Preferred,
    "system": System,
    "documents": Documents,
    "max_tokens": MaxTokens,
    "part_tokens": PartTokens,
    "max_parallel_parts": MaxParallelParts,
    "temperature": Temperature,
    "top_p": TopP,
    "stop": Stop,
    "seed": Seed,
    "decoding": Decoding,
    "adapter": Adapter,
    "deadline_s": Deadline,
    "on_missing": Missing,
    "on_loop": Looping,
    "logprobs": Logprobs,
    "chat_template_kwargs": ChatTemplateKwargs,
}
"""The request options of the command line by their names in `RequestOptions`, in the order of the help."""


def with_request(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's argument ``request`` with the request options; it receives those that were set."""
    return in_place_of(command, "request", OF_A_REQUEST)


def in_place_of(command: Callable[..., None], argument: str, options: Mapping[str, Any]) -> Callable[..., None]:
    """Replace one of a command's arguments with these options; it receives those that were set, by name."""

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        values = {name: given.pop(name, None) for name in options}
        chosen = {name: _plain(value) for name, value in values.items() if value not in (None, [])}
        command(*arguments, **given, **{argument: chosen})

    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in options.items()
    ]
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        parameters += own if each.name == argument else [each]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions have it, but not in their type
    return run


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case [(_, _), *_]:  # for options of the form NAME=VALUE
            return dict(value)
    return value
