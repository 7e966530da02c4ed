"""Assembles tool calls from the pieces that servers send, not all of which follow OpenAI's numbering.

Some number all parallel calls 0, or none of them. Some repeat the name with every piece, the whole call at the end, or
all arguments so far with every piece.
Calls are distinguished by what differs: the id, without one the name, and arguments that are already complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from stretto.markup.calls import JsonSpan
from stretto.values.tool_calls import ToolCallFragment, ToolCallType

_LITERALS = ("true", "false", "null")
_IN_NUMBERS = set(".-+eE0123456789")


@dataclass(frozen=True, slots=True)
class CallPiece:
    """What one event contains of one tool call.

    Provisional: it may change in any release.

    Attributes:
        index: which call, if the server says.
        id: the id of the call.
        name: the name of the tool.
        arguments: more of the arguments, or all of them.
        type: "function", or OpenAI's "custom".
        extra: other fields of the call.
    """

    index: int | str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    type: ToolCallType = "function"
    extra: Mapping[str, Any] = field(default_factory=dict)


class _Call:
    """One call so far. It begins once its name is known."""

    def __init__(self, kind: ToolCallType) -> None:
        self.type = kind
        self.place = -1
        self.id: str | None = None
        self.name: str | None = None
        self.arguments = ""
        self.withheld = ""  # an empty object: some servers begin every call with one, and send the real one after it
        self.renamed = False  # its server gives every piece another id
        self.repeats = False  # its server repeats all arguments so far with every piece
        self.doubtful = (
            ""  # a piece that could be such a repetition, or the beginning of the same object nested in the first
        )
        self._span = JsonSpan()

    @property
    def whole(self) -> bool:
        """Whether its arguments are a complete JSON object."""
        if self.withheld or _is_json(self.doubtful):
            return True
        return self.arguments.lstrip()[:1] == "{" and self._span.end(self.arguments) is not None

    def is_repeated_by(self, arguments: str) -> bool:
        """Return whether these arguments are the same as those so far."""
        have = self.withheld or self.doubtful or self.arguments
        if have == arguments:
            return True
        if not len(have) < 2 * len(arguments) < 4 * len(have):  # parsing long ones again and again would be slow
            return False
        try:
            return bool(json.loads(have) == json.loads(arguments))
        except (ValueError, RecursionError):
            return False

    def settled(self, following: str = "") -> str:
        """Return what a doubtful piece adds to the arguments, judging by the following piece, or by their end."""
        piece, self.doubtful = self.doubtful, ""
        if not piece or _is_json(self.arguments + piece):
            return piece
        goes_on = _begins_json(self.arguments + piece + following) if following else not _is_json(piece)
        if following.startswith(piece) or not goes_on:
            self.repeats = True
            return piece[len(self.arguments) :]
        return piece

    def goes_on_with(self, arguments: str) -> bool:
        """Return whether these arguments can follow those so far, as the rest of one JSON value."""
        return _begins_json(self.arguments + arguments)


class IncomingCalls:
    """The tool calls of one answer as they arrive. Its fragments number the calls in the order they begin."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []  # calls that have begun
        self._at: dict[int | str, _Call] = {}
        self._row: dict[int, _Call] = {}  # by position in an event that contains several without an index
        self._by_id: dict[tuple[int | str | None, str], _Call] = {}  # for each index, and overall
        self._by_name: dict[str, _Call] = {}
        self._withheld: list[_Call] = []
        self._last: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, pieces: Sequence[CallPiece]) -> list[ToolCallFragment]:
        """Record one event's pieces, and return what is new. Calls of tools that the server runs itself are left out.

        Those are the calls that no piece names.
        """
        given: list[ToolCallFragment] = []
        touched: set[_Call] = set()
        for place, piece in enumerate(pieces):
            row = place if len(pieces) > 1 else None
            call = self._found(piece, row, touched)
            if call is None:
                call = _Call(piece.type)
                call.name = piece.name
            if piece.index is not None:
                self._at[piece.index] = call
            elif row is not None:
                self._row[row] = call
            touched.add(call)
            given += self._taken(call, piece)
        return given

    def rest(self) -> list[ToolCallFragment]:
        """Return what was withheld, once all calls have ended. A call without arguments gets an empty object."""
        settled = [(call, call.settled()) for call in self._calls]
        return [
            ToolCallFragment(call.place, arguments=more or call.withheld or "{}")
            for call, more in settled
            if more or (not call.arguments and call.type == "function")
        ]

    def _found(self, piece: CallPiece, row: int | None, touched: Set[_Call]) -> _Call | None:
        """Return the call that a piece belongs to; ``None`` if it begins one."""
        found: _Call | None
        known = self._by_id.get((None, piece.id)) if piece.id else None
        if piece.index is not None:
            found = self._by_id.get((piece.index, piece.id or "")) or self._at.get(piece.index)
            found = found or (None if piece.name else known)
        elif piece.id:
            found = known or self._last
        elif piece.name:
            found = self._by_name.get(piece.name, self._last)
        else:
            found = self._last if row is None else self._row.get(row, self._last)
        return found if found is not None and _belongs(piece, found, again=found in touched) else None

    def _taken(self, call: _Call, piece: CallPiece) -> Iterable[ToolCallFragment]:
        begins = call.place < 0 and (piece.name is not None or call.name is not None)
        call.renamed = call.renamed or bool(piece.id and call.id and piece.id != call.id)
        new_id = piece.id if call.id is None else None
        call.id = call.id or piece.id
        call.name = piece.name if call.name is None else call.name
        if call.id:
            self._by_id[piece.index, call.id] = self._by_id[None, call.id] = call
        arguments = _new_arguments(call, piece)
        if call.place < 0 and not begins:
            return
        if begins:
            yield from self._handed_out()
            call.place = len(self._calls)
            self._calls.append(call)
            self._by_name[call.name or ""] = call
            yield ToolCallFragment(call.place, call.id, call.name, call.arguments, call.type, piece.extra)
        elif new_id or arguments or piece.extra:
            yield ToolCallFragment(call.place, new_id, None, arguments, call.type, piece.extra)
        if call.withheld:
            self._withheld.append(call)
        self._last = call

    def _handed_out(self) -> Iterable[ToolCallFragment]:
        """Yield the empty objects that are the real arguments, now that the next call begins."""
        for call in self._withheld:
            if call.withheld:
                call.arguments, call.withheld = call.withheld, ""
                yield ToolCallFragment(call.place, arguments=call.arguments)
        self._withheld.clear()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _begins_json(text: str) -> bool:
    """Return whether a text is a JSON value or the beginning of one."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        if error.msg.startswith(("Unterminated string", "Invalid \\u")):
            return True
        return set(rest) <= _IN_NUMBERS or ("value" in error.msg and any(word.startswith(rest) for word in _LITERALS))
    except RecursionError:
        return True
    return True


def _belongs(piece: CallPiece, call: _Call, *, again: bool) -> bool:
    """Return whether a piece continues this call, the last candidate; ``again``: for a second time in one event."""
    if piece.name and call.name and piece.name != call.name:
        return False
    if piece.id and call.id and piece.id != call.id:
        # A server that gives each piece its own id continues the arguments, or begins them without a name.
        begun = bool(call.arguments) or not piece.name
        goes_on = begun and bool(call.name and piece.arguments) and not call.whole
        return goes_on and (call.renamed or call.goes_on_with(piece.arguments))
    same = bool(piece.id) and piece.id == call.id
    if not piece.name or (call.withheld and same):
        return True
    if again and piece.index is None and not same:
        return False
    if not call.whole or not piece.arguments.strip():
        return True
    return call.is_repeated_by(piece.arguments) and (same or not again)


def _new_arguments(call: _Call, piece: CallPiece) -> str:
    """Add to a call's arguments what is new in a piece, which can repeat them; return that."""
    given = piece.arguments
    if not given or call.type == "custom":
        call.arguments += given
        return given
    before = call.settled(given)
    call.arguments += before
    added = _added(call, given)
    call.arguments += added
    return before + added


def _added(call: _Call, given: str) -> str:
    if call.whole and call.is_repeated_by(given):
        return ""
    if not call.arguments and given.strip() == "{}":
        call.withheld = given
        return ""
    call.withheld = ""
    if not (call.arguments and given.startswith(call.arguments)):
        return given
    if call.repeats or not call.goes_on_with(given):
        call.repeats = True
        return given[len(call.arguments) :]
    call.doubtful = given
    return ""
