"""From a model's name, or an object of the caller, to a backend. Imports no SDK until one is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from stretto.backends.base import Backend
from stretto.backends.known_models import NO_ROWS, Rows
from stretto.backends.provider_table import PROVIDERS, default_keys
from stretto.backends.resilience.resilient import Endpoints, Resilience, resilient
from stretto.foundation import plugins
from stretto.foundation.arguments import begins_like_key, looks_like_key
from stretto.values.errors import SettingsError, UnknownModelError

LOCAL_DEFAULT = "local:pocket"
_SCHEMES = ("http://", "https://")


def open_backend(
    source: Any,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    resilience: Resilience | None = None,
    endpoints: Endpoints | None = None,
    argument: str = "model",
    local: Mapping[str, Any] | None = None,
    own_rows: Rows = NO_ROWS,
) -> Backend:
    """Open a model by its name, or a LangChain chat model; a backend is returned unchanged.

    Nothing is loaded or connected yet. A LangChain model that retries by itself is not retried here as well.

    Backends with the same ``endpoints`` share what they learn of a server's health. ``argument`` is the caller's
    argument for the name, for errors. ``local``: arguments of `LocalBackend`, for a local model.
    ``own_rows``: the caller's rows, which take precedence over the table of models.

    Providers of other packages are found by their entry points, see `stretto.foundation.plugins`.

    Remote models come with the whole resilience layer. A local one does not: there is no network in between,
    its engine has its own queue, and a long prompt on a slow machine is no stall.
    Raises `UnknownModelError`, `SettingsError`.
    """
    if not isinstance(source, str):
        return _opened(source, resilience, argument, own_rows)
    name = source
    if is_address(name):
        return resilient(_at_address(name, base_url, api_key), resilience, endpoints)
    provider, colon, model = name.partition(":")
    make = _maker(provider) if colon else None
    if looks_like_key(name) if make is None else (provider != "local" and begins_like_key(model)):
        place = "the model" if argument == "model" else f"{argument}="
        raise UnknownModelError(
            f"What was given as {place} looks like a key and is not shown here. Name a model: {_forms()}. The key goes "
            f"into the environment ({', '.join(default_keys())}, STRETTO_API_KEY) or into api_key=."
        )
    which = f"Model {name!r}" if argument == "model" else f"Model {name!r}, passed as {argument}=,"
    if not colon and (guess := _guess(name)):
        raise UnknownModelError(f"{which} has no provider. Write {guess + ':' + name!r}.")
    if make is None or not model.strip():
        raise UnknownModelError(f"{which} is not known. Use one of: {_forms()}.")
    if provider == "local":
        if base_url is not None or api_key is not None:
            raise SettingsError(
                f"{name} runs in this process: it takes neither base_url nor api_key. "
                "Name a model of the server, such as openai:NAME, or leave them out."
            )
        return make(model, **(local or {}))
    if base_url is not None:
        _check_address(base_url, "base_url")
    table = {"own_rows": own_rows} if provider in PROVIDERS else {}  # other packages know their own models
    return resilient(make(model, base_url=base_url, api_key=api_key, **table), resilience, endpoints)


def _opened(source: Any, resilience: Resilience | None, argument: str, own_rows: Rows) -> Backend:
    if _is_langchain(source):
        from stretto.backends.providers.langchain import LangChainBackend  # noqa: PLC0415 - imported on first use

        backend = LangChainBackend(source, own_rows)
        policy = resilience or Resilience()
        return resilient(backend, replace(policy, attempts=1) if backend.retries_itself else policy)
    if isinstance(source, Backend):
        return source
    raise UnknownModelError(
        f"{argument}= takes a model, not a value of type {type(source).__name__}. "
        f"Pass a name ({_forms()}), a LangChain chat model, or a backend."
    )


def default_model(environ: Mapping[str, str]) -> tuple[str, str]:
    """Choose a model if none is named; also returns why, as a sentence for a person."""
    keys = default_keys()
    for variable, name in keys.items():
        if environ.get(variable, "").strip():
            return name, f"{variable} is set, so {name} answers."
    return LOCAL_DEFAULT, (
        f"Neither {' nor '.join(keys)} is set, so the small demonstration model {LOCAL_DEFAULT} answers."
    )


def is_address(name: str) -> bool:
    """Return whether a model's name is the address of a server."""
    return name.startswith(_SCHEMES)


def _check_address(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is not a number
        fits = url.startswith(_SCHEMES) and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        fits = False
    if not fits:
        # The value is not repeated: it might contain a password, or be a key in the wrong place.
        raise SettingsError(
            f"{what} must begin with http:// or https:// and name a host, for instance http://localhost:8000/v1."
        )


def _at_address(url: str, base_url: str | None, api_key: str | None) -> Backend:
    _check_address(url, "An address that is given as the model")
    if base_url is not None:
        raise SettingsError("The model is an address already, and base_url is another. Name a model: openai:NAME.")
    from stretto.backends.providers.servers import AtAddress  # noqa: PLC0415 - only what is used is imported

    return AtAddress(url, api_key=api_key)


def _maker(provider: str) -> Callable[..., Backend] | None:
    if provider == "local":
        from stretto.backends.local.backend import LocalBackend  # noqa: PLC0415 - only what is used is imported

        return LocalBackend
    known = PROVIDERS.get(provider)
    make: Callable[..., Backend] | None = plugins.load("backends", provider) if known is None else known.load()
    return make


def _forms() -> str:
    """Return the possible forms of a model name, as text."""
    named = [f"{name}:MODEL{f' ({each.note})' if each.note else ''}" for name, each in PROVIDERS.items()]
    named += [f"{name}:MODEL" for name in plugins.names("backends")]
    return f"{', '.join(named)}, local:MODEL, local:FOLDER, local:pocket, or the address of a server with one model"


def _guess(model: str) -> str | None:
    return next((name for name, each in PROVIDERS.items() if model.startswith(each.begins)), None)


def _is_langchain(source: Any) -> bool:
    # Anyone with such a model has imported LangChain; for anyone else it stays unimported.
    module = sys.modules.get("langchain_core.language_models.chat_models")
    return module is not None and isinstance(source, module.BaseChatModel)
