"""The only place that knows which HTTP library the SDKs run on: httpx2, or httpx before it."""

from __future__ import annotations

import ssl
import sys
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

MAX_CONNECTIONS = 512
"""Connections of one client; the limit of calls under way must stay below it."""

_KEPT_S = 55.0  # a reader's pause between two questions; servers drop idle connections after 60 s or more
_CONNECT_S = 10.0
_READ_S = 900.0


def async_client() -> httpx2.AsyncClient:
    """Open a connection pool for one SDK client.

    The read limit is only a last resort: silence is noticed earlier, by ``StallGuard``. Redirects
    are not followed, because a key must not travel to a host the user did not name. Connections are
    kept for longer than the usual 5 s: those of one answer's points then serve the next answer's,
    instead of being closed and opened anew while the reader waits.
    """
    import httpx2  # noqa: PLC0415 - imported on first use

    from stretto.backends.http_bounds import receive  # noqa: PLC0415 - it imports httpx2

    return httpx2.AsyncClient(
        event_hooks={"response": [receive]},
        verify=_certificates(),
        timeout=httpx2.Timeout(_READ_S, connect=_CONNECT_S, pool=_READ_S),
        limits=httpx2.Limits(
            max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS, keepalive_expiry=_KEPT_S
        ),
        follow_redirects=False,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Read the trusted certificates once: it takes longer than all the rest of a client."""
    import httpx2  # noqa: PLC0415 - imported on first use

    return httpx2.create_ssl_context()


def transport_errors() -> tuple[type[Exception], ...]:
    """Give what the loaded HTTP libraries raise when a connection fails; LangChain models may use either."""
    return tuple(sys.modules[name].TransportError for name in ("httpx2", "httpx") if name in sys.modules)


def host_of(base_url: str) -> str:
    """Give host and port of an address, without the user and password that it may hold."""
    parts = urlsplit(base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or base_url
