"""The marks that a model puts around thoughts and calls, as its chat template tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["CHANNEL_MARKS", "PLAIN", "CallForm", "Form", "form_of"]

Body = Literal["object", "elements", "rest"]


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a model writes a call of a tool.

    Attributes:
        begin: the mark before a call; empty where an answer that is one JSON object is the only form.
        end: the mark behind it; empty where the calls reach to the end of the answer.
        body: between them: a JSON object (Hermes, Qwen), elements of its arguments (Qwen3-Coder), or all calls up to
            the end of the answer (Mistral, Granite, Phi-4).
        short_ids: the template takes names of calls of nine letters and digits only.
    """

    begin: str = ""
    end: str = ""
    body: Body = "rest"
    short_ids: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The marks of one model.

    Attributes:
        thought: the marks before and behind what it thinks, at the beginning of an answer.
        calls: how it calls tools; ``None`` where it does not, or in a way that is not read here.
        channels: thoughts, calls and answer are channels of their own (gpt-oss).
        always: the template begins a thought in every prompt, or the model thinks in any case.
    """

    thought: tuple[str, str] | None = None
    calls: CallForm | None = None
    channels: bool = False
    always: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks that have to be seen, control tokens among them."""
        if self.channels:
            return CHANNEL_MARKS
        calls = () if self.calls is None else (self.calls.begin, self.calls.end, *_BESIDE.get(self.calls.begin, ()))
        return tuple(mark for mark in (*(self.thought or ()), *calls) if mark)

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


PLAIN = Form()
"""A text without marks."""

CHANNEL_MARKS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>")
"""The marks of gpt-oss's messages."""

_THOUGHTS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
_PHRASES = ("Here is my thought process:", "Here is my response:")  # of Granite 3.2
_BESIDE = {"[TOOL_CALLS]": ("[ARGS]", "[CALL_ID]"), "<|tool_call|>": ("<|/tool_call|>",)}
_UNREAD = ("<arg_key>", "<|tool▁calls", "<｜tool▁calls", "<tool_calls>", "<invoke")  # of GLM, DeepSeek, Apriel, MiniMax
_LLAMA = ("<|python_tag|>", "dictionary of argument name")  # what its templates tell the model of a call
_SWITCHED = re.compile(r"\b(?:enable_thinking|thinking)\b")


def form_of(template: object) -> Form:
    """Tell a model's marks by its chat template; some models have several, by name."""
    text = str(template or "")
    if "<|channel|>" in text:
        return Form(calls=CallForm("<|channel|>"), channels=True, always=True)
    thought = next((marks for marks in _THOUGHTS if any(mark in text for mark in marks)), None)
    if thought is None and all(phrase in text for phrase in _PHRASES):
        thought = _PHRASES
    begun = text.rpartition("add_generation_prompt")[2]
    always = thought is not None and thought[0] in begun and not _SWITCHED.search(text)
    return Form(thought, _calls_of(text), always=always)


def _calls_of(text: str) -> CallForm | None:
    if "tools" not in text or any(mark in text for mark in _UNREAD):
        return None
    if "[TOOL_CALLS]" in text:
        return CallForm("[TOOL_CALLS]", short_ids="length 9" in text)
    if "<|tool_call|>" in text:
        return CallForm("<|tool_call|>")
    if "<tool_call>" in text:
        return CallForm("<tool_call>", "</tool_call>", "elements" if "<function=" in text else "object")
    if any(words in text for words in _LLAMA) and "<function=" not in text:
        return CallForm("<|python_tag|>")
    return None
