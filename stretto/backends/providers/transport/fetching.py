"""Short requests to a server beside its answers: bounded in size, without redirects, closed when they are done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from stretto.backends.providers.discovery import Fetch, Page
from stretto.backends.providers.transport.http_clients import async_client, http_library, with_query, without_query
from stretto.backends.providers.transport.proxies import proxy_to

__all__ = ["fetching"]

_MOST = 4 * 2**20  # bytes of a body; the metrics of a large vLLM are below one MiB


@asynccontextmanager
async def fetching(key: str, base_url: str) -> AsyncGenerator[Fetch]:
    """Give a function that asks for a URL below this address with this key, and with the parameters of the address.

    Its connections are closed when the context is left.
    """
    import openai  # noqa: PLC0415 - imported on first use: it takes 0.4 s

    library = http_library(openai)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    _, query = without_query(base_url)
    proxy = proxy_to(base_url)

    async def fetch(url: str, body: Mapping[str, Any] | None = None) -> Page | None:
        how = ("GET", None) if body is None else ("POST", dict(body))
        read = bytearray()
        try:
            async with client.stream(how[0], with_query(url, query), json=how[1], headers=headers) as response:
                async for piece in response.aiter_bytes():
                    read += piece
                    if len(read) > _MOST:
                        return Page(413, {}, b"")
        except (library.HTTPError, library.InvalidURL, OSError):
            return None
        return Page(
            response.status_code, {name.lower(): value for name, value in response.headers.items()}, bytes(read)
        )

    async with async_client(openai, proxy.url if proxy else None) as client:
        yield fetch
