"""Thoughts whose opening tag is in the prompt, from the chat template: only their end, ``</think>``, arrives.

Servers without a reasoning parser pass on what such models write, and nothing distinguishes the thought from an answer
before its end. So text is withheld until it is known whether the model's answers begin like that, and if they do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretto.markup.leaked import BEGINS

_OPEN = "<think>"
_CLOSE = re.compile(r"</think>|</seed:think>|\[/THINK\]")
_LONGEST = len("</seed:think>")
_KEPT = _LONGEST + 1  # characters to search again with the next ones: a tag, and the character before it
_START = max(map(len, BEGINS))
_QUOTES = ("`", "'", '"')  # before a tag that the text only mentions
_THINKING = re.compile(r"\br1\b|qwq|think|reason|magistral|deephermes|exaone-deep")
_OTHERS = re.compile(
    r"gpt-\d|^o[134]\b|llama|mistral|mixtral|ministral|codestral|gemma|phi-?[1234]|qwen-?[12]|smollm2|command-[ra]|falcon"
    r"|claude|gemini|gpt-oss|kimi-k2-instruct|devstral|olmo-?2"
    r"|deepseek-(?:chat|coder|v[23])|starcoder|vicuna|zephyr"
)
"""Families without such thoughts; those of their models that think say so in their names."""
_QWEN3 = re.compile(r"qwen-?3")
_WITHOUT = ("coder", "instruct")  # in the names of models that do not think
_SERVICES = (
    *(".api.openai.com", ".azure.com", ".api.mistral.ai", ".api.deepseek.com", ".api.groq.com", ".openrouter.ai"),
    *(".api.x.ai", ".googleapis.com"),
)
"""Services that separate thoughts themselves."""


def expected_of(model: str, host: str = "") -> bool | None:
    """Return ``False`` if the model name or host shows that there are no such thoughts, else ``None``."""
    name, host = model[:200].casefold(), f".{host.partition(':')[0].casefold()}"
    qwen3 = _QWEN3.search(name) is not None
    known = any(word in name for word in _WITHOUT) if qwen3 else _OTHERS.search(name) is not None
    plain = known and not _THINKING.search(name)
    return False if plain or host.endswith(_SERVICES) else None


@dataclass(frozen=True, slots=True)
class SplitText:
    """What is certain now: text of the answer, and a completed thought before it."""

    text: str = ""
    thought: str = ""


class BareThoughts:
    """A detector for the end of a thought that an answer might begin within.

    Args:
        expected: whether the model's answers begin like that; ``None``: not known; ``False``: text is passed on
            immediately.

    Attributes:
        found: whether this answer began like that; ``None``: not known.
        late: whether it did unexpectedly, so the thought was passed on as text.
    """

    def __init__(self, expected: bool | None) -> None:
        self.found: bool | None = None
        self.late = False
        self._expected = expected
        self._pieces: list[str] = []  # withheld
        self._length = 0  # of the pieces
        self._tail = ""  # the last characters
        self._start = ""  # the first characters after white space
        self._marked = False  # there is an opening tag
        self._after_thought = False  # between the thought and the answer

    @property
    def holds(self) -> bool:
        """Whether text is withheld."""
        return bool(self._pieces)

    def feed(self, text: str) -> SplitText:
        if self._after_thought:
            text = text.lstrip()
            self._after_thought = not text
        if self.found is not None or not text:
            return SplitText(text)
        window, known = self._tail + text, len(self._tail)
        self._tail = window[-_KEPT:]
        if len(self._start) < _START:
            self._start = (self._start + text).lstrip()[:_START]
        if self._expected is False:
            end = self._end(window, known - _LONGEST)
            self.late = end is not None and window[end.end() :][:1].isspace()
            self.found = self.late or None
            return SplitText(text)
        self._pieces.append(text)
        self._length += len(text)
        if self._start.startswith(BEGINS):
            return self.none()
        end = self._end(window, known - _LONGEST + 1)
        before = self._length - len(window)
        return SplitText() if end is None else self._split(before + end.start(), before + end.end())

    def none(self) -> SplitText:
        """Rule out such a thought: the server marks thoughts in another way, or the model already calls a tool."""
        self.found = False
        return SplitText(self._released())

    def finish(self, *, cut: bool) -> SplitText:
        """Return what is withheld at the end of the text; ``cut``: the model would have written more."""
        if self.found is None and self._start and not cut:
            self.found = False
        withheld = self._released()
        return SplitText(thought=withheld.strip()) if cut and self._expected else SplitText(withheld)

    def _end(self, window: str, start: int) -> re.Match[str] | None:
        """Return the closing tag, from ``start`` on, unless the text only mentions it."""
        self._marked = self._marked or _OPEN in window
        if self._marked:
            return None
        found = _CLOSE.finditer(window, max(start, 0))
        return next((mark for mark in found if window[max(mark.start() - 1, 0) : mark.start()] not in _QUOTES), None)

    def _split(self, start: int, end: int) -> SplitText:
        self.found = True
        withheld = self._released()
        text = withheld[end:].lstrip()
        self._after_thought = not text
        return SplitText(text, withheld[:start].strip())

    def _released(self) -> str:
        withheld = "".join(self._pieces)
        self._pieces.clear()
        return withheld
