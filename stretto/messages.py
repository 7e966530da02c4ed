"""Messages and documents, and how they are read from what callers hold: strings, mappings, paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator

from stretto.arguments import shown
from stretto.document import Document
from stretto.errors import InvalidRequestError
from stretto.surrogates import mend

Role = Literal["system", "user", "assistant"]


class Message(BaseModel):
    """One turn of a conversation.

    OpenAI's form is read too: the role ``developer`` becomes ``system``, and ``content`` may be a list of parts of
    the type ``text``, which are joined by newlines. Parts of other types (images, audio, files) raise
    `InvalidRequestError`.

    Attributes:
        role: who speaks.
        content: what is said.
        name: tells speakers of one role apart. Servers that speak OpenAI's protocol are sent it; for other models the
            answer warns that it was left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: Annotated[str, AfterValidator(mend)]
    name: str | None = None

    @field_validator("role", mode="before")
    @classmethod
    def _developer_is_system(cls, role: Any) -> Any:
        return "system" if role == "developer" else role

    @field_validator("content", mode="before")
    @classmethod
    def _joined_parts(cls, content: Any) -> Any:
        return "\n".join(map(_text_of_part, content)) if isinstance(content, list | tuple) else content


def messages_of(
    prompt: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any] | str],
) -> tuple[Message, ...]:
    """Read a prompt: a string is one user message; a message, or a mapping like one, is a conversation of one turn."""
    if isinstance(prompt, str | Message | Mapping):
        return (_message(prompt),)
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        raise InvalidRequestError(
            f"A prompt is a string or a list of messages, not {type(prompt).__name__}. Pass the text of the question."
        )
    return tuple(map(_message, prompt))


def documents_of(
    documents: Document | Path | str | Sequence[Document | Path | str],
) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    """Read documents: a string is the text of one, a path a file or a folder of files.

    Returns the documents, and a note on each file of a folder that could not be read. Raises `InvalidRequestError`.
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
            from stretto.documents import read_documents  # noqa: PLC0415 - strings need no readers

            found = read_documents([document])
            read += found.documents
            notes += (f"{str(left.path)!r} was left out: {left.cause}." for left in found.left_out)
        elif isinstance(document, str | Document):
            read.append(Document(text=document) if isinstance(document, str) else document)
        else:
            raise InvalidRequestError(
                f"A document is a string with its text, a Path or a Document, not {type(document).__name__}."
            )
    return tuple(read), tuple(notes)


def _message(turn: Any) -> Message:
    if isinstance(turn, Message):
        return turn
    if isinstance(turn, str):
        return Message(role="user", content=turn)
    if not isinstance(turn, Mapping):
        raise InvalidRequestError(
            f"A message is a string, a Message or a mapping with role and content, not {type(turn).__name__}."
        )
    return Message(**turn)


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        raise InvalidRequestError(
            f"A message has a part of type {shown(kind)}, and only parts of type 'text' can be read. "
            "Leave it out, or describe it in words."
        )
    return text
