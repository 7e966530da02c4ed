"""Limits on the size of requests, and the sizes from which they are processed in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stretto.values.errors import InvalidRequestError

MOST: Mapping[str, int] = {"messages": 20_000, "parts": 20_000, "tools": 1_024, "stop": 1_000}
"""The most entries of each kind; parts are counted over all messages."""

LONG = 32
"""The number of entries from which they are read and prepared in a thread, to keep the event loop free."""

VERY_LONG = 250
"""The number of entries from which even the SDKs' own processing is moved out of the event loop."""

LONG_TEXT = 4_096
"""The number of characters from which a text is searched in a thread."""


def check_numbers(**given: Any) -> None:
    """Raise `InvalidRequestError` if a list is longer than allowed; values that are not lists are not checked here."""
    if (messages := given.get("messages")) is not None:
        given["parts"] = range(sum(_parts(messages)))
    for name, listed in given.items():
        if _is_list(listed) and len(listed) > MOST[name]:
            remedy = {"stop": "Name fewer", "tools": "Offer fewer"}.get(name, "Leave out or sum up earlier turns")
            raise InvalidRequestError(
                f"{name} holds {len(listed):,} entries, and {MOST[name]:,} is the most a request may have. {remedy}."
            )


def is_long(*lists: Any, most: int = LONG) -> bool:
    """Return whether these have more than ``most`` entries or parts, too many to read in the event loop."""
    return any(_is_list(each) and (len(each) > most or sum(_parts(each)) > most) for each in lists)


def _parts(messages: Any) -> Iterable[int]:
    """Yield the number of parts of each message in addition to its text."""
    for each in messages if _is_list(messages) else ():
        content = each.get("content") if isinstance(each, Mapping) else getattr(each, "parts", None)
        if isinstance(content, (list, tuple)):
            yield len(content)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
