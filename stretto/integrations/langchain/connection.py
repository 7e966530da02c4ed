"""What the chat model and the runnables share: the fields that name a model, its clients, and their event loop.

The connections of such a model belong to the loop that first used them, and the model keeps them for life. So the loop
must outlive the object that made the request.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import anyio
from langchain_core.language_models import BaseChatModel
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from stretto.backends.base import Backend
from stretto.backends.registry import default_model
from stretto.client.async_client import FORKED, AsyncStretto
from stretto.client.client_options import ClientOptions
from stretto.client.sync_client import Stretto
from stretto.config.settings import Settings
from stretto.foundation.background import BackgroundLoop
from stretto.values.errors import StrettoError

_shared: WeakValueDictionary[tuple[Any, ...], Stretto] = WeakValueDictionary()
_lock = threading.Lock()


class Connection(BaseModel):
    """The fields that say who answers. Nothing is connected or loaded before the first call.

    Objects that name the same ``local:`` model share it. Its threads end with the last object that uses them, or when
    the program exits.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str | None = Field(default=None, validation_alias=AliasChoices("model", "model_name"))
    """The model, in a form that `Stretto` accepts: ``local:pocket``, ``openai:NAME``, ``anthropic:NAME``."""

    backend: BaseChatModel | Backend | None = None
    """What answers instead of a named model: any LangChain chat model, or a backend of Stretto, such as a
    `LocalBackend` with its own options or ``stretto.backends["main"]`` of a client. Its creator closes it."""

    roles: dict[str, str | BaseChatModel | Backend] | None = None
    """Further models by role, see `ClientOptions`: ``{"small": "openai:gpt-5.4-nano"}``."""

    fallback: list[str | BaseChatModel | Backend] | None = None
    """Models that take over if the model fails: the whole answer, a part of it, or the rest of one that broke off.

    LangChain's ``with_fallbacks`` starts the whole answer over, and cannot once its stream has begun."""

    base_url: str | None = None
    """The URL of a server that speaks OpenAI's or Anthropic's protocol."""

    api_key: SecretStr | None = None
    """The key for the model. Without one, OpenAI's and Anthropic's keys are read from their usual variables, and the
    key of a server that you run from ``STRETTO_API_KEY``."""

    max_retries: int | None = Field(default=None, ge=0, le=10)
    """How often a call that failed transiently is retried."""

    _client: Stretto | None = PrivateAttr(default=None)
    _others: dict[str, Stretto] = PrivateAttr(default_factory=dict)

    def client(self, model: str | None = None) -> Stretto:
        """Return the client for these fields, or for another ``model`` if a call names one."""
        with _lock:
            if model is not None and model != self.model:
                if model not in self._others:
                    self._others[model] = self._opened(model)
                return self._others[model]
            if self._client is None:
                self._client = self._opened(self.backend or self.model)
            return self._client

    def _opened(self, model: str | BaseChatModel | Backend | None) -> Stretto:
        settings = Settings.load(attempts=None if self.max_retries is None else self.max_retries + 1)
        chosen = model or settings.model or default_model(os.environ)[0]
        further = (*(self.roles or {}).values(), *(self.fallback or ()))
        options: ClientOptions = {"roles": self.roles, "fallback": self.fallback, "settings": settings}
        remote = isinstance(chosen, str) and not chosen.startswith("local:")
        if remote:
            key = self.api_key.get_secret_value() if self.api_key else None
            options |= {"base_url": self.base_url, "api_key": key}
        if not all(isinstance(each, str) for each in (chosen, *further)):
            return _InCommonLoop(chosen, **options)
        if remote:
            return _closed_at_its_end(Stretto(chosen, **options))
        # A given key or address belongs to the named model, not to the others.
        shares = (chosen, str(self.roles), str(self.fallback), settings.model_dump_json())
        if (shared := _shared.get(shares)) is None:
            shared = _shared[shares] = _closed_at_its_end(Stretto(chosen, **options))
        return shared

    @property
    def lc_secrets(self) -> dict[str, str]:
        """Where to read the key from when a serialised object is loaded."""
        return {"api_key": "STRETTO_API_KEY"}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether it can be serialised as JSON, which leaves out its key."""
        return True

    @property
    def called(self) -> str:
        """The name of the model that answers."""
        return self.client().backends["main"].name


def _closed_at_its_end(client: Stretto) -> Stretto:
    """Close the client when it is garbage-collected, because nobody closes LangChain chat models; returns it."""
    weakref.finalize(client, partial(_release, client._loop, client.asynchronous)).atexit = False
    return client


def _release(loop: BackgroundLoop, client: AsyncStretto) -> None:
    """Close what was only used in other event loops, which close their connections as soon as they run."""
    if not loop.runs:  # otherwise it closes everything when it ends
        closing = threading.Thread(target=anyio.run, args=(client.aclose,), name="stretto closing")
        closing.start()
        closing.join()


_loops: dict[int, BackgroundLoop] = {}  # by process: a fork has no thread


class _InCommonLoop(Stretto):
    """A client whose loop is shared, and outlives it."""

    def __init__(self, model: Any, **options: Any) -> None:
        self._stretto = AsyncStretto(model, **options)
        self._loop = _common_loop()
        self._finalizer = weakref.finalize(self, partial(_close, self._loop, self._stretto))

    def close(self) -> None:
        """End the running answers and close the backends that were opened here; the loop stays. Idempotent."""
        self._finalizer()


def _common_loop() -> BackgroundLoop:
    if os.getpid() not in _loops:
        _loops[os.getpid()] = loop = BackgroundLoop(FORKED)
        atexit.register(loop.close)
    return _loops[os.getpid()]


def _close(loop: BackgroundLoop, client: AsyncStretto) -> None:
    """Close a client in its loop. The garbage collector can call this in any thread, including the loop's own."""
    if loop.is_here:
        threading.Thread(target=partial(_close, loop, client), name="stretto closing").start()
        return
    with suppress(StrettoError):  # the loop has ended, or this is a fork
        loop.call(client.aclose)
