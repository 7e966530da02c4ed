"""Keeps the shared state of rate limits and breakers in Redis."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import anyio

from stretto.backends.providers.transport.headers import LONGEST_S
from stretto.backends.resilience.rate_limits import BELIEVED_S
from stretto.backends.resilience.shared import News, Room, SharedHealth, SharedLimits, Standing
from stretto.backends.resilience.suspects import MOST_TRIALS
from stretto.values.errors import SettingsError, missing

if TYPE_CHECKING:
    from redis.asyncio import Redis

_log = logging.getLogger(__name__)
_SCRIPTS = Path(__file__).parent / "scripts"
_FORGOTTEN_S = 3600  # expiry of unused keys
_CONNECTIONS = 16  # a script takes a fraction of a millisecond


class RedisStore:
    """Rate limits and breakers for all replicas that use the same Redis server, database and prefix.

    Every change is one Lua script, so it is atomic, and all times are from the server's clock. While Redis is
    unreachable, each replica relies on its own state: one warning is logged, every ``again_s`` seconds one call checks
    whether Redis is back, and from then on what replicas learn is shared again. Rate limits belong to an account, so
    programs with different keys of a provider need different prefixes or databases.

    Args:
        url: ``redis://HOST:PORT/DATABASE``, ``rediss://`` with TLS or ``unix://PATH``; can contain a name and password.
        prefix: the prefix of all keys. They expire an hour after their last use.
        timeout_s: how long a response of Redis may take.
        again_s: how long Redis is left alone after it did not respond.
        clock: seconds, instead of the server's clock; the same for all replicas.

    Raises `SettingsError` for an invalid address, `MissingDependencyError` without the package redis.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "stretto",
        timeout_s: float = 1.0,
        again_s: float = 5.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        try:
            from redis.asyncio.connection import parse_url  # noqa: PLC0415 - an extra, and slow to import
        except ImportError as error:
            raise missing("Sharing limits through Redis", str(error.name), "redis") from None
        try:
            found = parse_url(url)
        except ValueError:  # its message and the value can contain a password
            raise SettingsError(
                "What was given for sharing limits is no address of a Redis server. It is not shown, as it may hold a "
                "password. Give redis://HOST:PORT/DATABASE, rediss://... or unix://PATH."
            ) from None
        place = found.get("path") or f"{found.get('host', 'localhost')}:{found.get('port', 6379)}"
        self.where = f"redis at {place}, database {found.get('db', 0)}"
        self._url = url
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._again_s = again_s
        self._clock = clock
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Redis] = WeakKeyDictionary()
        self._away_until_s = -math.inf
        self._is_away = False
        self.replica = secrets.token_hex(8)

    def __repr__(self) -> str:
        return f"<RedisStore {self.where}>"

    async def reach(self) -> bool:
        return await self._reply(lambda client: client.ping()) is not None

    def limits(self, model: tuple[str, ...]) -> SharedLimits:
        """Return the rate limits of the model with this provider, address and name."""
        return _Limits(self, self._key("limits", model))

    def health(self, endpoint: tuple[str, ...], *, faults: int, over_s: float, rest_s: float) -> SharedHealth:
        """Return the health of the endpoint with this provider and address."""
        return _Health(self, self._key("health", endpoint), faults=faults, over_s=over_s, rest_s=rest_s)

    async def spend(self, name: str, a_minute: float, *, needed: float, taken: float) -> float | None:
        """Take from an allowance that grows by ``a_minute`` each minute, if enough is available."""
        reply = await self.run("allowance_spend", self._key("allowance", (name,)), a_minute, needed, taken)
        return None if reply is None else float(reply)

    async def hold(self, name: str, token: str, *, most: int, for_s: float) -> bool | None:
        """Take one of ``most`` places for this long, or extend the lease; 0 seconds: give it back."""
        reply = await self.run("place_hold", self._key("places", (name,)), token, most, for_s)
        return None if reply is None else bool(int(reply))

    async def aclose(self) -> None:
        """Close the connections of this event loop. Idempotent."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def run(self, script: str, key: str, *arguments: str | float) -> Any:
        """Return a script's result; ``None`` while Redis is unreachable."""
        now = "" if self._clock is None else repr(self._clock())
        given = [now, *map(str, arguments)]
        return await self._reply(lambda client: client.register_script(_script(script))(keys=[key], args=given))

    async def _reply(self, ask: Callable[[Redis], Any]) -> Any:
        from redis.exceptions import RedisError  # noqa: PLC0415 - of an extra

        now_s = time.monotonic()
        if now_s < self._away_until_s:
            return None
        if self._is_away:
            self._away_until_s = now_s + self._timeout_s  # this call checks whether it is back; others go on without
        try:
            with anyio.fail_after(self._timeout_s):
                reply = await ask(self._client())
        except (RedisError, OSError, TimeoutError) as error:
            self._away_until_s = time.monotonic() + self._again_s
            if not self._is_away:
                self._is_away = True
                _log.warning(
                    "%s cannot be used (%s). Until it is back, this replica uses its own limits and breakers.",
                    self.where,
                    str(error).rstrip(".") or f"no answer in {self._timeout_s:g} s",
                )
            return None
        if self._is_away:
            self._is_away = False
            self._away_until_s = -math.inf
            _log.info("%s is back: limits and breakers are shared again.", self.where)
        return reply

    def _client(self) -> Redis:
        from redis.asyncio import BlockingConnectionPool, Redis  # noqa: PLC0415 - of an extra
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            pool = BlockingConnectionPool.from_url(
                self._url,
                decode_responses=True,
                max_connections=_CONNECTIONS,
                timeout=self._timeout_s,
                retry=Retry(NoBackoff(), 1),  # the server might have closed an idle connection
            )
            client = self._clients[loop] = Redis.from_pool(pool)
        return client

    def _key(self, kind: str, parts: tuple[str, ...]) -> str:
        # An address can contain a password, so it is not part of the keys, which can be listed.
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
        return f"{self._prefix}:{kind}:{digest}"


