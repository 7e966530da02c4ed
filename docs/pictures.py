"""What each picture of the documentation shows, and whether that has changed since: `img/sources.toml`.

A command that makes a picture records the files that can be seen in it, with a hash over them. A test compares.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["IMAGES", "ROOT", "Record", "hash_of", "keep_record", "records"]

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "img"
SOURCES = IMAGES / "sources.toml"
_HEAD = "# Which files each picture shows, by a hash over them. Written by the commands that make the pictures.\n"


@dataclass(frozen=True)
class Record:
    """Of one picture.

    Attributes:
        command: makes it.
        shows: patterns of files, from the root of the repository.
        hash: over these files, when it was made.
    """

    command: str
    shows: Sequence[str]
    hash: str


def hash_of(shows: Sequence[str], root: Path = ROOT) -> str:
    """Over the names and contents of the files of these patterns. Raises ValueError where one finds none."""
    whole = hashlib.sha256()
    for pattern in shows:
        files = sorted(file for file in root.glob(pattern) if file.is_file())
        if not files:
            raise ValueError(f"shows={pattern!r} is no file of the repository. Name what the picture shows now.")
        for file in files:
            content = file.read_bytes().replace(b"\r\n", b"\n")
            whole.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def records(file: Path = SOURCES) -> dict[str, Record]:
    """All that are kept, by the names of their pictures."""
    kept = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: Record(**fields) for name, fields in kept.items()}


def keep_record(command: str, pictures: Mapping[str, Sequence[str]], file: Path = SOURCES) -> None:
    """Keep what pictures show that have just been made, by their names."""
    kept = records(file)
    kept |= {name: Record(command, shows, hash_of(shows)) for name, shows in pictures.items()}
    kept = {name: each for name, each in sorted(kept.items()) if (file.parent / name).exists()}
    file.write_text(_HEAD + "".join(_written(name, each) for name, each in kept.items()), encoding="utf-8")


def _written(name: str, each: Record) -> str:
    """Strings of JSON are strings of TOML, too."""
    shows = "".join(f"    {json.dumps(pattern)},\n" for pattern in each.shows)
    command, digest = json.dumps(each.command), json.dumps(each.hash)
    return f"\n[{json.dumps(name)}]\ncommand = {command}\nhash = {digest}\nshows = [\n{shows}]\n"
