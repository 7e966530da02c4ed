"""What a run over many questions has so far, in a file: one that was interrupted goes on where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from stretto.comparing.judging import Verdict
from stretto.comparing.questions import Question
from stretto.comparing.sampling import Sample
from stretto.errors import InvalidRequestError

FORM = 1  # of the file
AnySample = TypeVar("AnySample", bound=Sample)


class Kept(Generic[AnySample]):
    """Samples and verdicts by question, each written to the file as soon as it is there.

    Args:
        file: JSON Lines; ``None`` keeps nothing.
        described: what is asked of whom. A file of another run is refused.
        kind: of the samples.
        run: what the run is called.

    Raises `InvalidRequestError`.
    """

    def __init__(
        self, file: str | Path | None, described: dict[str, Any], kind: type[AnySample], run: str = "comparison"
    ) -> None:
        self._file = None if file is None else Path(file).expanduser()
        self._kind, self._run = kind, run
        self.samples: dict[tuple[str, str], AnySample] = {}
        self.verdicts: dict[str, Verdict] = {}
        self._head = {"form": FORM, **described}
        if self._file is None:
            return
        if self._file.exists():
            self._read(self._file)
        else:
            self._write(self._head)

    def add_sample(self, question: Question, side: str, sample: AnySample) -> None:
        """Keep what a side gave for a question."""
        self.samples[question.id, side] = sample
        self._write({"question": question.id, "side": side, "sample": sample.model_dump(mode="json")})

    def add_verdict(self, key: str, verdict: Verdict) -> None:
        """Keep what the judge prefers; the key is the question's id, or begins with it."""
        self.verdicts[key] = verdict
        self._write({"question": key, "verdict": verdict.model_dump(mode="json")})

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError as error:
            raise InvalidRequestError(f"{str(self._file)!r} cannot be written: {error.strerror}.") from None

    def _read(self, file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InvalidRequestError(f"{str(file)!r} cannot be read: {why}.") from None
        lines = text.split("\n")
        torn = lines.pop()  # empty, unless the program ended in the middle of a line
        rows = [self._row(line, number, file) for number, line in enumerate(lines, 1)]
        if not rows or rows[0] != self._head:
            raise InvalidRequestError(
                f"{str(file)!r} holds another {self._run}: other questions, models, options or seeds. "
                "Name another file, or delete this one."
            )
        for number, row in enumerate(rows[1:], 2):
            try:
                self._take(row)
            except (KeyError, ValidationError):
                raise InvalidRequestError(f"Line {number} of {str(file)!r} is damaged. Delete the line.") from None
        if torn:
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _row(self, line: str, number: int, file: Path) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InvalidRequestError(f"Line {number} of {str(file)!r} is damaged. Delete the line.")
        return row

    def _take(self, row: dict[str, Any]) -> None:
        if "verdict" in row:
            self.verdicts[row["question"]] = Verdict.model_validate(row["verdict"])
        else:
            self.samples[row["question"], row["side"]] = self._kind.model_validate(row["sample"])
