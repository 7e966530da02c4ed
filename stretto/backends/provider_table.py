"""The providers of models, one line each. Registry, command line, ``stretto doctor``, errors and pages read this table.

A line names the class in the provider's own module, which is imported when a model of it is first opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, or a program that serves models.

    Attributes:
        name: what stands before the colon of a model's name.
        home: module and class, ``package.module:Class``, which is called as `RemoteBackend` is.
        default: the model that answers where none is named and the key is set; none without it.
        begins: how names of its models begin, to tell somebody who forgot the provider.
        on_this_machine: a program with OpenAI's API at its usual port, which needs no key.
        key_variable: the environment variable of its key, where that is not ``NAME_API_KEY``.
        note: what its line says more where models are listed.
    """

    name: str
    home: str
    default: str = ""
    begins: tuple[str, ...] = ()
    on_this_machine: bool = False
    key_variable: str = ""
    note: str = ""

    def load(self) -> Any:
        """The class; its module is imported."""
        module, _, kind = self.home.partition(":")
        return getattr(import_module(module), kind)


_HERE = "stretto.backends.providers"
_OPENAI = ("gpt-", "o1", "o3", "o4", "chatgpt")

PROVIDERS: Mapping[str, Provider] = {
    each.name: each
    for each in (
        Provider(
            "openai",
            f"{_HERE}.openai:OpenAIBackend",
            "gpt-5.4-mini",
            _OPENAI,
            note="with base_url for any compatible server",
        ),
        Provider("anthropic", f"{_HERE}.anthropic:AnthropicBackend", "claude-haiku-4-5", ("claude",)),
        Provider("ollama", f"{_HERE}.servers:Ollama", on_this_machine=True),
        Provider("vllm", f"{_HERE}.servers:VLLM", on_this_machine=True),
        Provider("sglang", f"{_HERE}.servers:SGLang", on_this_machine=True),
        Provider("llamacpp", f"{_HERE}.servers:LlamaCpp", on_this_machine=True),
        Provider("lmstudio", f"{_HERE}.servers:LMStudio", on_this_machine=True),
    )
}


def key_variable_of(provider: str) -> str:
    """The environment variable that holds a provider's key."""
    known = PROVIDERS.get(provider)
    return known.key_variable if known is not None and known.key_variable else _variable(provider, "API_KEY")


def url_variable_of(provider: str) -> str:
    """The environment variable that names another address of a provider."""
    return _variable(provider, "BASE_URL")


def _variable(provider: str, end: str) -> str:
    return f"{provider.upper().replace('-', '_')}_{end}"


def on_this_machine() -> tuple[str, ...]:
    """The providers that are programs with OpenAI's API, at their usual ports of this machine."""
    return tuple(name for name, provider in PROVIDERS.items() if provider.on_this_machine)


def default_keys() -> Mapping[str, str]:
    """Variables of keys, the first to look at first, and the model that each brings where none is named."""
    return {
        key_variable_of(name): f"{name}:{provider.default}" for name, provider in PROVIDERS.items() if provider.default
    }


def model_forms(others: Sequence[str] = ()) -> str:
    """What the name of a model may be; ``others``: providers of other packages."""
    named = [f"{name}:MODEL{f' ({each.note})' if each.note else ''}" for name, each in PROVIDERS.items()]
    named += [f"{name}:MODEL" for name in others]
    return f"{', '.join(named)}, local:MODEL, local:FOLDER, local:pocket, or the address of a server with one model"


def either(words: Sequence[str]) -> str:
    """Words as a choice: ``A, B or C``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
