"""What an answer about documents rests on: evidence, the record of each passage, and citations."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Evidence(BaseModel):
    """A quotation that stands in a document, letter by letter.

    Attributes:
        document: index into ``Request.documents``.
        start: offset of its first character in ``Document.text``.
        end: offset behind its last character.
        quote: ``text[start:end]``.
    """

    model_config = ConfigDict(frozen=True)

    document: int
    start: int
    end: int
    quote: str


class PassageRecord(BaseModel):
    """What reading one passage gave.

    Attributes:
        document: index into ``Request.documents``.
        start: offset of the passage's first character.
        end: offset behind its last character.
        status: ``read``; ``failed``, when it could not be read; ``skipped``, when a search found it irrelevant.
        informative: whether it holds something for the question.
        evidence: quotations from the passage, in its order.
        rationale: why they matter.
        answer: what the passage alone says to the question.
        confidence: 0 to 5.
        unfounded: quotations the model gave that do not stand in the passage; they were dropped.
        cut_off: its record ended at its length, so there may be more in the passage.
        error: why it failed.
    """

    model_config = ConfigDict(frozen=True)

    document: int
    start: int
    end: int
    status: Literal["read", "failed", "skipped"] = "read"
    informative: bool = False
    evidence: tuple[Evidence, ...] = ()
    rationale: str = ""
    answer: str = ""
    confidence: int = 0
    unfounded: int = 0
    cut_off: bool = False
    error: str = ""


class Citation(BaseModel):
    """A place in a document that the answer names.

    Attributes:
        number: under which the model was shown the place, and by which it named it: the text of the answer's branch
            holds ``[cite:3]`` (``[3]`` from the pocket model) where the answer holds the label. In a list of everything
            of a kind, the place in that list.
        label: as it stands in the answer: ``[title, p. 12]`` or ``[title, chars 100-250]``.
        title: of the document.
        source: the file or address of the document.
        document: index into ``Request.documents``.
        start: offset of the passage that is cited.
        end: offset behind it.
        quote: its text.
        page: the page it begins on, counted from 1; ``None`` where the format has no pages.
        heading: the nearest heading at or above it; empty where there is none.
        field: the field of a record that rests on it, as ``lines[2].price``; empty elsewhere.
    """

    model_config = ConfigDict(frozen=True)

    number: int = 0
    label: str
    title: str
    source: str
    document: int
    start: int
    end: int
    quote: str
    page: int | None = None
    heading: str = ""
