"""The options of a server: where it listens, how much it accepts, how long it waits."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from stretto.foundation.arguments import safe_repr
from stretto.values.errors import SettingsError

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server serves. Times in seconds. Raises `SettingsError`.

    Attributes:
        host: the address to listen on.
        port: the port; 0 for a free one.
        keys: a file with the keys to admit, see `stretto.server.limits.keys`.
        cors: origins of web pages that can call the server from a browser, such as ``https://chat.example``; ``*``
            allows all.
        concurrent_answers: answers that are written at the same time.
        queue: requests that can wait for their turn; those beyond are refused with 429.
        body_bytes: the most bytes of a request's body.
        body_s: the longest time that a body may take to arrive.
        first_byte_s: after this time a stream begins even without its first text, so that no proxy gives it up.
        heartbeat_s: the longest silence within a stream; a comment fills it.
        send_s: after this time without reading, a client counts as disconnected.
        drain_s: how long running answers may take to end when the server is asked to stop.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    cors: tuple[str, ...] = ()
    concurrent_answers: int = 128
    queue: int = 512
    body_bytes: int = 20 * MEBIBYTE
    body_s: float = 60.0
    first_byte_s: float = 15.0
    heartbeat_s: float = 15.0
    send_s: float = 60.0
    drain_s: float = 20.0

    def __post_init__(self) -> None:
        for origin in self.cors:
            parts = urlsplit(origin)
            if origin != "*" and (not parts.scheme or not parts.netloc or parts.path or parts.query or parts.fragment):
                raise SettingsError(
                    f"cors={safe_repr(origin)} cannot be used: it takes an origin such as https://chat.example, or *."
                )
        bounds = {
            "port": (0, 65535),
            "concurrent_answers": (1, 100_000),
            "queue": (0, 1_000_000),
            "drain_s": (0, math.inf),
        }
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, int | float):
                continue
            lowest, highest = bounds.get(item.name, (0.001, math.inf))
            if not lowest <= value <= highest:
                raise SettingsError(f"{item.name}={value} cannot be used: it must be from {lowest} to {highest}.")

    @property
    def loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False
