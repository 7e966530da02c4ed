"""The markers that a model puts around reasoning and calls, according to its chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stretto.markup.call_forms import FORMS, WRAPPERS

THOUGHTS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # of Kimi-VL
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel>thought", "<channel|>"),  # of Gemma 4
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # of Apertus
)
"""The markers that model families put around reasoning."""
ANSWERS = (
    ("<response>", "</response>"),  # of Granite
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
)
"""The markers that some put around the answer after it."""
IN_WORDS = (("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"), ("<thought>", "</thought>"))
"""Markers of reasoning that a prompt can ask for as well: then they belong to the answer."""
ANSWER = ("<answer>", "</answer>")
"""The markers around the answers of Hunyuan, which a prompt can ask for as well."""
FINAL = {"[BEGIN FINAL RESPONSE]": "[END FINAL RESPONSE]"}
"""Markers of Apriel: the end of the reasoning begins the answer, which has a separate end marker."""

Body = Literal["object", "elements", "enclosed", "rest", "python"]


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a model writes a call of a tool.

    Attributes:
        begin: the marker before a call; empty if an answer that is one JSON object is the only form.
        end: the marker after it; empty if the calls extend to the end of the answer.
        body: between them: JSON (Hermes, Qwen, Nemotron), elements of its arguments (Qwen3-Coder, Seed-OSS), all calls
            (LFM2), all calls up to the end of the answer (Mistral, Granite, Phi-4, DeepSeek, Gemma), or a list in
            Python syntax (Llama 3.2).
        short_ids: the template accepts only call ids of nine letters and digits.
        text_arguments: the template concatenates the arguments of a call as text, and fails with an object.
    """

    begin: str = ""
    end: str = ""
    body: Body = "rest"
    short_ids: bool = False
    text_arguments: bool = False


@dataclass(frozen=True, slots=True)
class MarkupForm:
    """The markers of one model.

    Attributes:
        thought: the markers before and after its reasoning, at the beginning of an answer.
        calls: how it calls tools; ``None`` if it does not, or in an unsupported way.
        channels: reasoning, calls and answer are separate channels (gpt-oss).
        always: the template begins reasoning in every prompt, or the model always reasons.
        answers: the markers that can surround an answer after reasoning.
    """

    thought: tuple[str, str] | None = None
    calls: CallForm | None = None
    channels: bool = False
    always: bool = False
    answers: tuple[tuple[str, str], ...] = ANSWERS

    @property
    def marks(self) -> tuple[str, ...]:
        """All markers that have to be visible in the text, including control tokens."""
        if self.channels:
            return CHANNEL_MARKS
        calls = () if self.calls is None else (self.calls.begin, self.calls.end, *_further_marks(self.calls.begin))
        thought = () if self.thought is None else (*self.thought, *_further_marks(self.thought[0]))
        return tuple(mark for mark in (*thought, *calls) if mark)

    @property
    def is_plain(self) -> bool:
        """Whether it has no markers and no calls."""
        return self.thought is None and self.calls is None and not self.channels

    def opened_by(self, prompt: str) -> bool:
        """Return whether a prompt ends within reasoning, which its answer continues."""
        return self.thought is not None and prompt.rstrip().endswith(self.thought[0])

    def closing(self, prompt: str) -> str:
        """Return what to append to a prompt whose answer is constrained to a format, to skip the reasoning."""
        if self.channels:
            return "<|channel|>final<|message|>" if prompt.endswith("<|start|>assistant") else ""
        return f"\n{self.thought[1]}\n\n" if self.thought is not None and self.opened_by(prompt) else ""


PLAIN = MarkupForm()
"""The form of a text without markers."""

CHANNEL_MARKS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>")
"""The markers of gpt-oss messages."""

_PHRASES = (  # of Granite 3.2 and of Apriel
    ("Here is my thought process:", "Here is my response:"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
_FURTHER_MARKS = {
    "[TOOL_CALLS]": ("[ARGS]", "[CALL_ID]"),
    "<|tool_call|>": ("<|/tool_call|>",),
    "<|channel>thought": ("<|channel>",),
    "<tool_call>": FORMS["<arg_key>"].marks,
}
_UNREAD = ("<|tool_calls_section_begin|>", "```tool_code")  # of Kimi K2, and in examples
_AMBIGUOUS = ("<arg_key>", "<function=", "<|python_start|>")  # do not show what a template's model writes
_LFM = "<|tool_call_start|>", "<|tool_call_end|>"  # LFM2 writes text after its calls
_OF_LFM = ("<|tool_list_start|>", "List of tools: ")  # its templates, some of which contain no call marker
_LLAMA = ("<|python_tag|>", "dictionary of argument name")  # what its templates tell the model about a call
_PYTHON = "func_name1(params_name1"  # what templates of Llama 3.2 and 4 tell the model about a call
_JOINED = re.compile(r"arguments(?:['\"]\])?+\s*+[+~]")
_SWITCHED = re.compile(r"\b(?:enable_thinking|thinking)\b")


def form_of(template: object) -> MarkupForm:
    """Return a model's markers by its chat template; some models have multiple templates, by name."""
    text = str(template or "")
    if "<|channel|>" in text:
        return MarkupForm(calls=CallForm("<|channel|>"), channels=True, always=True)
    thought = next((marks for marks in THOUGHTS if any(mark in text for mark in marks)), None)
    if thought is None:
        thought = next((marks for marks in (*_PHRASES, *IN_WORDS) if all(mark in text for mark in marks)), None)
    begun = text.rpartition("add_generation_prompt")[2]
    always = thought is not None and thought[0] in begun and not _SWITCHED.search(text)
    answers = (*ANSWERS, ANSWER) if ANSWER[0] in text else ANSWERS
    return MarkupForm(thought, _calls_of(text), always=always, answers=answers)


def _further_marks(mark: str) -> tuple[str, ...]:
    """Return the further markers of a format that is identified by one."""
    return _FURTHER_MARKS.get(mark) or (FORMS[mark].marks if mark in FORMS else ())


def _calls_of(text: str) -> CallForm | None:
    wrappers = [mark for mark in WRAPPERS[:-1] if mark in text]
    if "tools" not in text or any(mark in text for mark in _UNREAD) or len(wrappers) > 1:
        return None
    marked = next((mark for mark in FORMS if mark not in _AMBIGUOUS and mark in text), "")
    lfm = CallForm(*_LFM, "enclosed")
    elements = "<function=" in text
    wrapper = wrappers[0] if wrappers else ""
    found = (
        ("[TOOL_CALLS]" in text, CallForm("[TOOL_CALLS]", short_ids="length 9" in text)),
        ("<arg_key>" in text, CallForm("<tool_call>")),
        (marked == lfm.begin, lfm),
        (marked, CallForm(marked, text_arguments=_JOINED.search(text) is not None)),
        ("<|tool_call|>" in text, CallForm("<|tool_call|>")),
        (wrapper, CallForm(wrapper, f"</{wrapper[1:]}", "elements" if elements else "object")),
        (any(words in text for words in _OF_LFM), lfm),
        (_PYTHON in text, CallForm(body="python")),
        (any(words in text for words in _LLAMA), CallForm("<function=" if elements else "<|python_tag|>")),
    )
    return next((form for holds, form in found if holds), None)
