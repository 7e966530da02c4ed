"""Messages and documents, and how they are read from what callers pass: strings, mappings, paths."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from stretto.foundation.arguments import looks_like_key
from stretto.foundation.surrogates import fix_surrogates
from stretto.foundation.validation import CheckedModel
from stretto.values.content import is_plain, mended, split_results, text_of, without_calls
from stretto.values.document import Document
from stretto.values.errors import InvalidRequestError
from stretto.values.tool_calls import ANTHROPIC_THOUGHTS, is_listed, reasoning_of

if TYPE_CHECKING:
    from stretto.documents.limits import ReadingTime

Role = Literal["system", "user", "assistant", "tool"]

_ROLES = frozenset(get_args(Role))
_PLAIN = {"role", "content"}
_OTHER_NAMES = {"developer": "system", "function": "tool"}
_FILE_NAME = re.compile(r"\S{1,200}\.(pdf|docx|txt|md|html?)", re.IGNORECASE)


def _is_plain(turn: Any) -> bool:
    """Return whether a turn is just a role and a text, so it needs no conversion: most turns of long conversations."""
    return type(turn) is dict and turn.keys() == _PLAIN and type(turn["role"]) is type(turn["content"]) is str


class Message(CheckedModel):
    """One turn of a conversation.

    The formats of OpenAI and Anthropic are accepted. The role ``developer`` becomes ``system``, and ``function``
    becomes ``tool``. ``content`` can be a list of parts; Anthropic's images, documents and tool calls are converted to
    OpenAI's format.

    Attributes:
        role: who speaks; ``tool`` is the result of a tool call.
        content: the text; for a list of parts, their texts, joined by newlines.
        name: distinguishes speakers of the same role. It is sent to servers with OpenAI's protocol; for other models,
            the answer warns that it was left out.
        parts: the content part by part, in OpenAI's form, if it contains anything but plain text.
        tool_calls: the calls that an assistant asked for, in OpenAI's form.
        tool_call_id: the call whose result this is.
        extra: other fields of the message; passed through unchanged.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: Annotated[str, AfterValidator(fix_surrogates)] = ""
    name: str | None = None
    parts: tuple[Mapping[str, Any], ...] = ()
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str | None = None
    extra: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if _is_plain(values) and values["role"] in _ROLES:
            return values
        read = {name: value for name, value in values.items() if value is not None}
        read["role"] = _OTHER_NAMES.get(values["role"], values["role"]) if isinstance(values.get("role"), str) else None
        if isinstance(content := read.get("content"), list | tuple):
            parts, calls = without_calls(content)
            read["content"] = text_of(parts)
            if calls:  # LangChain's messages have them in both places
                known = [*(read.get("tool_calls") or ())]
                there = {call.get("id") for call in known}
                read["tool_calls"] = [*known, *(call for call in calls if call["id"] not in there)]
            if not all(map(is_plain, parts)):
                read["parts"] = parts
        for name in ("parts", "tool_calls", "extra"):
            if name in read:
                read[name] = mended(read[name])
        return read

    @model_validator(mode="after")
    def _says_something(self) -> Message:
        if "content" not in self.model_fields_set and not (self.parts or self.tool_calls or self.role == "tool"):
            if self.role == "assistant" and self.extra:  # a refusal or audio, for which OpenAI has special fields
                return self
            names = sorted({*self.model_fields_set, *self.extra} - {"role", "extra"})
            given = ", ".join("[hidden]" if looks_like_key(name) else name for name in names)
            raise InvalidRequestError(
                f"A message of the {self.role} has no content{f' (it has {given})' if given else ''}. Give it a text."
            )
        return self

    def as_openai(self) -> dict[str, Any]:
        """Return the message in the format of OpenAI's protocol."""
        role = "function" if self.role == "tool" and self.tool_call_id is None and self.name else self.role
        parts = [part for part in self.parts if part.get("type") not in ANTHROPIC_THOUGHTS or is_listed(part)]
        content: Any = parts or self.content
        unsigned = [
            each
            for each in self.parts
            if each.get("type") == "thinking" and not (each.get("signature") or is_listed(each))
        ]
        thought = "".join(reasoning_of(each)[1] for each in unsigned)  # they came from a server that uses this field
        silent = not content and self.role == "assistant" and (self.tool_calls or self.extra)
        return {
            "role": role,
            "content": None if silent else content,
            **({} if self.name is None else {"name": self.name}),
            **({"tool_calls": list(self.tool_calls)} if self.tool_calls else {}),
            **({} if self.tool_call_id is None else {"tool_call_id": self.tool_call_id}),
            **({"reasoning_content": thought} if thought else {}),
            **{name: value for name, value in self.extra.items() if name != "is_error"},  # which is Anthropic's
        }

    @property
    def media(self) -> tuple[str, ...]:
        """The types of the parts that are not text: "image_url", "input_audio", "file" and others."""
        if not self.parts:
            return ()
        kinds = (str(part.get("type")) for part in self.parts)
        return tuple(dict.fromkeys(kind for kind in kinds if kind not in ("text", *ANTHROPIC_THOUGHTS)))


