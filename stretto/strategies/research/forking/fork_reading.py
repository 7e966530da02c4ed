"""Find what a model announced between its tags. All of it is model output, so nothing is taken for granted."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

LONGEST_TITLE = 300  # characters
FEWEST_PATHS = 2


@dataclass(frozen=True)
class Tags:
    """One form of tags; ``tags.toml`` explains the fields."""

    name: str
    opens: str
    outline: tuple[str, str]
    forks: str
    path: str
    path_ends: str
    joins: str
    left_out: tuple[str, ...]
    topic: str = ""
    between: bool = False


@cache
def forms() -> Mapping[str, Tags]:
    """Return all forms by name."""
    text = resources.files(__package__).joinpath("tags.toml").read_text(encoding="utf-8")
    found = {}
    for name, values in tomllib.loads(text).items():
        begin, end = values.pop("outline")
        left_out = tuple(values.pop("left_out"))
        found[name] = Tags(name, outline=(begin, end), left_out=left_out, **values)
    return found


@dataclass(frozen=True)
class Announced:
    """A path that the model announced.

    Attributes:
        number: the one the model gave it, or its position.
        title: what it is about.
        before: text for the reader between the previous announcement and this one.
    """

    number: int
    title: str
    before: str = ""


@dataclass(frozen=True)
class Fork:
    """Where a text forks.

    Attributes:
        tags: the form.
        at: length of the text for the reader before it.
        paths: those that were announced, at least two.
        after: text for the reader after the last announcement.
    """

    tags: Tags
    at: int
    paths: tuple[Announced, ...]
    after: str = ""


def fork_in(text: str, forms: Collection[Tags], stopped_by: str | None, most: int) -> Fork | None:
    """Return the fork that a text ends with, whose last tag is not part of the text; ``None`` if there is none.

    ``stopped_by``: the stop text, if the server named it, and empty if something else ended the text; ``most``: the
    maximum number of paths.
    """
    for tags in forms:
        if stopped_by not in (None, tags.forks):
            continue
        at = text.find(tags.opens)
        begins = tags.forks.replace("</", "<")  # forms with the same opening tag differ in this one
        if at < 0 or tags.forks in text[at:] or (begins != tags.forks and begins not in text[at:]):
            continue
        found = _announced(text[at:], tags, most)
        if found is not None:
            paths, after = found
            if tags.opens == tags.outline[0]:  # an opening tag that announces nothing is text for the reader
                at, paths = at + len(paths[0].before), (replace(paths[0], before=""), *paths[1:])
            return Fork(tags, at, paths, after)
    return None


def _announced(text: str, tags: Tags, most: int) -> tuple[tuple[Announced, ...], str] | None:
    """Return the announcements in the text from the opening tag on; ``None`` if they are malformed."""
    begin, end = tags.outline
    found: list[Announced] = []
    at = 0
    while (start := text.find(begin, at)) >= 0:
        stop = text.find(end, start)
        if stop < 0 or len(found) == most:
            return None
        if tags.between:  # anything between two opening tags is text
            start = text.rfind(begin, start, stop)
        before = text[at:start] if tags.between else ""
        body = text[start + len(begin) : stop]
        numbered = _number_and_title(body, tags, len(found) + 1)
        if numbered is None:
            return None
        found.append(Announced(*numbered, before))
        at = stop + len(end)
    if len(found) < FEWEST_PATHS or len({each.number for each in found}) < len(found):
        return None
    return tuple(found), text[at:] if tags.between else ""


def _number_and_title(body: str, tags: Tags, place: int) -> tuple[int, str] | None:
    number, title = place, _attribute(body, tags.topic) if tags.topic else body.strip()
    label, colon, rest = title.partition(":")
    if not tags.topic and colon and label.strip().isascii() and label.strip().isdigit() and len(label) < 4:
        number, title = int(label), rest.strip()
    title = " ".join(title.split())
    if not title or len(title) > LONGEST_TITLE or "<" in title or ">" in title:
        return None
    return number, title


def _attribute(body: str, name: str) -> str:
    """Return the value of an attribute in double quotes; empty without it."""
    _, found, rest = body.partition(f'{name}="')
    value, closed, _ = rest.partition('"')
    return value if found and closed else ""


class Prose:
    """The part of a text for the reader: everything up to the tag that opens a fork, without surrounding white space.

    Everything from that tag on is held back until the text has ended, and is shown after all if no fork begins.

    Args:
        forms: the forms that can occur.
        most: the maximum number of paths.
        stopped_by: the stop text that ended the text, once it has ended, as for `fork_in`.
        left_out: tags that are left out, because they close a fork that was joined.
    """

    def __init__(
        self,
        forms: Collection[Tags],
        most: int,
        stopped_by: Callable[[], str | None],
        left_out: Sequence[str] = (),
    ) -> None:
        self._forms, self._most, self._stopped_by, self._left_out = forms, most, stopped_by, tuple(left_out)
        self._opens = tuple({tags.opens for tags in forms})
        self._longest = max((len(each) for each in (*self._opens, *self._left_out)), default=1)
        self._buffer = ""
        self._begun = self._opened = False

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        self._buffer += text
        if self._opened:
            return ""
        found = min((at for tag in self._opens if (at := self._buffer.find(tag)) >= 0), default=None)
        if found is not None:
            self._opened = True
            shown = self._clean(self._buffer[:found])
            end = len(shown.rstrip())
            self._buffer = shown[end:] + self._buffer[found:]
            return self._plain(shown[:end])
        shown = self._clean(self._buffer)
        end = max(shown.rfind("<"), 0) if 0 <= shown.rfind("<") >= len(shown) - self._longest else len(shown)
        end = len(shown[:end].rstrip())
        self._buffer = shown[end:]
        return self._plain(shown[:end])

    def finish(self) -> str:
        """Return what was held back, if it is text."""
        rest, self._buffer = self._buffer, ""
        if self._opened and (fork := fork_in(rest, self._forms, self._stopped_by(), self._most)) is not None:
            rest = rest[: fork.at]
        return self._plain(self._clean(rest).rstrip())

    def _clean(self, text: str) -> str:
        for tag in self._left_out:
            text = text.replace(tag, "")
        return text

    def _plain(self, text: str) -> str:
        """Return the text without white space at the very beginning."""
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        return text
