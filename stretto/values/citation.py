"""The sources of an answer about documents: evidence, the record of each passage, and citations."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Evidence(BaseModel):
    """A verbatim quotation from a document.

    Attributes:
        document: index into ``Request.documents``.
        start: offset of its first character in ``Document.text``.
        end: offset after its last character.
        quote: ``text[start:end]``.
    """

    model_config = ConfigDict(frozen=True)

    document: int
    start: int
    end: int
    quote: str


class PassageRecord(BaseModel):
    """The result of reading one passage.

    Attributes:
        document: index into ``Request.documents``.
        start: offset of the passage's first character.
        end: offset after its last character.
        status: ``read``; ``failed``, if it could not be read; ``skipped``, if a search found it irrelevant.
        informative: whether it contains something relevant to the question.
        evidence: quotations from the passage, in its order.
        rationale: why they matter.
        answer: what the passage alone says about the question.
        confidence: 0 to 5.
        unfounded: quotations by the model that are not in the passage; they were dropped.
        cut_off: whether its record hit the length limit, so there may be more in the passage.
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
    """A place in a document that the answer cites.

    Attributes:
        number: the number by which the model knows the place: the text of the answer's branch has ``[cite:3]`` (``[3]``
            from the pocket model) where the answer has the label. In a list of everything of a kind, the position in
            that list.
        label: as it appears in the answer: ``[title, p. 12]`` or ``[title, chars 100-250]``.
        title: title of the document.
        source: the file or URL of the document.
        document: index into ``Request.documents``.
        start: offset of the cited passage.
        end: offset after it.
        quote: its text.
        page: the page on which it begins, from 1; ``None`` if the format has no pages.
        heading: the nearest heading at or above it; empty if there is none.
        field: the field of a record that is based on it, such as ``lines[2].price``; otherwise empty.
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
