"""Extract reasoning and calls from the text of one answer while it streams.

The result does not depend on how the stream was chunked. Markers that lead to nothing readable stay text, as the model
wrote them. Each character is read a few times at most, whatever a model writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stretto.markup.calls import JsonSpan, ParsedCall, Parts, Tools, held_back
from stretto.markup.forms import CHANNEL_MARKS, FINAL, PLAIN, CallForm, MarkupForm


class Reader(Protocol):
    """Reads the text of one answer."""

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next is reasoning, as far as known."""
        ...

    def feed(self, text: str) -> Parts:
        """Take more of the text; return what is certain now."""
        ...

    def finish(self) -> Parts:
        """Return the rest, at the end of the text."""
        ...


def reader_of(
    form: MarkupForm,
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    opened: bool = False,
    constrained: bool = False,
    whole: bool = False,
) -> Reader | None:
    """Return the reader for an answer; ``None`` if it has nothing to look for.

    Args:
        form: the markers of the model.
        tools: that it may call.
        opened: the answer begins within reasoning.
        constrained: the answer is constrained to a format, and contains neither reasoning nor markers.
        whole: the answer is one call, constrained to its schema.
    """
    if constrained or whole:
        return MarkReader(PLAIN, tools, whole=True) if whole else None
    if form.channels:
        return Channels(Tools(tools))
    return MarkReader(form, tools, opened=opened) if tools or form.thought else None


@dataclass(slots=True)
class _Found:
    text: str = ""
    thought: str = ""
    calls: list[ParsedCall] = field(default_factory=list)


