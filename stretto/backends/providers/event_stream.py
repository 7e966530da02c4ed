"""The events of a stream as plain JSON, without the models that an SDK makes of each.

Making the SDK's models takes most of the time that an event takes in the SDK.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

__all__ = ["json_events"]


async def json_events(body: AsyncIterator[bytes]) -> AsyncGenerator[Any]:
    """Give what the ``data`` of each event holds.

    ``body`` comes in whole lines, as `EventLines` gives them. Other fields of an event say nothing that its data does
    not say, and an event without data says nothing. Raises `json.JSONDecodeError`.
    """
    data = b""
    async for lines in body:
        for line in lines.split(b"\n")[:-1]:
            if line.startswith(b"data:"):
                data += line[5:] + b"\n"
            elif not line:
                if data.strip():
                    yield json.loads(data)
                data = b""
    if data.strip():
        yield json.loads(data)
