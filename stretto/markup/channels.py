"""The messages of gpt-oss: thoughts, calls and answer, each in a channel that its head names.

``<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...``; a call has its tool in the
head, ``to=functions.name``. The form is OpenAI's "harmony".
"""

from __future__ import annotations

import re

from stretto.markup.calls import ParsedCall, Parts, Tools, held_back
from stretto.markup.forms import CHANNEL_MARKS

__all__ = ["Channels"]

_MARK = re.compile("|".join(map(re.escape, CHANNEL_MARKS)))
_TOOL = re.compile(r"\bto=(?:functions\.)?([\w.-]{1,128})")
_RECIPIENT = re.compile(r"\s*to=\S{1,160}\s?")  # the prompt ends within a head, and a call may name its tool there
_MAY_NAME_ONE = re.compile(r"\s*(?:t(?:o(?:=\S{0,160}\s?)?)?)?")
_HEAD_BEGINS = frozenset({"<|channel|>", "<|start|>"})
_WORDS = ("assistant", "analysis", "commentary", "final", "json", "code", "to=")  # of a head
_HEAD = re.compile(rf"(?:\s|{'|'.join(_WORDS)}[\w.-]+)*+")


class Channels:
    """Reads an answer in channels. A call that cannot be read stays text; so does what stands in no channel."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._held, self._begins = "", True  # nothing has been taken yet
        self._head: list[str] | None = None  # of the message that begins, while it is read
        self._channel, self._tool = "final", ""
        self._body: list[str] = []  # of a thought or a call
        self._has_thought = False  # already: an empty line comes before the next one

    @property
    def is_thinking(self) -> bool:
        """See `stretto.markup.reading.Reader`."""
        return self._head is None and self._channel == "analysis" and not self._tool

    def feed(self, text: str) -> Parts:
        """See `stretto.markup.reading.Reader`."""
        return self._read(text, final=False)

    def finish(self) -> Parts:
        """See `stretto.markup.reading.Reader`."""
        return self._read("", final=True)

    def _read(self, text: str, *, final: bool) -> Parts:
        self._held += text
        thinking = self.is_thinking
        said, thoughts, calls = list[str](), list[str](), list[ParsedCall]()
        at = 0
        for mark in _MARK.finditer(self._held):
            before = self._held[at : mark.start()]
            if self._begins and _RECIPIENT.fullmatch(before):
                self._head = []
            self._take(before, said)
            at, self._begins = mark.end(), False
            self._at_mark(mark[0], said, thoughts, calls)
        keep = 0 if final else held_back(self._held[at:], CHANNEL_MARKS)
        if self._begins and not final and _MAY_NAME_ONE.fullmatch(self._held[: len(self._held) - keep]):
            keep = len(self._held)
        self._begins = self._begins and keep == len(self._held)
        self._take(self._held[at : len(self._held) - keep], said)
        self._held = self._held[len(self._held) - keep :]
        if final:
            self._end(said, thoughts, calls)
        return Parts(
            "".join(said),
            thought="".join(thoughts),
            thinking=bool(text) and (thinking or self.is_thinking),
            calls=tuple(calls),
        )

    def _take(self, text: str, said: list[str]) -> None:
        if not text:
            return
        if self._head is not None:
            self._head.append(text)
        elif self._tool or self._channel == "analysis":
            self._body.append(text)
        else:
            said.append(text)

    def _at_mark(self, mark: str, said: list[str], thoughts: list[str], calls: list[ParsedCall]) -> None:
        if mark == "<|message|>":
            self._open("".join(self._head or ()))
        elif mark in _HEAD_BEGINS:
            if self._head is None:
                self._end(said, thoughts, calls)
                self._head = []
            else:
                self._head.append(" ")
        elif mark != "<|constrain|>":
            self._end(said, thoughts, calls)
        elif self._head is not None:
            self._head.append(" ")

    def _open(self, head: str) -> None:
        """A message begins, of which the head tells what it is."""
        tool = _TOOL.search(head)
        self._tool = "" if tool is None else tool[1]
        self._channel = "analysis" if "analysis" in head else "final"
        self._head = None

    def _end(self, said: list[str], thoughts: list[str], calls: list[ParsedCall]) -> None:
        """The message ends: what it was is certain now."""
        if self._head is not None:  # the mark between head and message is missing, or all but the head
            head = "".join(self._head)
            message = _HEAD.sub("", head, count=1)
            self._open(head)
            if any(word.startswith(message) for word in _WORDS):  # the answer is cut within the head
                self._channel, self._tool = "final", ""
            else:
                self._take(message, said)
        body, self._body = "".join(self._body), []
        if self._tool:
            call = self._tools.of_arguments(self._tool, body or "{}")
            if call is None:
                said.append(body)
            else:
                calls.append(call)
        elif body.strip():
            thoughts.append(f"\n\n{body.strip()}" if self._has_thought else body.strip())
            self._has_thought = True
        self._channel, self._tool, self._head = "final", "", None