class MarkReader:
    """Reads reasoning between two markers at the beginning of an answer, and calls after a marker.

    With ``whole``, the answer is one JSON object. See `reader_of` for the other arguments.
    """

    def __init__(
        self, form: MarkupForm, tools: Sequence[Mapping[str, Any]] = (), *, opened: bool = False, whole: bool = False
    ) -> None:
        self._thought, self._answers = form.thought, form.answers
        self._form, self._may_call = form.calls or CallForm(), bool(tools)
        self._marks: tuple[str, ...] = ()  # markers that calls begin with
        if self._may_call and self._form.begin:
            # Qwen3-Coder omits its marker before some functions.
            self._marks = (self._form.begin, *(("<function=",) if self._form.body == "elements" else ()))
        self._tools = Tools(tools)
        self._state = self._objects if whole else self._think if opened else self._begin
        self._buffer = ""
        self._space = ""  # white space before a marker, which is meaningless before a call
        self._pieces: list[str] = []  # of unfinished reasoning
        self._has_thought = False  # already: an empty line comes before the next one
        self._span: JsonSpan | None = None  # of the object of a call
        self._searched = 0  # characters of the buffered text that are already searched
        self._ended = False
        self._closing = ""  # the marker after the answer
        self._found = _Found()

    @property
    def is_thinking(self) -> bool:
        return self._state == self._think

    def feed(self, text: str) -> Parts:
        return self._read(text, final=False)

    def finish(self) -> Parts:
        return self._read("", final=True)

    def _read(self, text: str, *, final: bool) -> Parts:
        self._buffer += text
        self._ended = final
        thinking = self.is_thinking
        while self._state():
            pass
        found, self._found = self._found, _Found()
        return Parts(
            found.text,
            thought=found.thought,
            thinking=bool(text) and (thinking or self.is_thinking),
            calls=tuple(found.calls),
        )

    # Each state consumes what it can of the buffered text, and returns whether another state continues with the rest.

    def _begin(self) -> bool:
        """Handle the beginning, where reasoning can come."""
        if self._thought is None:
            return self._begin_answer()
        begun, mark = self._buffer.lstrip(), self._thought[0]
        if begun.startswith(mark):
            self._buffer, self._state = begun[len(mark) :], self._think
            return True
        return self._begin_answer() if self._ended or not mark.startswith(begun) else False

    def _begin_answer(self) -> bool:
        """Handle the beginning of the answer after any reasoning: it can be one call."""
        begun = self._buffer.lstrip()
        python = "<|python_tag|>" if self._may_call and self._form.begin == "<|python_tag|>" else ""
        if not self._ended and (not begun or (python and python.startswith(begun))):
            return False
        if self._may_call and self._form.body == "python" and begun.startswith("["):
            self._state = self._python
        elif self._may_call and (begun.startswith("{") or (python and begun.startswith(python))):
            self._state = self._objects
        else:
            self._state = self._say
        return True

    def _think(self) -> bool:
        assert self._thought is not None  # noqa: S101 - for the type checker: only a form with reasoning gets here
        end = self._thought[1]
        at = self._buffer.find(end)
        if at < 0:
            keep = 0 if self._ended else held_back(self._buffer, (end,))
            self._pieces.append(self._buffer[: len(self._buffer) - keep])
            self._buffer = self._buffer[len(self._buffer) - keep :]
            if self._ended:
                calls = self._called_in()
                if self._has_thought and not calls:  # not reasoning again: the answer mentions the marker
                    self._add_text(self._thought[0] + "".join(self._pieces))
                    self._pieces.clear()
                self._add_thought(calls)
            return False
        self._pieces.append(self._buffer[:at])
        self._buffer, self._state = self._buffer[at + len(end) :], self._after_thought
        self._closing = FINAL.get(end, "")
        self._add_thought()
        return True

    def _add_thought(self, calls: Sequence[ParsedCall] = ()) -> None:
        if thought := "".join(self._pieces).strip():
            self._found.thought += f"\n\n{thought}" if self._has_thought else thought
            self._has_thought = True
        self._found.calls += calls
        self._pieces.clear()

    def _called_in(self) -> Sequence[ParsedCall]:
        """Take the calls at the end of unclosed reasoning: Qwen3.5 and Apertus call tools this way."""
        thought = "".join(self._pieces)
        mark = self._form.begin if self._may_call else ""
        calls: Sequence[ParsedCall] = ()
        end = len(thought)
        while mark and (at := thought.rfind(mark, 0, end)) >= 0 and (found := self._tools.of_marked(thought[at:])):
            calls, end = found, at
        self._pieces = [thought[:end]]
        return calls

    def _after_thought(self) -> bool:
        """Handle what follows reasoning: the answer, which some put between two markers, or more reasoning."""
        assert self._thought is not None  # noqa: S101 - as above
        self._buffer = self._buffer.lstrip()
        for opening, closing in () if self._closing else ((self._thought[0], ""), *self._answers):
            if self._buffer.startswith(opening):
                self._buffer, self._closing = self._buffer[len(opening) :], closing
                self._state = self._after_thought if closing else self._think
                return True
            if not self._ended and opening.startswith(self._buffer):
                return False
        if not (self._ended or self._buffer):
            return False
        self._state = self._begin_answer
        return True

    def _say(self) -> bool:
        """Handle text, up to the marker of a call."""
        form, marks = self._form, self._marks
        at, mark = min(((at, mark) for mark in marks if (at := self._buffer.find(mark)) >= 0), default=(-1, ""))
        if at < 0:
            self._add_text(self._certain(marks))
            return False
        text = self._buffer[:at].rstrip()
        self._space = self._buffer[len(text) : at]
        self._buffer = self._buffer[at:]
        self._add_text(text)
        states = {"object": self._object, "elements": self._elements, "enclosed": self._enclosed}
        self._state = states.get(form.body if mark == form.begin else "rest", self._rest)
        self._span, self._searched = None, len(mark)
        return True

    def _certain(self, marks: tuple[str, ...]) -> str:
        """Take what is certain to be text, leaving a partial marker or white space that could precede one."""
        end = self._closing
        if self._ended:
            text, self._buffer = self._buffer, ""
            return text.rstrip().removesuffix(end).rstrip() if end else text
        keep = held_back(self._buffer, (*marks, end) if end else marks)
        if end and self._buffer.rstrip().endswith(end):
            keep = len(self._buffer) - self._buffer.rfind(end)
        if marks or end:  # white space before a marker is meaningless
            sure = self._buffer[: len(self._buffer) - keep]
            keep += len(sure) - len(sure.rstrip())
        text, self._buffer = self._buffer[: len(self._buffer) - keep], self._buffer[len(self._buffer) - keep :]
        return text

    def _object(self) -> bool:
        """Handle calls that are a JSON object, or a list of them, between two markers."""
        if self._span is None:
            begun = self._buffer[self._searched :].lstrip()
            if begun and begun[0] not in "{[":
                return self._is_text(self._searched)
            if begun:
                self._searched = len(self._buffer) - len(begun)
                self._span = JsonSpan(self._searched)
        end = None if self._span is None else self._span.end(self._buffer)
        if end is None:
            return self._is_text(len(self._buffer)) if self._ended else False
        rest = self._buffer[end:].lstrip()
        after = len(self._buffer) - len(rest)
        if rest.startswith(self._form.end):
            after += len(self._form.end)
        elif not rest.startswith(self._form.begin):  # of the next call, if the end of this one is missing
            if not self._ended and any(mark.startswith(rest) for mark in (self._form.begin, self._form.end)):
                return False
            if rest:
                return self._is_text(end)
        calls = self._tools.of_objects(self._buffer[self._searched : end])
        return self._are_calls(calls, after)

    def _elements(self) -> bool:
        """Handle a call whose arguments are elements; their values can contain anything, even the end marker."""
        begin, end = self._form.begin, self._form.end
        while (at := self._buffer.find(end, self._searched)) >= 0:
            body = self._buffer[len(begin) : at]
            if body.rstrip().endswith("</function>"):
                return self._are_calls(self._tools.of_elements(body), at + len(end))
            self._searched = at + len(end)
        self._searched = max(self._searched, len(self._buffer) - len(end) + 1)
        return self._is_text(len(self._buffer)) if self._ended else False

    def _enclosed(self) -> bool:
        """Handle calls between two markers that occur in no value; text can follow."""
        at = self._buffer.find(self._form.end, self._searched)
        if at < 0:
            self._searched = max(self._searched, len(self._buffer) - len(self._form.end) + 1)
            return self._rest()
        after = at + len(self._form.end)
        return self._are_calls(self._tools.of_marked(self._buffer[:after]), after)

    def _rest(self) -> bool:
        """Handle calls up to the end of the answer."""
        return self._are_all(self._tools.of_marked)

    def _python(self) -> bool:
        """Handle an answer that is only a list of calls in Python syntax."""
        return self._are_all(self._tools.of_python)

    def _objects(self) -> bool:
        """Handle an answer that is only calls as JSON objects."""
        return self._are_all(lambda text: self._tools.of_objects(text.removeprefix("<|python_tag|>")))

    def _are_all(self, read: Callable[[str], Sequence[ParsedCall]]) -> bool:
        if not self._ended:
            return False
        calls = read(self._buffer.strip().removesuffix(self._closing))
        if not calls:
            return self._is_text(len(self._buffer))
        self._buffer, self._space = "", ""
        self._found.calls += calls
        return False

    def _is_text(self, length: int) -> bool:
        """Pass ``length`` characters of the buffered text on as text."""
        self._add_text(self._space + self._buffer[:length])
        self._space, self._buffer, self._state = "", self._buffer[length:], self._say
        return bool(self._buffer)

    def _are_calls(self, calls: Sequence[ParsedCall], length: int) -> bool:
        """Replace ``length`` characters of the buffered text by calls, or pass them on as text if there are none."""
        if not calls:
            return self._is_text(length)
        self._found.calls += calls
        self._space, self._buffer, self._state = "", self._buffer[length:], self._after_call
        return True

    def _after_call(self) -> bool:
        self._buffer = self._buffer.lstrip()
        if not self._buffer:
            return False
        self._state = self._say
        return True

    def _add_text(self, text: str) -> None:
        self._found.text += text


