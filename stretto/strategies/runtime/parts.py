"""Parts of an answer: their length limits, the notes for missing ones, and their text in a list item."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stretto.language.telling import language_of, languages
from stretto.values.answer import Branch
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request

if TYPE_CHECKING:
    from stretto.strategies.runtime.runner import Runner

TOKENS_PER_WORD = 2.0  # allows for other languages and for code
ROOM = 3  # a part is cut at this multiple of its budget
_TITLE = 60  # characters
THINKING = 2_000  # tokens a reasoning model can spend before it writes; providers count them as completion tokens


@dataclass(frozen=True)
class Notes:
    """The notes for a missing part and for one that broke off; empty: no note."""

    missing: str = field(default_factory=lambda: languages().notes["en"][0])
    broken: str = field(default_factory=lambda: languages().notes["en"][1])

    def ending(self, branch: Branch, title: str = "") -> str:
        """Return the note after a part that has ended; pass ``title`` if the reader has not seen it yet."""
        if branch.status == "finished":
            return ""
        if branch.text.strip():
            return f" […{self.broken}]" if self.broken else ""
        named = f"{title}: " if title else ""
        return f"[{named}{self.missing}]" if self.missing else ""


def notes_for(request: Request) -> Notes:
    """Return the notes for a request in the language of its question; empty if it asks for none."""
    if request.on_missing == "omit":
        return Notes("", "")
    return Notes(*languages().notes[language_of(request.question)])


def warn_of_limits(request: Request, runner: Runner) -> None:
    """Warn that ``stop`` does not apply to parts."""
    if request.options.stop:
        runner.warn(
            "stop was left out: it would cut parts in the middle. Ask with strategy='direct' to have it.", "option"
        )


def room_of(words: int) -> int:
    """Return the tokens after which a part of so many words is cut."""
    return int(words * TOKENS_PER_WORD * ROOM)


def part_options(request: Request, room: int, number: int = 0) -> GenerationOptions:
    """Return the options of a call for a part of an answer with at most ``room`` tokens.

    ``stop`` is dropped, since it would cut the part in the middle. With the same seed, parts would begin with the same
    words, so each has a ``number`` from 1.
    """
    seed = request.options.seed
    own = {} if seed is None else {"seed": seed + number}
    return request.options.model_copy(update={"max_tokens": room, "stop": (), **own})


def share_of(request: Request, wanted: int, parts: int) -> int:
    """Return the tokens that one of ``parts`` parts can have: ``wanted``, at most its share of ``max_tokens``."""
    most = request.options.max_tokens
    return wanted if most is None else min(wanted, max(1, most // max(1, parts)))


def title_from(text: str) -> str:
    """Return the beginning of a text on one line, cut at the end of a word."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else line[:_TITLE].rsplit(" ", 1)[0] + "…"


class Flow:
    """Formats streamed text. White space is shown only once text follows it, so none trails."""

    def __init__(self, indent: str = "") -> None:
        self._indent = indent
        self._space: list[str] = []

    def feed(self, text: str) -> str:
        shown = text.rstrip()
        if not shown:
            self._space.append(text)
            return ""
        shown, self._space = "".join((*self._space, shown)), [text[len(shown) :]]
        first, *lines = shown.split("\n")
        return "\n".join([first, *(self._indent + line if line else "" for line in lines)])
