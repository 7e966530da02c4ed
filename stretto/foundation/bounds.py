"""How much a request may hold, and from what size on it is worked on in a thread: each entry costs time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stretto.values.errors import InvalidRequestError

MOST: Mapping[str, int] = {"messages": 20_000, "parts": 20_000, "tools": 1_024, "stop": 1_000}
"""The most of each; the parts are those of all messages together."""

LONG = 32
"""From so many on, they are read and made ready in a thread: an event loop has others to serve meanwhile."""

VERY_LONG = 250
"""From so many on, not even the SDKs' own steps on them are taken in the event loop."""

LONG_TEXT = 4_096
"""Characters from which on a text is searched in a thread."""


def check_numbers(**given: Any) -> None:
    """Raise `InvalidRequestError` if a list is longer than its kind may be; what is no list is for others to judge."""
    if (messages := given.get("messages")) is not None:
        given["parts"] = range(sum(_parts(messages)))
    for name, listed in given.items():
        if _is_list(listed) and len(listed) > MOST[name]:
            remedy = {"stop": "Name fewer", "tools": "Offer fewer"}.get(name, "Leave out or sum up earlier turns")
            raise InvalidRequestError(
                f"{name} holds {len(listed):,} entries, and {MOST[name]:,} is the most a request may have. {remedy}."
            )


def is_long(*lists: Any, most: int = LONG) -> bool:
    """Whether reading these would hold the event loop for longer than a moment: more than ``most`` entries or parts."""
    return any(_is_list(each) and (len(each) > most or sum(_parts(each)) > most) for each in lists)


def _parts(messages: Any) -> Iterable[int]:
    """How many parts each message has beyond its text."""
    for each in messages if _is_list(messages) else ():
        content = each.get("content") if isinstance(each, Mapping) else getattr(each, "parts", None)
        if isinstance(content, (list, tuple)):
            yield len(content)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
