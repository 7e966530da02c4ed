"""One chat in a JSON Lines file: questions when asked, answers when finished.

The file is append-only, so a killed process loses nothing that was written, and two that continue the same chat do not
overwrite each other. Each question names the previous one: an edited question is a further line with the same
predecessor, and the latest line defines the conversation.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.values.errors import StrettoError

if TYPE_CHECKING:
    from stretto.values.answer import Answer

FORMAT = 1


@dataclass(frozen=True)
class Turn:
    """A question and its outcome.

    Attributes:
        id: id of the question, unique in its chat.
        question: the question as asked.
        after: id of the previous question; ``None`` at the beginning.
        at: when it was asked, ISO 8601 in UTC.
        text: text of the answer, possibly partial; empty while there is none.
        stopped: how the answer was cut short; empty otherwise.
        answer: the complete answer as JSON; ``None`` if it was stopped or failed.
    """

    id: str
    question: str
    after: str | None = None
    at: str = ""
    text: str = ""
    stopped: str = ""
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Saved:
    """The contents of a file.

    Attributes:
        turns: all questions in the order asked.
        documents: the paths read for every question, as given.
        system: the instructions for the model.
        schema: the path of the schema for answers, as given.
    """

    turns: Sequence[Turn] = ()
    documents: Sequence[str] = ()
    system: str | None = None
    schema: str | None = None

    @property
    def conversation(self) -> Sequence[Turn]:
        """The turns that lead to the latest question."""
        known = {turn.id: turn for turn in self.turns}
        way: list[Turn] = []
        at = self.turns[-1].id if self.turns else None
        while at in known:
            way.append(known.pop(at))
            at = way[-1].after
        return way[::-1]

    @property
    def model(self) -> str:
        """The model of the last complete answer; empty if there is none."""
        for turn in reversed(self.conversation):
            route = (turn.answer or {}).get("route")
            if isinstance(route, Mapping) and isinstance(route.get("backend"), str):
                return str(route["backend"])
        return ""


class ChatFile:
    """Appends to the file of one chat, which is created with the first line, readable by its owner only."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.exists = file.exists()  # that is, whether anything was written

    @property
    def id(self) -> str:
        """The name of the chat, as ``stretto chats`` lists it."""
        return self.file.stem

    def asked(self, turn: Turn) -> None:
        """Write a question."""
        self._append({"type": "question", "id": turn.id, "after": turn.after, "at": turn.at, "text": turn.question})

    def answered(self, turn: Turn, answer: Answer) -> None:
        """Write the complete answer."""
        self._append({"type": "answer", "to": turn.id, "at": now(), "answer": answer.model_dump(mode="json")})

    def stopped(self, turn: Turn) -> None:
        """Write a partial answer."""
        self._append({"type": "answer", "to": turn.id, "at": now(), "text": turn.text, "stopped": turn.stopped})

    def set(self, settings: Saved) -> None:
        """Write the settings for the next questions."""
        kept = {"documents": list(settings.documents), "system": settings.system, "schema": settings.schema}
        self._append({"type": "settings", "at": now()} | kept)

    def read(self) -> Saved:
        """Read whatever is valid in it. Raises `StrettoError` if the file cannot be read."""
        with errors_named(self.file):
            content = self.file.read_bytes() if self.file.exists() else b""
        return read(content)

    def _append(self, record: Mapping[str, Any]) -> None:
        records = [record]
        with errors_named(self.file):
            if not self.exists:
                self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                records.insert(0, {"type": "chat", "format": FORMAT, "id": self.id, "began": now()})
            making = getattr(os, "O_BINARY", 0) | (0 if self.exists else os.O_CREAT | os.O_EXCL)
            opened = os.open(self.file, os.O_RDWR | os.O_APPEND | making, 0o600)
            try:
                _lock(opened)
                _write(opened, "".join(json.dumps(each) + "\n" for each in records).encode())
                os.fsync(opened)
            finally:
                os.close(opened)  # which unlocks it
            self.exists = True


def _write(opened: int, lines: bytes) -> None:
    """Append complete lines, after a partial line that a killed process may have left."""
    if size := os.fstat(opened).st_size:
        os.lseek(opened, size - 1, os.SEEK_SET)
        if os.read(opened, 1) != b"\n":
            lines = b"\n" + lines
    while lines:
        lines = lines[os.write(opened, lines) :]


def _lock(opened: int) -> None:
    """Lock the file until this process has written its line."""
    with suppress(ImportError):  # Windows has none; its appends are short
        import fcntl  # noqa: PLC0415 - not on every system

        fcntl.flock(opened, fcntl.LOCK_EX)


def read(content: bytes) -> Saved:
    """Parse the lines of a chat. Truncated lines and those of later versions are skipped."""
    turns: dict[str, Turn] = {}
    documents: Sequence[str] = ()
    system: str | None = None
    schema: str | None = None
    for record in records_of(content):
        match record:
            case {"type": "question", "id": str(name), "text": str(text)}:
                after, at = record.get("after"), record.get("at")
                after, at = (value if isinstance(value, str) else None for value in (after, at))
                turns[name] = Turn(name, text, after, at or "")
            case {"type": "answer", "to": str(name), "answer": {"text": str(text)} as answer} if name in turns:
                turns[name] = replace(turns[name], text=text, answer=answer, stopped="")
            case {"type": "answer", "to": str(name), "text": str(text), "stopped": str(stopped)} if name in turns:
                turns[name] = replace(turns[name], text=text, stopped=stopped)
            case {"type": "settings", "documents": list(named), "system": str() | None as system}:
                documents = [each for each in named if isinstance(each, str)]
                schema = value if isinstance(value := record.get("schema"), str) else None
    return Saved(tuple(turns.values()), tuple(documents), system, schema)


def records_of(content: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are JSON objects."""
    for line in content.split(b"\n"):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                yield record


def fresh_name() -> str:
    """Return a name for a new chat or question."""
    return secrets.token_hex(4)


def now() -> str:
    """Return the current time, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def errors_named(file: Path) -> Iterator[None]:
    """Add the file and a remedy to errors."""
    try:
        yield
    except OSError as error:
        raise StrettoError(
            f"The chat in {str(file)!r} cannot be used: {error.strerror or error}. "
            "Name another folder in STRETTO_CHATS."
        ) from None
