"""Messages and documents, and how they are read from what callers hold: strings, mappings, paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator

from stretto.arguments import shown
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


class Document(BaseModel):
    """A text to read for the answer.

    Attributes:
        text: the whole text.
        title: what the model is told it is called; without one, it is called by its number.

    >>> Document(text="The saddle is called Bob.", title="names.txt")
    Document(text='The saddle is called Bob.', title='names.txt')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[str, AfterValidator(mend)]
    title: Annotated[str, AfterValidator(mend)] = ""

    @classmethod
    def read(cls, path: Path | str) -> Document:
        """Read a UTF-8 text file; its name becomes the title. Raises `InvalidRequestError`."""
        file = Path(path).expanduser()
        what = f"The document {str(path)!r}"
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InvalidRequestError(f"{what} cannot be read: {error.strerror}.") from None
        return cls(text=decoded(content, what), title=file.name)


def decoded(content: bytes, what: str) -> str:
    """UTF-8 text without its byte order mark. Raises `InvalidRequestError` with ``what`` as its subject."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{what} is not UTF-8 text (byte {error.start}). Convert it to text first.") from None
    if "\0" in text:
        raise InvalidRequestError(f"{what} is a binary file (it holds null bytes). Convert it to text first.")
    return text


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


def documents_of(documents: Document | Path | str | Sequence[Document | Path | str]) -> tuple[Document, ...]:
    """Read documents: a string is the text of one, a path a text file. Raises `InvalidRequestError`."""
    if isinstance(documents, str | Path | Document):
        return (_document(documents),)
    if not isinstance(documents, Sequence) or isinstance(documents, bytes | bytearray):
        raise InvalidRequestError(
            f"documents= takes a string, a Path, a Document or a list of these, not {type(documents).__name__}."
        )
    return tuple(map(_document, documents))


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


def _document(document: Any) -> Document:
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        return Document(text=document)
    if isinstance(document, Path):
        return Document.read(document)
    raise InvalidRequestError(
        f"A document is a string with its text, a Path or a Document, not {type(document).__name__}."
    )


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
