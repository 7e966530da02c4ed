"""Notes in an answer for missing parts: short, in the language of the question."""

from __future__ import annotations

from dataclasses import dataclass, field

from stretto.language.telling import language_of, languages
from stretto.values.answer import Branch
from stretto.values.request import Request


@dataclass(frozen=True)
class Notes:
    """The notes for a missing part and for one that broke off; empty: no note."""

    missing: str = field(default_factory=lambda: languages().notes["en"][0])
    broken: str = field(default_factory=lambda: languages().notes["en"][1])

    def ending(self, branch: Branch, title: str = "") -> str:
        """The note after a part that has ended; give ``title`` if the reader has not seen it yet."""
        if branch.status == "finished":
            return ""
        if branch.text.strip():
            return f" […{self.broken}]" if self.broken else ""
        named = f"{title}: " if title else ""
        return f"[{named}{self.missing}]" if self.missing else ""


def notes_for(request: Request) -> Notes:
    """The notes for a request, in the language of its question; empty if it asks for none."""
    if request.on_missing == "omit":
        return Notes("", "")
    return Notes(*languages().notes[language_of(request.question)])