_FIELDS = frozenset(Message.model_fields)


def messages_of(
    prompt: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any] | str],
) -> tuple[Message, ...]:
    """Read a prompt: a string is one user message; a message, or an equivalent mapping, is a conversation of one turn.

    Fields of a mapping that `Message` does not have go into ``extra``. Raises `InvalidRequestError`.
    """
    if isinstance(prompt, str | Message | Mapping):
        return _turns(prompt)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        raise InvalidRequestError(
            f"A prompt is a string or a list of messages, not {type(prompt).__name__}. Pass the text of the question."
        )
    return tuple(message for turn in prompt for message in _turns(turn))


def documents_of(
    documents: Document | Path | str | Sequence[Document | Path | str],
    allowance: ReadingTime | None = None,
    deadline_s: Any = None,
) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    """Read documents: a string is the text of one, a path a file or a folder of files, within ``allowance``.

    Without an allowance, reading can take until ``deadline_s``, if that is a valid deadline.

    Returns the documents, and a note on each file of a folder that could not be read and on each string that looks like
    a file name, which is not searched for. Raises `InvalidRequestError` or `DeadlineExceededError`.
    """
    if isinstance(documents, str | Path | Document):
        documents = (documents,)
    if not isinstance(documents, Sequence) or isinstance(documents, bytes | bytearray):
        raise InvalidRequestError(
            f"documents= takes a string, a Path, a Document or a list of these, not {type(documents).__name__}."
        )
    read: list[Document] = []
    notes: list[str] = []
    for document in documents:
        if isinstance(document, Path):
            from stretto.documents import ReadingTime, read_documents  # noqa: PLC0415 - strings need no readers

            if allowance is None:
                known = isinstance(deadline_s, int | float) and deadline_s > 0  # otherwise it is rejected later
                allowance = ReadingTime(deadline_s=deadline_s if known else None)
            found = read_documents([document], allowance=allowance)
            read += found.documents
            notes += (f"{str(left.path)!r} was left out: {left.reason}." for left in found.left_out)
        elif isinstance(document, str | Document):
            if isinstance(document, str) and _FILE_NAME.fullmatch(document):
                notes.append(f"The document {document!r} is this text itself. A file is a path: Path({document!r}).")
            read.append(Document(text=document) if isinstance(document, str) else document)
        else:
            raise InvalidRequestError(
                f"A document is a string with its text, a Path or a Document, not {type(document).__name__}."
            )
    return tuple(read), tuple(notes)


def _turns(turn: Any) -> tuple[Message, ...]:
    """Return the messages of a turn: usually one, but Anthropic's turns can also contain tool results."""
    if isinstance(turn, Message):
        return (turn,)
    if _is_plain(turn):
        return (Message.model_validate(turn),)
    if isinstance(turn, str):
        return (Message(role="user", content=turn),)
    if not isinstance(turn, Mapping):
        raise InvalidRequestError(
            f"A message is a string, a Message or a mapping with role and content, not {type(turn).__name__}."
            + (" Of an answer, pass its turn: answer.turn." if hasattr(turn, "turn") else "")
        )
    return tuple(map(_message, split_results(turn)))


def _message(turn: Mapping[str, Any]) -> Message:
    fields = {name: value for name, value in turn.items() if name in _FIELDS}
    others = {name: value for name, value in turn.items() if name not in _FIELDS and value is not None}
    if others:
        fields["extra"] = {**(fields.get("extra") or {}), **others}
    return Message.model_validate(fields)
