"""A client that asks for chat completions and costs little itself: HTTP/1.1 over plain sockets, answers as bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

_DONE = b"data: [DONE]"


@dataclass(frozen=True, slots=True)
class Timing:
    """One request, in seconds.

    Attributes:
        first: to the first text; of an answer in one piece, to its end.
        total: to the end.
        error: what went wrong; empty where nothing did.
    """

    first: float
    total: float
    error: str = ""


class Connection:
    """A connection that is kept for the next request, as the pools of the SDKs do."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path.rstrip("/")
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the next request opens a new one."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def ask(self, body: Mapping[str, Any]) -> Timing:
        """Ask for a chat completion and read all of it."""
        began = time.perf_counter()
        try:
            first, error = await self._ask(json.dumps(body).encode(), began)
        except (OSError, asyncio.IncompleteReadError, ValueError) as failure:
            first, error = time.perf_counter() - began, repr(failure)
        if error:
            self.close()
        return Timing(first, time.perf_counter() - began, error)

    async def _ask(self, body: bytes, began: float) -> tuple[float, str]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        head = (
            f"POST {self._path}/chat/completions HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n{self._headers}"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(answered.split(b" ", 2)[1])
        if b"content-length: " in answered:
            length = int(answered.split(b"content-length: ")[1].split(b"\r\n")[0])
            whole = await self._reader.readexactly(length)
            return time.perf_counter() - began, "" if status == 200 else whole[:200].decode(errors="replace")
        return await self._chunks(self._reader, began)

    async def _chunks(self, reader: asyncio.StreamReader, began: float) -> tuple[float, str]:
        first, done, error = 0.0, False, ""
        while size := int(await reader.readline(), 16):
            chunk = (await reader.readexactly(size + 2))[:-2]
            if not first and b'"content":"' in chunk.replace(b'": "', b'":"').replace(b'"content":""', b""):
                first = time.perf_counter() - began
            done = done or _DONE in chunk
            if b'"error"' in chunk:
                error = chunk[:200].decode(errors="replace")
        await reader.readline()
        return first, error or ("" if done else "the stream ended without [DONE]")
