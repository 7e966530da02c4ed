"""The folder of saved chats: list, search, find by name prefix, delete."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_data_path

from stretto.cli.chat.chat_file import ChatFile, Saved, errors_named, fresh_name, read
from stretto.values.errors import InvalidRequestError

_NAME = re.compile(r"[0-9a-f]{1,8}")
_AROUND = 30  # characters before a match


@dataclass(frozen=True)
class Listed:
    """A chat in a list.

    Attributes:
        id: its name.
        used_at: when it was last written to, ISO 8601 in UTC.
        questions: number of questions in the final conversation.
        title: its first question.
        found: the text around a search match.
    """

    id: str
    used_at: str
    questions: int
    title: str
    found: str = ""


def chats_folder() -> Path:
    """Return the folder of chats: ``$STRETTO_CHATS``, else in the user's data folder."""
    named = os.environ.get("STRETTO_CHATS")
    return Path(named).expanduser() if named else user_data_path("stretto") / "chats"


class ChatFolder:
    """The chats in a folder, which need not exist."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or chats_folder()

    def begin(self) -> ChatFile:
        """Return a new chat, whose file is created with the first question."""
        while True:
            file = self.folder / f"{fresh_name()}.jsonl"
            if not file.exists():
                return ChatFile(file)

    def latest(self, most: int | None = None) -> Sequence[Listed]:
        """Return the chats, most recently used first."""
        listed: list[Listed] = []
        for file, used_at in self._files():
            if len(listed) == most:
                break
            saved = self._read(file)
            if saved.turns:
                listed.append(_listed(file, used_at, saved))
        return listed

    def search(self, words: str, most: int) -> Sequence[Listed]:
        """Return the chats whose questions and answers contain all these words, most recently used first."""
        wanted = words.casefold().split()
        found: list[Listed] = []
        for file, used_at in self._files():
            if len(found) == most:
                break
            saved = self._read(file)
            text = "\n".join(part for turn in saved.turns for part in (turn.question, turn.text))
            folded = text.casefold()
            if wanted and saved.turns and all(word in folded for word in wanted):
                found.append(_listed(file, used_at, saved, _surroundings(text, wanted[0])))
        return found

    def find(self, name: str | None) -> ChatFile:
        """Return a chat by a prefix of its name; ``None``: the most recently used one. Raises `InvalidRequestError`."""
        if name is None:
            newest = self.latest(1)
            if not newest:
                raise InvalidRequestError(f"No chat was kept in {str(self.folder)!r} yet. Begin one with: stretto chat")
            return ChatFile(self.folder / f"{newest[0].id}.jsonl")
        known = sorted(file for file, _ in self._files() if file.stem.startswith(name)) if _NAME.fullmatch(name) else []
        if not known:
            raise InvalidRequestError(f"There is no chat {name!r}. See: stretto chats")
        if len(known) > 1:
            names = ", ".join(file.stem for file in known[:5])
            raise InvalidRequestError(f"{name!r} begins the names of {len(known)} chats: {names}. Give more of one.")
        return ChatFile(known[0])

    def delete(self, name: str | None) -> int:
        """Delete one chat by its full name, or all. Return how many were deleted."""
        files = [file for file, _ in self._files()] if name is None else [self.find(name).file]
        if name is not None and files[0].stem != name:
            raise InvalidRequestError(f"To remove a chat, give its whole name: {files[0].stem}, not {name!r}.")
        for file in files:
            with errors_named(file):
                file.unlink(missing_ok=True)
        return len(files)

    def _files(self) -> Sequence[tuple[Path, float]]:
        """Return the files with the times of their last lines, newest first."""
        with errors_named(self.folder):
            there = list(self._there()) if self.folder.is_dir() else []
        return sorted(there, key=lambda each: (-each[1], each[0]))

    def _there(self) -> Iterator[tuple[Path, float]]:
        for file in self.folder.glob("*.jsonl"):
            if _NAME.fullmatch(file.stem):
                try:
                    yield file, file.stat().st_mtime
                except FileNotFoundError:  # removed by another process
                    continue

    def _read(self, file: Path) -> Saved:
        try:
            return read(file.read_bytes())
        except OSError:  # likewise, or owned by someone else: the others are still listed
            return Saved()


def _listed(file: Path, used_at: float, saved: Saved, found: str = "") -> Listed:
    way = saved.conversation
    used = datetime.fromtimestamp(used_at, UTC).isoformat(timespec="seconds")
    return Listed(file.stem, used, len(way), way[0].question, found)


def _surroundings(text: str, word: str) -> str:
    """Return the text on one line, from shortly before the first match of a word."""
    for line in text.splitlines():
        at = line.casefold().find(word)
        if at >= 0:
            begin = max(0, at - _AROUND)
            return ("…" if begin else "") + line[begin:]
    return ""
