"""The state of a chat for its next question: client, options, documents, and the turns so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.cli.chat.chat_file import ChatFile, Saved, Turn, fresh_name, now
from stretto.cli.options import Preference
from stretto.cli.output.live import notice_of
from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import counted
from stretto.cli.record import schema_in
from stretto.strategies.runtime.assembly import check_strategy
from stretto.values.errors import InvalidRequestError, StrettoError
from stretto.values.messages import Message, documents_of

if TYPE_CHECKING:
    from stretto.cli.command_client import Opener
    from stretto.client.async_client import AsyncStretto
    from stretto.values.answer import Answer
    from stretto.values.document import Document


class ChatState:
    """The state of a chat, independent of its display.

    The model sees complete answers and the text of stopped ones; questions without an answer are skipped.

    Args:
        open_client: creates clients, as `AsyncStretto` does.
        model: like the following arguments, an option of ``stretto chat``.
        chat: the file for the turns, if any; its existing turns are continued.
        begin: creates the file of a new chat when this one is cleared.

    Attributes:
        client: writes the answers.
        fresh: whether the client has not answered yet, so a local model has to be loaded.
        turns: the turns of the conversation.
        system: instructions for the model.
        schema: the file with the JSON schema for answers.
        notices: messages for the beginning, and whether each is a warning.
        unkept: why the last turn could not be written to the file; empty if it was.
    """

    def __init__(
        self,
        open_client: Opener,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        strategy: str | None = None,
        preference: str | None = None,
        system: str | None = None,
        documents: Sequence[Path] = (),
        schema: Path | None = None,
        decoding: str | None = None,
        on_missing: str | None = None,
        chat: ChatFile | None = None,
        begin: Callable[[], ChatFile] | None = None,
    ) -> None:
        if strategy:
            check_strategy(strategy)
        self._request: dict[str, Any] = {
            "strategy": strategy,
            "preference": preference,
            "decoding": decoding,
            "on_missing": on_missing,
        }
        self.schema: Path | None = None
        if schema is not None:
            self._take_schema(schema, "--schema")
        self._open = open_client
        self._server = {"base_url": base_url, "api_key": api_key}
        saved = chat.read() if chat is not None and chat.exists else None
        self.chat, self._begin = chat, begin
        self.turns: list[Turn] = list(saved.conversation) if saved else []
        self.system = system or (saved.system if saved else None)
        self.notices: list[tuple[str, bool]] = []
        self.unkept = ""
        self._read: dict[Path, tuple[Document, ...]] = {}
        self.client: AsyncStretto = open_client(model, **self._server)
        self._provider = self.client.backends["main"].name.partition(":")[0]
        self.fresh = True
        notice, warns = notice_of(self.client, named=model is not None)
        self.notices += [(notice, warns)] if notice else []
        self.notices += self.add_documents(*documents)
        self._again(saved or Saved())
        self.notices += [(self._schema_text, False)] if self.schema else []
        self._written = replace(saved, turns=()) if saved else Saved()
        if saved and saved.model and saved.model != self.name:
            self.notices.append(
                (f"{one_line(saved.model)} wrote this chat so far. {one_line(self.name)} continues it.", True)
            )

    def _again(self, saved: Saved) -> None:
        """Reload the documents and settings of a saved chat, as far as they still exist."""
        if saved.schema and self.schema is None:
            try:
                self._take_schema(Path(saved.schema), "/schema")
            except StrettoError as error:
                self.notices.append((f"The schema of this chat is not used any more: {error}", True))
        for named in saved.documents:
            if Path(named) not in self._read:
                try:
                    self.notices += self.add_documents(Path(named))
                except StrettoError as error:
                    self.notices.append((f"A document of this chat cannot be read again: {error}", True))

    @property
    def name(self) -> str:
        """The name of the model, ``provider:model``."""
        return self.client.backends["main"].name

    @property
    def strategy(self) -> str:
        """The strategy for the next answers."""
        return self._request["strategy"] or "auto"

    @property
    def request(self) -> dict[str, Any]:
        """The arguments of the next question."""
        documents = [document for read in self._read.values() for document in read]
        given: Mapping[str, Any] = {**self._request, "documents": documents or None}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def documents(self) -> Sequence[Path]:
        """The paths read for every question, as given."""
        return tuple(self._read)

    def prompt(self) -> tuple[Message, ...]:
        """Return the conversation up to and including the last question."""
        messages = [Message(role="system", content=self.system)] if self.system else []
        for turn in self.turns[:-1]:
            if turn.text:
                messages += [Message(role="user", content=turn.question), Message(role="assistant", content=turn.text)]
        return (*messages, Message(role="user", content=self.turns[-1].question))

    def ask(self, question: str, *, instead: bool = False) -> None:
        """Add a question as the next turn, or ``instead`` of the last one."""
        if instead and self.turns:
            self.turns.pop()
        before = self.turns[-1].id if self.turns else None
        turn = Turn(fresh_name(), question, before, now())
        self.turns.append(turn)
        schema = str(self.schema) if self.schema else None
        settings = Saved(documents=tuple(map(str, self._read)), system=self.system, schema=schema)

        def write(chat: ChatFile) -> None:
            chat.asked(turn)
            if settings != self._written:
                chat.set(settings)
                self._written = settings

        self._keep(write)

    def answered(self, answer: Answer) -> None:
        """Record the complete answer to the last question."""
        self.fresh = False
        turn = self.turns[-1] = replace(self.turns[-1], text=answer.text, answer=answer.model_dump(mode="json"))
        self._keep(lambda chat: chat.answered(turn, answer))

    def stopped(self, text: str, ending: str) -> None:
        """Record a partial answer and how it ended."""
        turn = self.turns[-1] = replace(self.turns[-1], text=text, stopped=ending)
        self._keep(lambda chat: chat.stopped(turn))

    def forget(self) -> None:
        """Begin a new chat; the file of this one is kept."""
        self.turns.clear()
        self._written = Saved()
        self.chat = self._begin() if self._begin else None

    def _keep(self, write: Callable[[ChatFile], None]) -> None:
        """Write to the file. A failure does not affect the answer."""
        self.unkept = ""
        if self.chat is not None:
            try:
                write(self.chat)
            except StrettoError as error:
                self.unkept = str(error)

    def last(self) -> Turn:
        """Return the last turn. Raises `InvalidRequestError` if there is none."""
        if not self.turns:
            raise InvalidRequestError("There is no question yet. Ask something first.")
        return self.turns[-1]

    def set_strategy(self, name: str) -> str:
        """Set the strategy; without a name, return the current one."""
        if name:
            check_strategy(name)
            self._request["strategy"] = name
        return f"strategy: {self.strategy}"

    def set_preference(self, name: str) -> str:
        """Set the preference between speed and care; without a name, return the current one."""
        if name and name not in list(Preference):
            raise InvalidRequestError(f"There is no preference {name!r}. Choose one of: {', '.join(Preference)}.")
        if name:
            self._request["preference"] = name
        return f"preference: {self._request['preference'] or self.client.settings.preference}"

    def set_system(self, text: str) -> str:
        """Set the system prompt; without text, remove it."""
        self.system = text or None
        return "system: " + (one_line(text) if text else "none")

    def set_schema(self, file: str) -> str:
        """Set the file with the JSON schema for answers, ``-`` for none; without a file, return the current one."""
        if file == "-":
            self.schema = self._request["response_format"] = None
        elif file:
            self._take_schema(Path(file), "/schema")
        return self._schema_text

    @property
    def _schema_text(self) -> str:
        return "schema: " + (one_line(str(self.schema)) if self.schema else "none")

    def _take_schema(self, file: Path, named: str) -> None:
        with suppress(RuntimeError):  # no such user: it is a file name, then
            file = file.expanduser()
        self._request["response_format"] = schema_in(file, named)
        self.schema = file.absolute()

    async def set_model(self, name: str) -> Sequence[tuple[str, bool]]:
        """Continue with another model; without a name, return the current one."""
        messages: list[tuple[str, bool]] = []
        if name:
            client = self._open(name, **(self._server if name.partition(":")[0] == self._provider else {}))
            former, self.client, self.fresh = self.client, client, True
            await former.aclose()
            notice = notice_of(client, named=True)
            messages += [notice] if notice[0] else []
        return [*messages, (f"model: {one_line(self.name)}", False)]

    def add_documents(self, *paths: Path) -> Sequence[tuple[str, bool]]:
        """Read files for all further questions. Return messages about them. Raises `StrettoError`."""
        messages: list[tuple[str, bool]] = []
        for path in paths:
            whole = path.expanduser().absolute()
            read, left_out = documents_of([whole])
            self._read[whole] = read
            messages += [(note, True) for note in left_out]
        if all_read := [document for read in self._read.values() for document in read]:
            size = sum(len(document.text) for document in all_read)
            verb = "is" if len(all_read) == 1 else "are"
            messages.append(
                (f"{counted(len(all_read), 'document')} of {size:,} characters {verb} read for every question", False)
            )
        return messages if paths else ()

    def remove_documents(self) -> None:
        """Stop reading documents."""
        self._read.clear()
