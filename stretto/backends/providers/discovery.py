"""Asks a server with OpenAI's API which program it is and what it can do: a few short requests, once.

A program is recognised by its response to ``GET /v1/models``, or by its headers. Further requests go to paths that
only this program has. Some servers answer any path with status 200, so the format of the response decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stretto.backends.providers.server_facts import (
    Engine,
    ServerFacts,
    engine_of,
    listed,
    of_llamacpp,
    of_lmstudio,
    of_ollama,
    of_sglang,
    of_vllm,
)
from stretto.backends.providers.transport.error_bodies import read_json

_EXAMPLE = {"messages": [{"role": "user", "content": "?"}]}  # to see how the chat template ends a prompt
_NOT_NOW = (401, 403, 408, 429)  # with another key, or later, the response might differ; likewise from status 500 on


@dataclass(frozen=True, slots=True)
class Page:
    """A response: its status, its headers in lower case, the beginning of its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON; ``None`` if it is not JSON or the status is an error."""
        return read_json(self.body) if self.status < 300 else None

    @property
    def text(self) -> str:
        """The body as text; empty if the status is an error."""
        return self.body.decode(errors="replace") if self.status < 300 else ""


Fetch = Callable[[str, Mapping[str, Any] | None], Awaitable[Page | None]]
"""Requests a URL, by POST if there is a body; returns ``None`` if the server cannot be reached."""


async def discover(fetch: Fetch, base_url: str, model: str) -> ServerFacts | None:
    """Return what the server at this address reports about itself and the model; ``None`` if it is unavailable now."""
    page = await fetch(f"{base_url.rstrip('/')}/models", None)
    if page is None:
        return None
    facts = listed(page.json, model)
    asking = _Asking(fetch, root_of(base_url), model or facts.model)
    engine = engine_of(page.json, page.headers)
    if engine is None and (page.status in _NOT_NOW or page.status >= 500):
        return None
    if engine is None and base_url.startswith("http:"):  # on this machine or in its network, so not a provider
        engine = await asking.who()
    return await asking.about(engine, facts)


def root_of(base_url: str) -> str:
    """Return the root URL of a server's own paths."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")


class _Asking:
    """The requests to one server, by path."""

    def __init__(self, fetch: Fetch, root: str, model: str) -> None:
        self._fetch = fetch
        self._root = root
        self._model = model

    async def who(self) -> Engine | None:
        """Identify the program of a server whose list of models does not reveal it."""
        version = await self._json("/api/version")
        if isinstance(version, Mapping) and isinstance(version.get("version"), str):
            return "ollama"
        models = await self._json("/api/v0/models")
        data = models.get("data") if isinstance(models, Mapping) else None
        first = data[0] if isinstance(data, list) and data else None
        return "lmstudio" if isinstance(first, Mapping) and "compatibility_type" in first else None

    async def about(self, engine: Engine | None, facts: ServerFacts) -> ServerFacts:
        """Add what this program reports at paths that only it has."""
        match engine:
            case "vllm":
                metrics = await self._page("/metrics")
                info = await self._json("/server_info?config_format=json")
                request = {**_EXAMPLE, "model": self._model, "add_generation_prompt": True, "return_token_strs": True}
                tokens = await self._json("/tokenize", request)
                return of_vllm(facts, metrics.text if metrics else "", info, tokens)
            case "sglang":
                info = await self._json("/get_server_info") or await self._json("/server_info")
                return of_sglang(facts, info)
            case "llamacpp":
                props = await self._json("/props")
                return of_llamacpp(facts, props, await self._json("/apply-template", _EXAMPLE))
            case "ollama":
                running = await self._json("/api/ps")
                shown = await self._json("/api/show", {"model": self._model}) if self._model else None
                return of_ollama(facts, running, shown, self._model)
            case "lmstudio":
                return of_lmstudio(facts, await self._json("/api/v0/models"), self._model)
        return facts

    async def _page(self, path: str, body: Mapping[str, Any] | None = None) -> Page | None:
        return await self._fetch(self._root + path, body)

    async def _json(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        page = await self._page(path, body)
        return page.json if page is not None else None
