"""Parses a JSON outline while it streams; each character is read once, each entry is parsed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jiter

FRAME_KEYS = ("opening", "closing")

Entry = str | dict[str, Any]


@dataclass
class JsonOutline:
    """Takes streamed text; each call returns the entries that it completes.

    Entries are the strings and objects of the outermost list: the whole text, or the first list among the members of
    the outermost object. Without such a list, the string members are the entries, once the object is closed. Text
    after the JSON is ignored, and so are entries that are not valid JSON.

    ``members`` holds the strings of the outermost object by their keys; ``opening`` is the member of that name, if it
    precedes the first entry.
    """

    members: dict[str, str] = field(default_factory=dict)
    opening: str = ""
    _begun: bool = False
    _open: list[str] = field(default_factory=list)
    _list_depth: int = 0  # of the entries; 0 until a list is found
    _key: str | None = None
    _value: list[str] | None = None  # the string or object being recorded
    _value_depth: int = 0
    _in_string: bool = False
    _escaped: bool = False
    _ended: bool = False

    def feed(self, text: str) -> list[Entry]:
        """Take new text; return the entries completed by it."""
        found: list[Entry] = []
        for character in text:
            if self._ended:
                break
            self._take(character, found)
        return found

    def finish(self) -> list[Entry]:
        """Return what the end of the text completes: an open object counts so far, an open string does not."""
        found: list[Entry] = []
        if not self._ended and self._value is not None and self._value[0] == "{" and self._list_depth:
            self._keep(_parsed("".join(self._value), partial=True), found)
        self._end(found)
        return found

    def _take(self, character: str, found: list[Entry]) -> None:
        if self._value is not None:
            self._value.append(character)
        if self._in_string:
            self._in_string = self._escaped or character != '"'
            self._escaped = not self._escaped and character == "\\"
            if not self._in_string:
                self._close(found)
        elif character == '"':
            self._in_string = True
            self._record(character)
        elif character in "[{":
            if character == "{" and len(self._open) == self._list_depth:
                self._record(character)
            elif character == "[" and not self._list_depth and self._in_root(after_key=True):
                self._list_depth = len(self._open) + 1
            self._open.append(character)
        elif character in "]}" and self._open:
            self._open.pop()
            self._close(found)
            if len(self._open) < self._list_depth:
                self._list_depth = -1  # the list has ended; a second one does not count
            if not self._open:
                self._end(found)
        elif character == "," and self._in_root():
            self._key = None

    def _in_root(self, *, after_key: bool = False) -> bool:
        """Whether the position is at a member of the outermost object, or at the top level."""
        if not self._open:
            return True
        return self._open == ["{"] and (self._key is not None or not after_key)

    def _record(self, character: str) -> None:
        depth = len(self._open)
        wanted = depth == self._list_depth or (character == '"' and self._open == ["{"])
        if wanted and self._value is None and depth:
            self._value, self._value_depth = [character], depth

    def _close(self, found: list[Entry]) -> None:
        """Handle a closed string or bracket, which ends the recorded value if the depth is the same."""
        if self._value is None or len(self._open) != self._value_depth:
            return
        value, self._value = _parsed("".join(self._value)), None
        if self._value_depth == self._list_depth:
            self._keep(value, found)
        elif not isinstance(value, str):
            return
        elif self._key is None:
            self._key = value
        else:
            self.members[self._key] = value
            if self._key == "opening" and not self._begun:
                self.opening = value

    def _keep(self, value: Any, found: list[Entry]) -> None:
        if isinstance(value, (str, dict)):
            self._begun = True
            found.append(value)

    def _end(self, found: list[Entry]) -> None:
        if not self._ended and not self._list_depth:
            found += (text for key, text in self.members.items() if key not in FRAME_KEYS)
        self._ended = True


def _parsed(text: str, *, partial: bool = False) -> Any:
    """The value of a JSON text; ``None`` if it is not valid."""
    try:
        return jiter.from_json(text.encode("utf-8", "replace"), partial_mode=partial)
    except ValueError:
        return None
