"""Who is let in: bearer keys, each with a name and limits.

A file of keys is TOML, with a table for each::

    [anna]
    key = "any long random text"      # or sha256 = "64 hexadecimal digits", and the key itself is in no file
    concurrent_answers = 4                   # answers at a time
    requests_per_minute = 60
    tokens_per_minute = 100_000       # read and written together
    metrics = true                    # it may read the counters, which tell of all keys
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
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)  # headers have none at their ends

    key: str | None = Field(default=None, min_length=SHORTEST)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    concurrent_answers: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    metrics: bool = False


class MinuteQuota:
    """So much a minute, refilled all the time; a minute's worth can be taken at once.

    What is known only afterwards (tokens) is taken afterwards, and may leave less than nothing.

    Args:
        per_minute: so much.
        name: tells it from others in the store.
        store: where all servers take from it; while that is away, each goes on by what was taken here.
    """

    def __init__(self, per_minute: float, name: str = "", store: Store | None = None) -> None:
        self._per_minute = per_minute
        self._left = per_minute
        self._at = time.monotonic()
        self._name = name
        self._store = store

    async def wait_s(self, amount: float = 1.0) -> float:
        """Seconds until this amount is there; 0 if it is."""
        return await self._spend(needed=amount, taken=0.0)

    async def admit(self) -> float:
        """Take one if it is there; gives the seconds until it is, and 0 if it was taken."""
        return await self._spend(needed=1.0, taken=1.0)

    async def take(self, amount: float) -> None:
        """Take this amount, there or not."""
        with anyio.CancelScope(shield=True):  # it has been used, even if nobody waits for the answer any more
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
    """So many answers at a time, of all servers together while the store can be reached.

    A place is held for a while and held anew until its answer ends, so those of a server that was killed come free.

    Args:
        most: so many.
        name: tells them from others in the store.
        store: where they are counted.
        held_s: seconds after which a place that nobody holds anew is free.
    """

    def __init__(self, most: int, name: str, store: Store, *, held_s: float = 30.0) -> None:
        self._hold = partial(store.hold, name, most=most)
        self._held_s = held_s

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[bool]:
        """Hold a place in the block; gives whether there was one, or nobody could tell."""
        token, ended = secrets.token_hex(8), anyio.Event()
        renewing = asyncio.create_task(self._renew(token, ended))
        try:
            yield await self._hold(token, for_s=self._held_s) is not False
        finally:
            ended.set()
            with anyio.CancelScope(shield=True):  # or it would be missed until it is free by itself
                await renewing  # not cancelled: redis's client may swallow that, and the place would be held for ever
                await self._hold(token, for_s=0)

    async def _renew(self, token: str, ended: anyio.Event) -> None:
        while True:
            with anyio.move_on_after(self._held_s / 3):
                await ended.wait()
                return
            await self._hold(token, for_s=self._held_s)


@dataclass
class Holder:
    """Whoever holds a key, with what the key allows.

    Attributes:
        name: of the key; without keys, "anyone".
        concurrent_answers: answers at a time; ``None``: as many as the server bears.
        requests: requests a minute.
        tokens: tokens a minute.
        running: answers that are being written or wait for it, here.
        places: the same for all servers that share a store.
        metrics: whether it may read the counters where there are other keys.
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
    """All keys that are let in; without any, everyone is.

    Attributes:
        holders: by the SHA-256 of the key. The keys themselves are not kept.
        notices: sentences for whoever starts the server.
    """

    holders: Mapping[bytes, Holder] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    _anyone: Holder = field(default_factory=lambda: Holder("anyone"))

    @classmethod
    def load(cls, file: Path | None, environ: Mapping[str, str], store: Store | None = None) -> Keyring:
        """Read the keys of a file and the one in ``$STRETTO_SERVER_KEY``. Raises `SettingsError`; no key is shown.

        With a store, what a key allows is for all servers together.
        """
        holders: dict[bytes, Holder] = {}
        notices: list[str] = []
        if file is not None:
            for name, entry in _read(file).items():
                digest = bytes.fromhex(entry.sha256) if entry.sha256 else _digest(entry.key or "")
                if digest in holders:
                    raise SettingsError(f"{name} and {holders[digest].name} have the same key in {file}. Change one.")
                holders[digest] = _holder(name, entry, store)
            if _is_open(file):
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
        """Whether there are several keys, whose holders must not learn of each other."""
        return len(self.holders) > 1

    def find(self, headers: Mapping[str, str]) -> Holder | None:
        """Whose key these headers hold (``authorization: Bearer KEY`` or ``x-api-key``); ``None``: of nobody.

        The time it takes does not depend on how much of a key is right, nor on whose it is.
        """
        if not self.holders:
            return self._anyone
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Anthropic's clients send both headers where their environment holds a token of another service.
        keys = (given.strip(" \t") if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        # Headers are read as Latin-1. Clients send a key beyond ASCII as UTF-8, browsers as Latin-1.
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
    except ValueError:  # its message may quote a line with a key
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


def _is_open(file: Path) -> bool:
    return os.name == "posix" and bool(file.stat().st_mode & 0o077)
