"""Which proxy to use for an address, by the environment and the system settings.

None is used for this machine. Proxies and exceptions are those that programs such as curl obey: ``HTTP_PROXY``,
``HTTPS_PROXY``, ``ALL_PROXY``, and ``NO_PROXY`` with names, addresses, networks (``10.0.0.0/8``) and ports.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies

from stretto.backends.providers.transport.http_clients import is_this_machine
from stretto.values.errors import MissingDependencyError, SettingsError

_SCHEMES = ("http", "https", "socks5", "socks5h")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy: its address, and as ``name`` the same without user and password, to be shown."""

    url: str
    name: str


def proxy_to(url: str) -> Proxy | None:
    """Return the proxy for an address; ``None`` if there is none.

    Raises `SettingsError` for one that cannot be used, `MissingDependencyError` for SOCKS without socksio.
    """
    parts, proxies = urlsplit(url), {name: address.strip() for name, address in getproxies().items()}
    host = parts.hostname or ""
    kind = next((name for name in (parts.scheme, "all") if proxies.get(name)), None)
    if kind is None or is_this_machine(host):
        return None
    if _is_left_out(host, parts.port or _PORTS.get(parts.scheme), proxies.get("no", "")):
        return None
    named = proxies[kind] if "://" in proxies[kind] else f"http://{proxies[kind]}"
    try:
        found = urlsplit(named)
        host_shown = f"[{found.hostname}]" if ":" in (found.hostname or "") else found.hostname
        name = f"{found.scheme}://{host_shown}" + (f":{found.port}" if found.port else "")
    except ValueError:
        found, name = urlsplit(""), ""
    if not found.hostname or found.scheme not in _SCHEMES:
        raise SettingsError(
            f"{_variable(kind)} names no proxy that can be used for {host}: its address begins with "
            f"{', '.join(f'{each}://' for each in _SCHEMES[:-1])} or {_SCHEMES[-1]}:// and names a host."
        )
    if found.scheme.startswith("socks") and find_spec("socksio") is None:
        raise MissingDependencyError(
            f"The proxy {name}, which {_variable(kind)} names, needs socksio, which is not installed. Run: pip install "
            f"socksio. To reach {host} without a proxy, put it into NO_PROXY.",
            name="socksio",
        )
    return Proxy(named, name)


def _variable(kind: str) -> str:
    names = (f"{kind}_proxy".upper(), f"{kind}_proxy")
    return next((name for name in names if os.environ.get(name)), "the system")


def _is_left_out(host: str, port: int | None, listed: str) -> bool:
    """Return whether ``NO_PROXY`` names a host: itself, a domain above it, its network, or all."""
    return any(_names(entry, host, port) for entry in re.split(r"[\s,]+", listed.lower()) if entry)


def _names(entry: str, host: str, port: int | None) -> bool:
    entry = entry.rpartition("://")[2]
    if with_port := re.fullmatch(r"(\[.*\]|[^:]*):(\d+)", entry):
        entry = with_port[1]
        if port is not None and int(with_port[2]) != port:
            return False
    entry = entry.strip("[]")
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        domain = entry.removeprefix("*").strip(".")
        return entry == "*" or host.rstrip(".") == domain or (bool(domain) and host.rstrip(".").endswith(f".{domain}"))
