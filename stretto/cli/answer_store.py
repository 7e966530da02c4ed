"""An opt-in SQLite store of answers: written by `ask` and `chat`, read by `logs`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_path

from stretto.values.errors import StrettoError

if TYPE_CHECKING:
    from stretto.values.answer import Answer

WAIT_S = 5.0  # for another program to finish writing
_COLUMNS = "id, asked_at, model, strategy, question, text, seconds, usd"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    id INTEGER PRIMARY KEY, asked_at TEXT NOT NULL, model TEXT NOT NULL, strategy TEXT NOT NULL,
    question TEXT NOT NULL, text TEXT NOT NULL, seconds REAL NOT NULL, usd REAL, answer TEXT NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(question, text, content='answers', content_rowid='id');
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON answers BEGIN
    INSERT INTO words(rowid, question, text) VALUES (new.id, new.question, new.text);
END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON answers BEGIN
    INSERT INTO words(words, rowid, question, text) VALUES ('delete', old.id, old.question, old.text);
END;
"""


@dataclass(frozen=True)
class Kept:
    """One stored answer; ``asked_at`` is ISO 8601 in UTC, ``usd`` is ``None`` where the cost is unknown."""

    id: int
    asked_at: str
    model: str
    strategy: str
    question: str
    text: str
    seconds: float
    usd: float | None


class AnswerStore:
    """The file of stored answers, readable by its owner only: ``$STRETTO_LOGS``, else in the user's data folder.

    Its ``user_version`` is 1 while answers are being stored, else 0.
    """

    def __init__(self) -> None:
        named = os.environ.get("STRETTO_LOGS")
        self.file = Path(named).expanduser() if named else user_data_path("stretto") / "answers.db"

    @property
    def on(self) -> bool:
        """Whether answers are being stored."""
        if not self.file.is_file():
            return False
        with self._open() as opened:
            return bool(opened.execute("PRAGMA user_version").fetchone()[0])

    def switch(self, *, on: bool) -> None:
        """Start or stop storing answers. Stored ones remain."""
        if not on and not self.file.exists():
            return
        with _errors_naming(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.touch(mode=0o600)
        with self._open() as opened:
            opened.executescript(_SCHEMA)
            opened.execute(f"PRAGMA user_version = {int(on)}")

    def add(self, question: str, answer: Answer) -> None:
        """Store an answer, if switched on."""
        if not self.on:
            return
        row = (
            datetime.now(UTC).isoformat(timespec="seconds"),
            answer.route.backend,
            answer.strategy or answer.route.strategy,
            question,
            answer.text,
            answer.timeline.total_s,
            None if answer.cost is None else answer.cost.usd,
            answer.model_dump_json(),
        )
        with self._open() as opened:
            columns = "asked_at, model, strategy, question, text, seconds, usd, answer"
            opened.execute(f"INSERT INTO answers({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - fixed

    def latest(self, most: int) -> Sequence[Kept]:
        """Return the latest answers, newest first."""
        return self._select(f"SELECT {_COLUMNS} FROM answers ORDER BY id DESC LIMIT ?", most)  # noqa: S608 - fixed

    def search(self, words: str, most: int) -> Sequence[Kept]:
        """Return the answers whose question and text together contain all these words, best matches first."""
        query = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        columns = ", ".join(f"answers.{name.strip()}" for name in _COLUMNS.split(","))
        found = f"SELECT {columns} FROM words JOIN answers ON answers.id = words.rowid WHERE words MATCH ?"  # noqa: S608 - fixed
        return self._select(f"{found} ORDER BY rank LIMIT ?", query, most) if query else ()

    def get(self, number: int) -> Kept | None:
        """Return an answer by number; ``None`` if there is none."""
        found = self._select(f"SELECT {_COLUMNS} FROM answers WHERE id = ?", number)  # noqa: S608 - fixed
        return found[0] if found else None

    def whole(self, number: int) -> str | None:
        """Return the complete answer as JSON, with its branches and times."""
        if not self.file.is_file():
            return None
        with self._open() as opened:
            row = opened.execute("SELECT answer FROM answers WHERE id = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def delete(self, number: int | None = None) -> int:
        """Delete one answer or all, and return how many. Nothing of them remains in the file."""
        if not self.file.is_file():
            return 0
        with self._open() as opened:
            opened.execute("PRAGMA secure_delete = ON")
            where = "" if number is None else " WHERE id = ?"
            removed = opened.execute(f"DELETE FROM answers{where}", () if number is None else (number,))  # noqa: S608 - fixed
            opened.execute("INSERT INTO words(words) VALUES ('optimize')")
            return removed.rowcount

    def _select(self, query: str, *values: object) -> Sequence[Kept]:
        if not self.file.is_file():
            return ()
        with self._open() as opened:
            return [Kept(*row) for row in opened.execute(query, values)]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with _errors_naming(self.file), closing(sqlite3.connect(self.file, timeout=WAIT_S)) as opened, opened:
            yield opened


@contextmanager
def _errors_naming(file: Path) -> Iterator[None]:
    """Add the file and a remedy to errors."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise StrettoError(
            f"The kept answers in {str(file)!r} cannot be used: {error}. Move the file away, or name another in "
            "STRETTO_LOGS."
        ) from None
