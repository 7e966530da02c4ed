"""Read an answer whose server may have passed on the markers of an unknown model.

Servers without a parser for a model pass on what it writes around its reasoning. So the beginning of an answer is
compared with the markers of all known families; text that begins differently is passed on as it streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stretto.markup.calls import Parts, Tools
from stretto.markup.forms import ANSWER, ANSWERS, IN_WORDS, THOUGHTS, MarkupForm
from stretto.markup.reading import Channels, MarkReader, Reader

_CHANNELS = ("<|channel|>", "<|start|>assistant")  # of gpt-oss
_BARE_CHANNEL, _BARE_FINAL = "analysis", "assistantfinal"  # the same, from a server that leaves out control tokens
_LONGEST_BARE = 100_000  # characters
BEGINS = (*(begin for begin, _ in (*THOUGHTS, *IN_WORDS)), *_CHANNELS)
"""The markers that such an answer begins with."""


class Leaked:
    """Reads one answer of a server; see `stretto.markup.reading.Reader`.

    Args:
        tools: that the model may call.
        asks_for: returns whether the prompt contains a text.
    """

    def __init__(
        self, tools: Sequence[Mapping[str, Any]] = (), asks_for: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._tools, self._asks_for = tools, asks_for
        self._pieces: list[str] = []  # held back
        self._begun = ""  # what is certain to be the beginning, no longer than a marker
        self._inner: Reader | None = None
        self._is_plain = self._is_bare = False
        self._tail, self._length = "", 0  # of a bare channel: its last characters, and its length

    @property
    def is_thinking(self) -> bool:
        return self._is_bare or (self._inner is not None and self._inner.is_thinking)

    def feed(self, text: str) -> Parts:
        if self._inner is not None:
            return self._inner.feed(text)
        if self._is_plain:
            return Parts(text)
        self._pieces.append(text)
        if self._is_bare:
            return self._bare(text)
        self._begun = begun = self._begun + (text if self._begun else text.lstrip())
        if begun.startswith(_BARE_CHANNEL) and begun[len(_BARE_CHANNEL) :][:1].isupper():
            self._is_bare = True
            return self._bare(begun)
        self._inner = self._chosen(begun)
        if self._inner is None and any(mark.startswith(begun) for mark in (*BEGINS, _BARE_CHANNEL)):
            return Parts()
        self._is_plain = self._inner is None
        released = self._released()
        return Parts(released) if self._inner is None else self._inner.feed(released)

    def finish(self) -> Parts:
        self._is_plain, self._is_bare = True, False
        return Parts(self._released()) if self._inner is None else self._inner.finish()

    def _bare(self, text: str) -> Parts:
        """Read what begins like gpt-oss reasoning without its markers; it is that only if its end follows."""
        window = self._tail + text
        self._tail, self._length = window[1 - len(_BARE_FINAL) :], self._length + len(text)
        if _BARE_FINAL not in window and self._length < _LONGEST_BARE:
            return Parts(thinking=True)
        self._is_plain, self._is_bare = True, False
        released = self._released()
        thought, found, answer = released.lstrip().removeprefix(_BARE_CHANNEL).partition(_BARE_FINAL)
        return Parts(answer, thought=thought.strip(), thinking=True) if found else Parts(released)

    def _released(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _chosen(self, begun: str) -> Reader | None:
        """Return the reader for an answer with this beginning; ``None`` if it is text, or too short to decide."""
        if begun.startswith(_CHANNELS):
            return Channels(Tools(self._tools))
        thought = next((pair for pair in (*THOUGHTS, *IN_WORDS) if begun.startswith(pair[0])), None)
        if thought is None or (thought in IN_WORDS and self._asks_for(thought[0])):
            return None
        return MarkReader(MarkupForm(thought, answers=ANSWERS if self._asks_for(ANSWER[0]) else (*ANSWERS, ANSWER)))
