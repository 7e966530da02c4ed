"""Who is admitted: bearer keys, each with a name and limits.

A file of keys is TOML, with a table for each::

    [anna]
    key = "any long random text"      # or sha256 = "64 hexadecimal digits", and the key itself is in no file
    concurrent_answers = 4                   # answers at a time
    requests_per_minute = 60
    tokens_per_minute = 100_000       # read and written together
    metrics = true                    # it can read the metrics, which cover all keys
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import time
import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stretto.backends.resilience.shared import Store
from stretto.foundation.arguments import reason
from stretto.values.errors import SettingsError

KEY_VARIABLE = "STRETTO_SERVER_KEY"
SHORTEST = 16
_EXPORTED = "environment"  # the name of the key in that variable


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)  # as in header values

    key: str | None = Field(default=None, min_length=SHORTEST)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    concurrent_answers: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    metrics: bool = False


class MinuteQuota:
    """A quota per minute that refills continuously; a full minute's worth can be taken at once.

    An amount known only afterwards (tokens) is taken afterwards, and can leave less than nothing.

    Args:
        per_minute: the quota.
        name: distinguishes it from others in the store.
        store: shared by all servers; while it is unreachable, each server goes by what was taken locally.
    """

    def __init__(self, per_minute: float, name: str = "", store: Store | None = None) -> None:
        self._per_minute = per_minute
        self._left = per_minute
        self._at = time.monotonic()
        self._name = name
        self._store = store

    async def wait_s(self, amount: float = 1.0) -> float:
        """Return the seconds until this amount is available; 0 if it is."""
        return await self._spend(needed=amount, taken=0.0)

    async def admit(self) -> float:
        """Take one if available; returns the seconds until it is, and 0 if it was taken."""
        return await self._spend(needed=1.0, taken=1.0)

    async def take(self, amount: float) -> None:
        """Take this amount, whether or not it is available."""
        with anyio.CancelScope(shield=True):  # it has been used, even if nobody is waiting for the answer any more
            await self._spend(needed=0.0, taken=amount)

    async def _spend(self, *, needed: float, taken: float) -> float:
        wait_s = self._wait_s(needed)
        if wait_s == 0:
            self._left -= taken
        if self._store is None:
            return wait_s
        shared_s = await self._store.spend(self._name, self._per_minute, needed=needed, taken=taken)
        return wait_s if shared_s is None else shared_s

    def _wait_s(self, amount: float) -> float:
        now = time.monotonic()
        self._left = min(self._per_minute, self._left + (now - self._at) * self._per_minute / 60)
        self._at = now
        return max(0.0, (min(amount, self._per_minute) - self._left) * 60 / self._per_minute) if amount else 0.0


class Places:
    """A number of answers at a time, across all servers while the store can be reached.

    A place is leased for a while and renewed until its answer ends, so the places of a killed server become free.

    Args:
        most: the number of places.
        name: distinguishes them from others in the store.
        store: where they are counted.
        lease_s: seconds after which a place that is not renewed is free.
    """

    def __init__(self, most: int, name: str, store: Store, *, lease_s: float = 30.0) -> None:
        self._hold = partial(store.hold, name, most=most)
        self._lease_s = lease_s

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[bool]:
        """Hold a place within the block; yields false only if none was free."""
        token, ended = secrets.token_hex(8), anyio.Event()
        renewing = asyncio.create_task(self._renew(token, ended))
        try:
            yield await self._hold(token, for_s=self._lease_s) is not False
        finally:
            ended.set()
            with anyio.CancelScope(shield=True):  # otherwise it would be missing until its lease expires
                await renewing  # not cancelled: redis's client can swallow that, and the place would be held for ever
                await self._hold(token, for_s=0)

    async def _renew(self, token: str, ended: anyio.Event) -> None:
        while True:
            with anyio.move_on_after(self._lease_s / 3):
                await ended.wait()
                return
            await self._hold(token, for_s=self._lease_s)


@dataclass
class Holder:
    """The holder of a key, and what the key allows.

    Attributes:
        name: the name of the key; without keys, "anyone".
        concurrent_answers: answers at a time; ``None``: as many as the server allows.
        requests: requests per minute.
        tokens: tokens per minute.
        running: answers that are running or waiting on this server.
        places: the limit across all servers that share a store.
        metrics: whether it can read the metrics if there are other keys.
    """

    name: str
    concurrent_answers: int | None = None
    requests: MinuteQuota | None = None
    tokens: MinuteQuota | None = None
    running: int = 0
    places: Places | None = None
    metrics: bool = False


@dataclass(frozen=True)
class Keyring:
    """All keys that are admitted; without any, everyone is.

    Attributes:
        holders: holders by the SHA-256 of their key. The keys themselves are not kept.
        notices: sentences for whoever starts the server.
    """

    holders: Mapping[bytes, Holder] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    _anyone: Holder = field(default_factory=lambda: Holder("anyone"))

    @classmethod
    def load(cls, file: Path | None, environ: Mapping[str, str], store: Store | None = None) -> Keyring:
        """Read the keys from a file and from ``$STRETTO_SERVER_KEY``. Raises `SettingsError`, which shows no key.

        With a store, a key's limits apply to all servers together.
        """
        holders: dict[bytes, Holder] = {}
        notices: list[str] = []
        if file is not None:
            for name, entry in _read(file).items():
                digest = bytes.fromhex(entry.sha256) if entry.sha256 else _digest(entry.key or "")
                if digest in holders:
                    raise SettingsError(f"{name} and {holders[digest].name} have the same key in {file}. Change one.")
                holders[digest] = _holder(name, entry, store)
            if os.name == "posix" and file.stat().st_mode & 0o077:
                notices.append(f"Other users of this machine can read {file}. Close it: chmod 600 {file}")
        exported = environ.get(KEY_VARIABLE, "").strip()
        if exported:
            if len(exported) < SHORTEST:
                raise SettingsError(
                    f"The key in {KEY_VARIABLE} is shorter than {SHORTEST} characters. Take a longer one."
                )
            if any(each.name == _EXPORTED for digest, each in holders.items() if digest != _digest(exported)):
                raise SettingsError(
                    f"{file} names a key {_EXPORTED}, which is the name of that in {KEY_VARIABLE}. Choose another name."
                )
            holders.setdefault(_digest(exported), Holder(_EXPORTED, metrics=True))
        return cls(holders, tuple(notices))

    @property
    def has_several(self) -> bool:
        """Whether there are multiple keys, whose holders must not learn of each other."""
        return len(self.holders) > 1

    def find(self, headers: Mapping[str, str]) -> Holder | None:
        """Return the holder of the key in these headers (``authorization: Bearer KEY`` or ``x-api-key``), or ``None``.

        The time it takes does not depend on how much of a key is right, nor on whose it is.
        """
        if not self.holders:
            return self._anyone
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Anthropic's clients send both headers if their environment contains another service's token.
        keys = (given.strip(" \t") if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        # Headers are decoded as Latin-1. Clients send a non-ASCII key as UTF-8, browsers as Latin-1.
        sent = [
            hashlib.sha256(key.encode(encoding)).digest() for key in keys if key for encoding in ("latin-1", "utf-8")
        ]
        found: Holder | None = None
        for digest, holder in self.holders.items():
            if any([hmac.compare_digest(digest, each) for each in sent]):  # noqa: C419 - all of them, in any case
                found = holder
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _holder(name: str, entry: _Entry, store: Store | None) -> Holder:
    requests, tokens = entry.requests_per_minute, entry.tokens_per_minute
    return Holder(
        name,
        entry.concurrent_answers,
        None if requests is None else MinuteQuota(requests, f"requests of {name}", store),
        None if tokens is None else MinuteQuota(tokens, f"tokens of {name}", store),
        metrics=entry.metrics,
        places=None
        if store is None or entry.concurrent_answers is None
        else Places(entry.concurrent_answers, name, store),
    )


def _read(file: Path) -> dict[str, _Entry]:
    try:
        written = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The file of keys {file} cannot be read: {error.strerror}.") from None
    except ValueError:  # its message can quote a line with a key
        raise SettingsError(f'The file of keys {file} is not TOML. Write [NAME], and key = "..." below it.') from None
    entries: dict[str, _Entry] = {}
    for name, table in written.items():
        if not re.fullmatch(r"[\w.@-]{1,64}", name) or not isinstance(table, dict):
            raise SettingsError(
                f'The file of keys {file} holds more than tables. Write [NAME], and key = "..." below it.'
            )
        try:
            entries[name] = entry = _Entry(**table)
        except ValidationError as error:
            first = error.errors()[0]
            what = ".".join(map(str, first["loc"]))
            raise SettingsError(f"{what} of [{name}] in {file} cannot be used: {reason(first)}.") from None
        if (entry.key is None) == (entry.sha256 is None):
            raise SettingsError(f"[{name}] in {file} needs a key: either key or sha256.")
    if not entries:
        raise SettingsError(f'The file of keys {file} holds none. Write [NAME], and key = "..." below it.')
    return entries
