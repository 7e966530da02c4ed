"""Servers with OpenAI's API, by name at their usual addresses (``ollama:NAME``, ...), or by address alone."""

from __future__ import annotations

import math
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

import anyio

from stretto.backends.base import ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows
from stretto.backends.providers.failures import nobody_listens
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.providers.remote import Opened
from stretto.backends.providers.server_facts import Engine
from stretto.backends.providers.transport.http_clients import is_loopback
from stretto.foundation.redaction import redacted_line
from stretto.values.errors import BackendError, ConnectionFailedError, ModelNotFoundError
from stretto.values.request import GenerationOptions

_FINDING_S = 10.0
_LISTENING_S = 1.0
_NAMED = 8  # models listed in an error


class _OnThisMachine(OpenAIBackend):
    """A server on this machine, at its usual port; it needs no key. ``base_url`` sets another address."""

    engine: ClassVar[Engine]

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, own_rows: Rows = NO_ROWS
    ) -> None:
        super().__init__(model, base_url=base_url or self.default_url, api_key=api_key, own_rows=own_rows)
        self._learned.assumed = self.engine


class Ollama(_OnThisMachine):
    """``ollama serve``."""

    provider = engine = "ollama"
    default_url = "http://localhost:11434/v1"


class VLLM(_OnThisMachine):
    """``vllm serve``."""

    provider = engine = "vllm"
    default_url = "http://localhost:8000/v1"


class SGLang(_OnThisMachine):
    """``python -m sglang.launch_server``."""

    provider = engine = "sglang"
    default_url = "http://localhost:30000/v1"


class LlamaCpp(_OnThisMachine):
    """``llama-server`` of llama.cpp."""

    provider = engine = "llamacpp"
    default_url = "http://localhost:8080/v1"


class LMStudio(_OnThisMachine):
    """The server of LM Studio."""

    provider = engine = "lmstudio"
    default_url = "http://localhost:1234/v1"


class AtAddress(OpenAIBackend):
    """The only model of a server that is given by its address alone, for instance ``http://gpu-box:8000``.

    The server is asked for its models before the first call.
    """

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/") or "/v1"
        super().__init__("", base_url=urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), api_key=api_key)

    @property
    def name(self) -> str:
        """The provider and the server's address; the model's name is not known before the first call."""
        return f"{self.provider}:{self.endpoint}"

    async def _open(self, prompt: ModelRequest, options: GenerationOptions) -> Opened:
        if not self.model:
            await self._find_model()
        return await super()._open(prompt, options)

    async def _find_model(self) -> None:
        if self._learned.facts is None:
            await self.load_ahead()
            await self._client()  # raises if no client can be made: a bad key, a closed backend
            self._learned.ask_again = -math.inf  # without the name, no call is possible
            await self.ask_server(_FINDING_S)
        if (facts := self._learned.facts) is None:
            if is_loopback(self.endpoint) and not await _listens(self._url):
                raise nobody_listens(self.name, self.endpoint)
            through = f" through the proxy {self._proxy.name}" if self._proxy else ""
            raise ConnectionFailedError(
                f"{self.name} was asked{through} which model it serves, and did not say. Check the address, the "
                "key, the network and whether the server runs.",
                backend=self.name,
            )
        if not facts.model:
            raise self._no_single_model(facts.models)
        self.model = facts.model

    def _no_single_model(self, models: tuple[str, ...]) -> BackendError:
        named = ", ".join(redacted_line(each) for each in models[:_NAMED])
        more = f" and {len(models) - _NAMED} more" if len(models) > _NAMED else ""
        has = f"{len(models)} models ({named}{more})" if models else "no model that it names"
        return ModelNotFoundError(
            f"{self.name} serves {has}. Name the one to ask: openai:NAME, with the address as base_url=.",
            backend=self.name,
        )


async def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with anyio.move_on_after(_LISTENING_S):
            stream = await anyio.connect_tcp(parts.hostname or "", parts.port or 80)
            await stream.aclose()
    except OSError:
        return False
    return True
