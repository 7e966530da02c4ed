"""Join a continuation to the text it continues, leaving out what it repeats of that text's end."""

from __future__ import annotations

import re

_LETTERS = 2  # of a single word that counts as repeated
_LINE = 3  # words that begin on a new line and count as repeated
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"  # scripts that write no spaces between words
_UNSPACED_LETTERS = 4
_STARTS = re.compile(rf"(?<!\w)\S|[{_UNSPACED}]")
_WORD = re.compile(r"\w+")


class OverlapTrimmer:
    """Passes a continuation on without its first words if the text before it ends with them.

    Text is held back only while it could still be such a repetition. The result does not depend on how the stream was
    chunked.

    Args:
        before: the text that is continued; empty: everything is passed on.

    Attributes:
        left_out: characters that were not passed on, or not yet.
    """

    def __init__(self, before: str) -> None:
        self._before = before.rstrip()
        self._gap = before[len(self._before) :]
        self._open = bool(self._before)
        self._buffer = ""
        self.left_out = 0
        self._places: list[int] | None = None
        """Where in the preceding text a still incomplete repetition could begin, in order."""
        self._complete: list[int] = []

    def feed(self, text: str) -> str:
        if not self._open:
            return text
        self._buffer += text
        self.left_out = len(self._buffer)
        continuation = self._buffer.lstrip()
        if not continuation:
            return ""
        places = self._places
        if places is None:
            places = [found.start() for found in _STARTS.finditer(self._before)]
        self._places = []
        for place in places:
            rest = self._before[place:]
            if len(rest) >= len(continuation):
                if rest.startswith(continuation):
                    self._places.append(place)
            elif continuation.startswith(rest):
                self._complete.append(place)
        return "" if self._places else self._decide(continuation)

    def finish(self) -> str:
        """Return what was held back, at the end of the continuation; white space alone continues nothing."""
        continuation = self._buffer.lstrip()
        if not (self._open and continuation):
            return ""
        self._complete += [place for place in self._places or () if continuation == self._before[place:]]
        return self._decide(continuation)

    def _decide(self, continuation: str) -> str:
        self._open = False
        joined = self._joined(continuation)
        self.left_out = len(self._buffer) - len(joined)
        return joined

    def _joined(self, continuation: str) -> str:
        blank = self._buffer[: len(self._buffer) - len(continuation)]
        for place in sorted(self._complete):
            repeated = self._before[place:]
            if self._is_repeated(place, repeated, continuation[len(repeated) : len(repeated) + 1], blank):
                return self._without_gap(continuation[len(repeated) :])
        return self._without_gap(self._buffer)

    def _is_repeated(self, place: int, repeated: str, following: str, blank: str) -> bool:
        """Return whether it is a repetition rather than a coincidence."""
        words = _WORD.findall(repeated)
        if place and self._before[place - 1].isalnum():  # in the middle of a script without spaces
            return len(repeated) >= _UNSPACED_LETTERS
        if "\n" in blank:  # lines can well be equal
            return len(words) >= _LINE
        if len(words) > 1:
            return True
        if following.isalnum() and repeated[-1:].isalnum() and blank:
            return False  # " then" after "the" is another word
        return bool(words) and sum(map(str.isalpha, words[0])) >= _LETTERS

    def _without_gap(self, rest: str) -> str:
        """Return the rest without the white space that the preceding text already ends with."""
        for have in self._gap:
            if not rest.startswith(have):
                break
            rest = rest[1:]
        return rest
