"""The questions of a comparison, from a JSON Lines file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stretto.foundation.arguments import reason
from stretto.language.counting import points_in
from stretto.language.telling import language_of
from stretto.strategies.structured.bare_json import read_json
from stretto.values.errors import InvalidRequestError

MOST = 10_000  # questions per file


class Question(BaseModel):
    """A question for both sides.

    Attributes:
        question: its text.
        id: unique name in the report; by default ``q1``, ``q2`` and so on.
        points: number of points of a good answer; by default the number in the question, if any.
        language: ISO 639-1 code of the answer's language; by default that of the question.
        documents: files that belong to the question, relative to the file of questions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(min_length=1)
    id: str = ""
    points: int | None = Field(default=None, ge=1, le=100)
    language: str = ""
    documents: tuple[Path, ...] = ()

    @property
    def points_wanted(self) -> int | None:
        """The number of points of a good answer, if known."""
        return self.points if self.points is not None else points_in(self.question).asked

    @property
    def language_wanted(self) -> str:
        """The language expected of the answer."""
        return self.language or language_of(self.question)


Asked = TypeVar("Asked", bound=Question)


@overload
def questions_in(file: str | Path) -> tuple[Question, ...]: ...
@overload
def questions_in(file: str | Path, kind: type[Asked]) -> tuple[Asked, ...]: ...
def questions_in(file: str | Path, kind: type[Any] = Question) -> tuple[Any, ...]:
    """Read the questions of a JSON Lines file: a string or an object with ``question`` on each line.

    ``kind`` defines which further fields an object can have. Raises `InvalidRequestError`, which names the line.
    """
    path = Path(file).expanduser()
    return named([_question(line, where, path.parent, kind) for line, where in lines_of(text_in(path), path)], kind)


def text_in(path: Path) -> str:
    """Return the text of a file of questions. Raises `InvalidRequestError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequestError(f"The questions {str(path)!r} cannot be read: {why}.") from None


def lines_of(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the non-blank lines, each with its location."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield line, f"line {number} of {str(path)!r}"


@overload
def named(questions: Iterable[Question | str]) -> tuple[Question, ...]: ...
@overload
def named(questions: Iterable[Asked | str], kind: type[Asked]) -> tuple[Asked, ...]: ...
def named(questions: Iterable[Any], kind: type[Any] = Question) -> tuple[Any, ...]:
    """Return the questions with an id each. Raises `InvalidRequestError` without questions or for duplicate ids."""
    every = [_checked(each, f"question {number}", kind) for number, each in enumerate(questions, 1)]
    if not every or len(every) > MOST:
        raise InvalidRequestError(f"1 to {MOST:,} questions can be asked at a time, and {len(every):,} were given.")
    with_names = [
        each if each.id else each.model_copy(update={"id": f"q{number}"}) for number, each in enumerate(every, 1)
    ]
    seen: set[str] = set()
    for each in with_names:
        if each.id in seen:
            raise InvalidRequestError(f"Two questions have the id {each.id!r}. Give each its own, or none.")
        seen.add(each.id)
    return tuple(with_names)


def _question(line: str, where: str, folder: Path, kind: type[Asked]) -> Asked:
    try:
        row = read_json(line)
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"{where} is no JSON. Write a string, or an object with 'question'.") from None
    found = _checked(row, where, kind)
    return found.model_copy(update={"documents": tuple(folder / each for each in found.documents)})


def _checked(row: object, where: str, kind: type[Asked]) -> Asked:
    try:
        return kind.model_validate({"question": row} if isinstance(row, str) else row)
    except ValidationError as error:
        raise refused(error, where) from None


def refused(error: ValidationError, where: str) -> InvalidRequestError:
    """Return an error for an invalid question, with its location and field."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"]) or "the whole line"
    return InvalidRequestError(f"{where}: {name}: {reason(dict(problem))}.")
