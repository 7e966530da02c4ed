"""The arguments of a client, and the checks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from stretto.backends.base import Backend
from stretto.config.settings import Settings
from stretto.foundation.arguments import safe_repr, unknown_names
from stretto.observe.hooks import Hooks
from stretto.prompts import Catalogue
from stretto.values.errors import SettingsError
from stretto.values.request import RequestOptions

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stretto.router import Router
    from stretto.strategies.base import Strategy

ModelLike: TypeAlias = "str | Backend | BaseChatModel"
"""A model for a client: its name, a backend, or a LangChain chat model."""


class ClientOptions(TypedDict, total=False):
    """The keyword arguments of `AsyncStretto` and `Stretto`. All are optional; ``None`` means the default.

    Attributes:
        base_url: URL of a server with OpenAI's or Anthropic's protocol.
        api_key: the API key for it. Both apply to all models of the main model's provider.
        fallback: one or more models that take over, in this order, if the model fails: with the whole answer, a part of
            it, or the rest of a text that broke off. See docs/errors.md.
        roles: further models by role: "small" is a smaller, faster one, for second opinions, the strategy "cascade" and
            ``preference="fastest"``; "local" is one in this process, for "fastest"; names of your own are for
            strategies that ask multiple models, and for custom routers.
        strategies: strategies in addition to those of the library; the router weighs their offers.
        hooks: callbacks for metrics and logs.
        settings: the settings for all requests; by default read from the environment and the settings file.
        router: decides how a request is generated.
        prompt_family: prompt family for the models, such as "small"; by default the one that suits their size.
        templates: a catalogue of templates, or a folder whose templates override those of the library.
    """

    base_url: str | None
    api_key: str | None
    fallback: ModelLike | Sequence[ModelLike] | None
    roles: Mapping[str, ModelLike] | None
    strategies: Sequence[Strategy] | None
    hooks: Hooks | None
    settings: Settings | None
    router: Router | None
    prompt_family: str | None
    templates: Catalogue | Path | str | None


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "base_url": ((str,), "an address as a string, for instance http://localhost:8000/v1"),
    "api_key": ((str,), "the key as a string"),
    "roles": ((Mapping,), 'models by role, for instance roles={"small": "openai:gpt-5.4-nano"}'),
    "hooks": ((Hooks,), "Hooks(...)"),
    "settings": ((Settings,), "Settings.load(...) or Settings(...)"),
    "prompt_family": ((str,), 'the name of a family of prompts, for instance "small"'),
    "templates": ((Catalogue, Path, str), "a folder or a Catalogue"),
}
"""The accepted types of each argument, and their description. Models, strategies and routers get further checks."""


def check_options(options: ClientOptions) -> None:
    """Raise `SettingsError` for an unknown argument or an invalid value.

    Values are not shown: any of them could be a misplaced API key.
    """
    elsewhere = {name: f"It is a setting: settings=Settings.load({name}=...)." for name in Settings.model_fields}
    elsewhere |= {name: f"It belongs to a request: ask(..., {name}=...)." for name in RequestOptions.__annotations__}
    if wrong := unknown_names(options, ("model", *ClientOptions.__annotations__), "A client", elsewhere):
        raise SettingsError(f"{wrong} Further models go into roles=.")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name, (kinds, words) in _KINDS.items():
        if name in given and not isinstance(given[name], kinds):
            raise SettingsError(f"{name}= takes {words}, not {_type_of(given[name])}.")
    key = given.get("api_key", "")
    if not (key.isascii() and key.isprintable()):
        raise SettingsError(
            "api_key= holds a line break or a character that no key has, so it cannot be sent. "
            "Give the key alone; one that was read from a file may end with a line break: strip() it."
        )
    router = given.get("router")
    if router is not None and (isinstance(router, type) or not callable(getattr(router, "route", None))):
        raise SettingsError(f"router= takes a Router, or an object with its route(), not {_type_of(router)}.")


def provider_of(given: ModelLike) -> str | None:
    """Return the provider prefix of a model name; ``None`` for anything but a name."""
    return given.partition(":")[0] if isinstance(given, str) else None


def models_by_role(options: ClientOptions) -> dict[str, ModelLike]:
    """Return the models other than the main one by role. Raises `SettingsError`."""
    roles: Mapping[Any, Any] = options.get("roles") or {}
    if not all(isinstance(role, str) for role in roles):
        raise SettingsError(f"roles= takes {_KINDS['roles'][1]}: the names of roles are strings.")
    if roles.get("main") is not None:
        raise SettingsError('roles= cannot hold "main": the main model is the first argument, model=.')
    return {role: given for role, given in roles.items() if given is not None}


def fallback_models(options: ClientOptions, settings: Settings, main: ModelLike) -> tuple[ModelLike, ...]:
    """Return the models that take over if the main one fails, in order. Raises `SettingsError`."""
    given: Any = options.get("fallback")
    if given is None:
        return tuple(name for name in dict.fromkeys(settings.fallback) if not _same(name, main))
    models = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    for number, each in enumerate(models):
        if _same(each, main):
            raise SettingsError(f"fallback= holds {_called(each)}, which is the main model already. Name another one.")
        if any(_same(each, other) for other in models[:number]):
            raise SettingsError(f"fallback= holds {_called(each)} twice. Name each model once.")
    return models


def _same(one: ModelLike, other: ModelLike) -> bool:
    return one == other if isinstance(one, str) and isinstance(other, str) else one is other


def _called(model: ModelLike) -> str:
    return safe_repr(model) if isinstance(model, str) else f"a {type(model).__name__}"


def own_strategies(options: ClientOptions) -> tuple[Strategy, ...]:
    """Return the caller's strategies, with their types and names checked. Raises `SettingsError`."""
    strategies: Any = options.get("strategies") or ()
    if not strategies:
        return ()
    if isinstance(strategies, str) or not isinstance(strategies, Sequence):
        raise SettingsError(f"strategies= takes a list of strategies, not {_type_of(strategies)}.")
    from stretto.strategies import STRATEGIES, Strategy  # noqa: PLC0415 - keeps `import stretto` light

    taken = {"auto", *STRATEGIES}
    for each in strategies:
        if isinstance(each, type) or not isinstance(each, Strategy):
            raise SettingsError(
                f"strategies= holds {safe_repr(each)}, which is not a strategy: an object with name, offer() and run()."
            )
        if each.name in taken:
            raise SettingsError(f"The strategy name {each.name!r} is taken. Give the strategy another name.")
        taken.add(each.name)
    return tuple(strategies)


def _type_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
