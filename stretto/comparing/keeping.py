"""Files with the finished work of a run over many questions, from which an interrupted run continues.

The first line identifies such a file. No other file is read as one or overwritten.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from stretto.comparing.comparison_questions import Question
from stretto.comparing.pairwise_judging import JudgeVerdict
from stretto.comparing.question_sampling import Sample
from stretto.strategies.structured.bare_json import read_json
from stretto.values.errors import InvalidRequestError

FORM = 2  # version of the file format
ENDING = ".kept.jsonl"
"""Suffix of the file next to a report."""
AnySample = TypeVar("AnySample", bound=Sample)


class Kept(Generic[AnySample]):
    """Samples and verdicts by question, each written to the file at once.

    Args:
        file: JSON Lines; ``None`` keeps nothing.
        described: a description of the run. A file of a different run is rejected.
        kind: class of the samples.
        run: name of the run.

    Raises `InvalidRequestError`.
    """

    def __init__(
        self, file: str | Path | None, described: dict[str, Any], kind: type[AnySample], run: str = "comparison"
    ) -> None:
        self._file = None if file is None else Path(file).expanduser()
        self._kind, self._run = kind, run
        self.samples: dict[tuple[str, str], AnySample] = {}
        self.verdicts: dict[str, JudgeVerdict] = {}
        self._head = {"form": FORM, **described}
        if self._file is None:
            return
        if self._file.exists():
            self._read(self._file)
        else:
            self._write(self._head)

    def add_sample(self, question: Question, side: str, sample: AnySample) -> None:
        """Store a side's answer to a question."""
        self.samples[question.id, side] = sample
        self._write({"question": question.id, "side": side, "sample": sample.model_dump(mode="json")})

    def add_verdict(self, key: str, verdict: JudgeVerdict) -> None:
        """Store a judge's verdict; the key is the question's id, or begins with it."""
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
        torn = lines.pop()  # empty, unless the program was interrupted in the middle of a line
        if not lines and json.dumps(self._head, ensure_ascii=False).startswith(torn):
            file.write_text("", encoding="utf-8")
            self._write(self._head)
            return
        head = _read_row(lines[0]) if lines else {}
        if head != self._head:
            other = f"another {self._run}: other questions, models, options or seeds"
            raise InvalidRequestError(
                f"{str(file)!r} holds {other if 'form' in head else 'other things'}. Name another file for this one."
            )
        for number, line in enumerate(lines[1:], 2):
            try:
                self._take(_read_row(line))
            except (KeyError, ValidationError):
                raise InvalidRequestError(
                    f"Line {number} of {str(file)!r}, in which the {self._run} is kept, is damaged. Delete the line."
                ) from None
        if torn:
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _take(self, row: dict[str, Any]) -> None:
        if "verdict" in row:
            self.verdicts[row["question"]] = JudgeVerdict.model_validate(row["verdict"])
        else:
            self.samples[row["question"], row["side"]] = self._kind.model_validate(row["sample"])


def _read_row(line: str) -> dict[str, Any]:
    """Return the object on a line; an empty one if there is none."""
    try:
        row = read_json(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}
