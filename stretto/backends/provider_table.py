"""The model providers, one line each. Registry, command line, ``stretto doctor``, errors and pages read this table.

A line names the class in the provider's own module, which is imported when one of its models is first opened.
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
        name: the part before the colon of a model's name.
        home: module and class, ``package.module:Class``, which takes the arguments of `RemoteBackend`.
        default: the model to use if none is named and the key is set; none without it.
        begins: prefixes of its models' names, to help those who forgot the provider.
        on_this_machine: whether it is a program with OpenAI's API at its usual port, which needs no key.
        key_variable: the environment variable of its key, if not ``NAME_API_KEY``.
        note: what its line adds in a list of models.
    """

    name: str
    home: str
    default: str = ""
    begins: tuple[str, ...] = ()
    on_this_machine: bool = False
    key_variable: str = ""
    note: str = ""

    def load(self) -> Any:
        """Import its module, and return the class."""
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
    """Return the environment variable that contains a provider's key."""
    known = PROVIDERS.get(provider)
    return known.key_variable if known is not None and known.key_variable else _variable(provider, "API_KEY")


def url_variable_of(provider: str) -> str:
    """Return the environment variable that sets another address for a provider."""
    return _variable(provider, "BASE_URL")


def _variable(provider: str, end: str) -> str:
    return f"{provider.upper().replace('-', '_')}_{end}"


def on_this_machine() -> tuple[str, ...]:
    """Return the providers that are programs with OpenAI's API, at their usual ports on this machine."""
    return tuple(name for name, provider in PROVIDERS.items() if provider.on_this_machine)


def default_keys() -> Mapping[str, str]:
    """Return the variables of keys in order of preference, with the default model of each."""
    return {
        key_variable_of(name): f"{name}:{provider.default}" for name, provider in PROVIDERS.items() if provider.default
    }


def either(words: Sequence[str]) -> str:
    """Join words as a choice: ``A, B or C``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
