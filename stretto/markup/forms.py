"""The marks that a model puts around thoughts and calls, as its chat template tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stretto.markup.call_forms import FORMS

__all__ = ["ANSWERS", "CHANNEL_MARKS", "PLAIN", "THOUGHTS", "CallForm", "MarkupForm", "form_of"]

THOUGHTS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # of Kimi-VL
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought", "<channel|>"),  # of Gemma 4
)
"""The marks that families of models put around a thought."""
ANSWERS = (
    ("<response>", "</response>"),  # of Granite
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
)
"""Those that some put around the answer behind it."""

Body = Literal["object", "elements", "rest", "python"]


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a model writes a call of a tool.

    Attributes:
        begin: the mark before a call; empty where an answer that is one JSON object is the only form.
        end: the mark behind it; empty where the calls reach to the end of the answer.
        body: between them: a JSON object (Hermes, Qwen), elements of its arguments (Qwen3-Coder), all calls up to
            the end of the answer (Mistral, Granite, Phi-4, DeepSeek, Gemma), or a list as Python writes it (Llama 3.2).
        short_ids: the template takes names of calls of nine letters and digits only.
        text_arguments: the template puts the arguments of a call together as text, and fails with an object.
    """

    begin: str = ""
    end: str = ""
    body: Body = "rest"
    short_ids: bool = False
    text_arguments: bool = False


@dataclass(frozen=True, slots=True)
class MarkupForm:
    """The marks of one model.

    Attributes:
        thought: the marks before and behind what it thinks, at the beginning of an answer.
        calls: how it calls tools; ``None`` where it does not, or in a way that is not read here.
        channels: thoughts, calls and answer are separate channels (gpt-oss).
        always: the template begins a thought in every prompt, or the model thinks in any case.
        answers: the marks that may stand around an answer behind a thought.
    """

    thought: tuple[str, str] | None = None
    calls: CallForm | None = None
    channels: bool = False
    always: bool = False
    answers: tuple[tuple[str, str], ...] = ANSWERS

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks that have to be seen, control tokens among them."""
        if self.channels:
            return CHANNEL_MARKS
        calls = () if self.calls is None else (self.calls.begin, self.calls.end, *_beside(self.calls.begin))
        thought = () if self.thought is None else (*self.thought, *_beside(self.thought[0]))
        return tuple(mark for mark in (*thought, *calls) if mark)

    @property
    def is_plain(self) -> bool:
        """Whether it has no marks and no calls."""
        return self.thought is None and self.calls is None and not self.channels

    def opened_by(self, prompt: str) -> bool:
        """Whether a prompt ends within a thought, which its answer goes on with."""
        return self.thought is not None and prompt.rstrip().endswith(self.thought[0])

    def closing(self, prompt: str) -> str:
        """What to put behind a prompt whose answer is held to a format, so that it begins as an answer."""
        if self.channels:
            return "<|channel|>final<|message|>" if prompt.endswith("<|start|>assistant") else ""
        return f"\n{self.thought[1]}\n\n" if self.thought is not None and self.opened_by(prompt) else ""


PLAIN = MarkupForm()
"""A text without marks."""

CHANNEL_MARKS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>")
"""The marks of gpt-oss's messages."""

_PHRASES = ("Here is my thought process:", "Here is my response:")  # of Granite 3.2
_BESIDE = {
    "[TOOL_CALLS]": ("[ARGS]", "[CALL_ID]"),
    "<|tool_call|>": ("<|/tool_call|>",),
    "<|channel>thought": ("<|channel>",),
    "<tool_call>": FORMS["<arg_key>"].marks,
}
_UNREAD = ("<tool_calls>", "<|tool_calls_section_begin|>", "```tool_code")  # of Apriel, Kimi K2, and in examples
_LLAMA = ("<|python_tag|>", "dictionary of argument name")  # what its templates tell the model of a call
_PYTHON = "func_name1(params_name1"  # what templates of Llama 3.2 and 4 tell the model of a call
_JOINED = re.compile(r"arguments['\"]\]\s*+[+~]")
_SWITCHED = re.compile(r"\b(?:enable_thinking|thinking)\b")


def form_of(template: object) -> MarkupForm:
    """Tell a model's marks by its chat template; some models have several, by name."""
    text = str(template or "")
    if "<|channel|>" in text:
        return MarkupForm(calls=CallForm("<|channel|>"), channels=True, always=True)
    thought = next((marks for marks in THOUGHTS if any(mark in text for mark in marks)), None)
    if thought is None and all(phrase in text for phrase in _PHRASES):
        thought = _PHRASES
    begun = text.rpartition("add_generation_prompt")[2]
    always = thought is not None and thought[0] in begun and not _SWITCHED.search(text)
    return MarkupForm(thought, _calls_of(text), always=always)


def _beside(mark: str) -> tuple[str, ...]:
    """Further marks of a form that is known by one."""
    return _BESIDE.get(mark) or (FORMS[mark].marks if mark in FORMS else ())


def _calls_of(text: str) -> CallForm | None:
    if "tools" not in text or any(mark in text for mark in _UNREAD):
        return None
    marked = next((mark for mark in FORMS if mark not in ("<arg_key>", "<function=") and mark in text), "")
    elements = "<function=" in text
    found = (
        ("[TOOL_CALLS]" in text, CallForm("[TOOL_CALLS]", short_ids="length 9" in text)),
        ("<arg_key>" in text, CallForm("<tool_call>")),
        (marked, CallForm(marked, text_arguments=_JOINED.search(text) is not None)),
        ("<|tool_call|>" in text, CallForm("<|tool_call|>")),
        ("<tool_call>" in text, CallForm("<tool_call>", "</tool_call>", "elements" if elements else "object")),
        (_PYTHON in text, CallForm(body="python")),
        (any(words in text for words in _LLAMA), CallForm("<function=" if elements else "<|python_tag|>")),
    )
    return next((form for holds, form in found if holds), None)