class _Limits:
    def __init__(self, store: RedisStore, key: str) -> None:
        self._store = store
        self._key = key

    async def take(self, cost: Mapping[str, int], flying: Mapping[str, int]) -> Room:
        """Count a call, if there is room for it."""
        reply = await self._run("limits_take", json.dumps(cost), json.dumps(flying))
        return Room() if reply is None else Room(min(float(reply[0]), LONGEST_S), float(reply[1]))

    async def report(self, news: News) -> None:
        """Record what a call has shown."""
        reported = {
            kind: {"remaining": report.remaining, "size": report.size or 0, "window": report.window_s}
            for kind, report in news.reported.items()
        }
        shown = {
            "flying": news.flying,
            "returned": news.returned,
            "reported": reported,
            "hold": min(news.hold_s, BELIEVED_S),
        }
        await self._run("limits_report", json.dumps(shown))

    async def _run(self, script: str, *arguments: str) -> Any:
        return await self._store.run(script, self._key, self._store.replica, _FORGOTTEN_S, BELIEVED_S, *arguments)


class _Health:
    def __init__(self, store: RedisStore, key: str, *, faults: int, over_s: float, rest_s: float) -> None:
        self._store = store
        self._key = key
        self._faults = faults
        self._over_s = over_s
        self._rest_s = rest_s

    async def admit(self, token: str, answer: int | None, *, fresh: bool = False) -> Standing:
        arguments = (self._rest_s, token, self._named(answer), "1" if fresh else "", MOST_TRIALS)
        reply = await self._store.run("health_admit", self._key, *arguments)
        if reply is None:
            return Standing()
        verdict, left_s, faults, last = reply
        return Standing(verdict, float(left_s), int(faults), last)

    async def report(
        self,
        what: Literal["fault", "answers", "whole", "end"],
        *,
        token: str = "",
        answer: int | None = None,
        failure: str = "",
        follows: bool = False,
    ) -> None:
        """Record how a call went."""
        call = (what, token, self._named(answer), failure)
        limits = (self._faults, self._over_s, _FORGOTTEN_S)
        await self._store.run("health_report", self._key, *call, *limits, "1" if follows else "")

    def _named(self, answer: int | None) -> str:
        return "" if answer is None else f"{self._store.replica}:{answer}"


@cache
def _script(name: str) -> str:
    return (_SCRIPTS / f"{name}.lua").read_text(encoding="utf-8")
