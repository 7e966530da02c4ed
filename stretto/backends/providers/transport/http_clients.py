"""The only module that knows which HTTP library an SDK uses: httpx2, or its predecessor httpx."""

from __future__ import annotations

import importlib
import ipaddress
import ssl
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from stretto.values.errors import missing

MAX_CONNECTIONS = 512
"""Connections of one client; the limit of concurrent calls must stay below it."""

_KEPT_S = 55.0  # a reader's pause between two questions; servers drop idle connections after 60 s or more
_CONNECT_S = 10.0
_READ_S = 900.0


def async_client(sdk: ModuleType, proxy: str | None = None) -> Any:
    """Open a connection pool for one client of an SDK, with the HTTP library that this SDK accepts.

    ``proxy``: used for all requests; the library does not look for one by itself, see `proxies`.

    The read timeout is only a last resort: silence is noticed earlier, by ``StallGuard``. Redirects
    are not followed, because a key must not travel to a host the user did not name. Connections are
    kept for longer than the usual 5 s, so that the connections for one answer's points serve the next
    answer's, instead of being reopened while the reader waits.
    """
    return _client(http_library(sdk), proxy)


def _client(library: ModuleType, proxy: str | None, **more: Any) -> Any:
    from stretto.backends.providers.transport.http_bounds import bounding  # noqa: PLC0415 - only what is used is imported

    return library.AsyncClient(
        event_hooks={"response": [bounding(library)]},
        verify=_certificates(library),
        timeout=library.Timeout(_READ_S, connect=_CONNECT_S, pool=_READ_S),
        limits=library.Limits(
            max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS, keepalive_expiry=_KEPT_S
        ),
        follow_redirects=False,
        proxy=proxy,
        trust_env=False,
        **more,
    )


def http_client(proxy: str | None = None, **more: Any) -> Any:
    """Open such a pool for an API without an SDK; ``more``: arguments of the library's client."""
    return _client(_plain_library(), proxy, **more)


def make_ready(sdk: str) -> None:
    """Import an SDK, or a module of it, and read the certificates. This takes a second, so call it in a thread."""
    if not sdk:
        _certificates(_plain_library())
        return
    importlib.import_module(sdk)
    _certificates(http_library(sys.modules[sdk.partition(".")[0]]))


def _plain_library() -> ModuleType:
    """Return the HTTP library that is installed. Raises `MissingDependencyError`."""
    for name in ("httpx2", "httpx"):
        if find_spec(name) is not None:
            return importlib.import_module(name)
    raise missing("An API over HTTP", "httpx", "openai")


def http_library(sdk: ModuleType) -> ModuleType:
    """Return the HTTP library that an SDK uses, by the client that the SDK creates for itself.

    The two libraries look alike but share no class: an SDK rejects a client of the other one.
    """
    client = next(kind for kind in sdk.DefaultAsyncHttpxClient.__mro__ if kind.__name__ == "AsyncClient")
    return sys.modules[client.__module__.partition(".")[0]]


@cache
def _certificates(library: ModuleType) -> ssl.SSLContext:
    """Read the trusted certificates once: it takes longer than everything else in a client."""
    context: ssl.SSLContext = library.create_ssl_context()
    return context


def transport_errors() -> tuple[type[Exception], ...]:
    """Return what the loaded HTTP libraries raise if a connection fails; LangChain models can use either."""
    return tuple(sys.modules[name].TransportError for name in ("httpx2", "httpx") if name in sys.modules)


def is_loopback(endpoint: str) -> bool:
    """Return whether a host, with or without a port, is this machine."""
    return is_this_machine(endpoint) or is_this_machine(endpoint.rpartition(":")[0])


def is_this_machine(host: str) -> bool:
    """Return whether a host name or address refers to the local machine."""
    name = host.lower().strip("[]").rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def with_query(url: str, query: Mapping[str, str]) -> str:
    """Return an address with additional query parameters."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url


def without_query(url: str) -> tuple[str, dict[str, str]]:
    """Split an address into the part before its query, and the query parameters, such as Azure's ``?api-version=``."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")), dict(parse_qsl(parts.query, True))


def host_of(base_url: str) -> str:
    """Return host and port of an address, without any user and password."""
    parts = urlsplit(base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or base_url