_MARK = re.compile("|".join(map(re.escape, CHANNEL_MARKS)))
_TOOL = re.compile(r"\bto=(?:functions\.)?([\w.-]{1,128})")
_RECIPIENT = re.compile(r"\s*to=\S{1,160}\s?")  # the prompt ends within a header, and a call can name its tool there
_MAY_NAME_ONE = re.compile(r"\s*(?:t(?:o(?:=\S{0,160}\s?)?)?)?")
_HEAD_BEGINS = frozenset({"<|channel|>", "<|start|>"})
_WORDS = ("assistant", "analysis", "commentary", "final", "json", "code", "to=")  # of a header
_HEAD = re.compile(rf"(?:\s|{'|'.join(_WORDS)}[\w.-]+)*+")


class Channels:
    """Reads an answer in channels. Unreadable calls, and anything outside a channel, stay text."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._buffer, self._begins = "", True  # nothing has been taken yet
        self._head: list[str] | None = None  # of a message, while it is being read
        self._channel, self._tool = "final", ""
        self._body: list[str] = []  # of reasoning or a call
        self._has_thought = False  # already: an empty line comes before the next one

    @property
    def is_thinking(self) -> bool:
        return self._head is None and self._channel == "analysis" and not self._tool

    def feed(self, text: str) -> Parts:
        return self._read(text, final=False)

    def finish(self) -> Parts:
        return self._read("", final=True)

    def _read(self, text: str, *, final: bool) -> Parts:
        self._buffer += text
        thinking = self.is_thinking
        texts, thoughts, calls = list[str](), list[str](), list[ParsedCall]()
        at = 0
        for mark in _MARK.finditer(self._buffer):
            before = self._buffer[at : mark.start()]
            if self._begins and _RECIPIENT.fullmatch(before):
                self._head = []
            self._take(before, texts)
            at, self._begins = mark.end(), False
            self._at_mark(mark[0], texts, thoughts, calls)
        keep = 0 if final else held_back(self._buffer[at:], CHANNEL_MARKS)
        if self._begins and not final and _MAY_NAME_ONE.fullmatch(self._buffer[: len(self._buffer) - keep]):
            keep = len(self._buffer)
        self._begins = self._begins and keep == len(self._buffer)
        self._take(self._buffer[at : len(self._buffer) - keep], texts)
        self._buffer = self._buffer[len(self._buffer) - keep :]
        if final:
            self._end(texts, thoughts, calls)
        return Parts(
            "".join(texts),
            thought="".join(thoughts),
            thinking=bool(text) and (thinking or self.is_thinking),
            calls=tuple(calls),
        )

    def _take(self, text: str, texts: list[str]) -> None:
        if not text:
            return
        if self._head is not None:
            self._head.append(text)
        elif self._tool or self._channel == "analysis":
            self._body.append(text)
        else:
            texts.append(text)

    def _at_mark(self, mark: str, texts: list[str], thoughts: list[str], calls: list[ParsedCall]) -> None:
        if mark == "<|message|>":
            self._open("".join(self._head or ()))
        elif mark in _HEAD_BEGINS:
            if self._head is None:
                self._end(texts, thoughts, calls)
                self._head = []
            else:
                self._head.append(" ")
        elif mark != "<|constrain|>":
            self._end(texts, thoughts, calls)
        elif self._head is not None:
            self._head.append(" ")

    def _open(self, head: str) -> None:
        """Begin a message; its header says what it is."""
        tool = _TOOL.search(head)
        self._tool = "" if tool is None else tool[1]
        self._channel = "analysis" if "analysis" in head else "final"
        self._head = None

    def _end(self, texts: list[str], thoughts: list[str], calls: list[ParsedCall]) -> None:
        """End the message: now it is certain what it was."""
        if self._head is not None:  # the marker between header and message is missing, or everything but the header
            head = "".join(self._head)
            message = _HEAD.sub("", head, count=1)
            self._open(head)
            if any(word.startswith(message) for word in _WORDS):  # the answer is cut within the header
                self._channel, self._tool = "final", ""
            else:
                self._take(message, texts)
        body, self._body = "".join(self._body), []
        if self._tool:
            call = self._tools.of_arguments(self._tool, body or "{}")
            if call is None:
                texts.append(body)
            else:
                calls.append(call)
        elif body.strip():
            thoughts.append(f"\n\n{body.strip()}" if self._has_thought else body.strip())
            self._has_thought = True
        self._channel, self._tool, self._head = "final", "", None
