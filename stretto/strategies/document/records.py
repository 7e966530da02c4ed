"""Records of passages: the schema that constrains them, and a lenient parser for what models write."""

from __future__ import annotations

import re
from typing import Any

import jiter

from stretto.language.telling import languages
from stretto.strategies.document.bearing import quotable, statements
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.quoting import plain
from stretto.values.citation import Evidence, PassageRecord

_HIGHEST = 5
_LONGEST = 4_000  # characters of one field
_MOST_EVIDENCE = 400
_FIELD = re.compile(
    r"^\W{0,4}(evidence|rationale|answer|confidence|no.information|notes)\W{0,4}:\s*(.*)$", re.IGNORECASE | re.MULTILINE
)


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_FIELDS = frozenset({"evidence", "rationale", "answer", "confidence", "notes", "no_information"})
_STRINGS = {"type": "array", "items": {"type": "string"}}
_NOTHING = {"no_information": {"type": "boolean"}}
_ANSWER: dict[str, Any] = {"answer": {"type": "string"}, "confidence": {"type": "integer"}}
_MAP = {"evidence": _STRINGS, "rationale": {"type": "string"}, **_ANSWER}


def _record(**fields: Any) -> dict[str, Any]:
    """Return a schema for a record with these fields or an empty one; strict servers require every field."""
    return _object(record={"anyOf": [_object(**_NOTHING), _object(**fields)]})


MAP_SCHEMA = _record(**_MAP)
"""The schema of the record of a passage, for backends that support schemas."""

TRAINED_SCHEMA = _object(**_MAP, **_NOTHING)
"""The same in the form that the pocket model was trained to write."""

NOTES_SCHEMA = _record(evidence=_STRINGS, notes={"type": "string"}, **_ANSWER)
"""The same for sequential reading, with notes for the next passage."""

COLLAPSE_SCHEMA = _object(
    keep={"type": "array", "items": {"type": "integer"}},
    answer={"type": "string"},
    confidence={"type": "integer"},
)
"""The schema of several records combined."""


def json_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object of a text, even if cut off, else its ``field: value`` lines, else ``None``."""
    start = text.find("{")
    if start >= 0:
        body = text[start:]
        for candidate in (body[: body.rfind("}") + 1], body):
            try:
                value = jiter.from_json(candidate.encode("utf-8", "replace"), partial_mode="trailing-strings")
            except ValueError:
                continue
            if isinstance(value, dict) and value:
                return value
    fields: dict[str, Any] = {}
    for name, value in _FIELD.findall(text):
        key = re.sub(r"\W", "_", name.lower())
        fields.setdefault(key, []).append(value.strip())
    if not fields:
        return None
    quotes = [quote.strip(" \"'“”") for quote in fields.pop("evidence", [])]
    return {"evidence": quotes} | {key: values[0] for key, values in fields.items()}


def record_in(text: str) -> dict[str, Any] | None:
    """Return the fields of the record in a text, with or without ``"record"`` around them; ``None`` if empty.

    ``"no_information": false`` alone counts as empty: it says nothing about the passage.
    """
    found = json_object(text)
    if found is not None and "record" in found:
        record = found.pop("record")
        if isinstance(record, list) and len(record) == 1:
            record = record[0]
        if isinstance(record, dict) and record:
            found = found | record
        elif not found.keys() & _FIELDS:
            return {"no_information": True} if record is None else None
    if found is not None and found.keys() == {"no_information"} and not is_uninformative(found):
        return None
    return found


def record_of(found: dict[str, Any], place: Place, reading: DocumentRun, *, cut_off: bool = False) -> PassageRecord:
    """Return the record of a passage, with only the quotations that occur in it.

    What a model says about a passage cannot be checked without a quotation, so a record without one counts as empty,
    unless it is a summary.
    """
    chunk, passage = place.chunk, reading.library.passage(place)
    evidence: dict[tuple[int, int], Evidence] = {}
    unfounded = 0
    # The longest first: a short quotation may occur within a longer one but mean another place.
    for quote in sorted(_strings(found.get("evidence")), key=len, reverse=True):
        at = passage.find(quote, evidence)
        if at is None:
            unfounded += 1
        elif at[0] < chunk.end and at[1] > chunk.start:  # else it belongs to the neighbour
            exact = passage.text[at[0] - passage.start : at[1] - passage.start]
            evidence[at] = Evidence(document=place.document, start=at[0], end=at[1], quote=exact)
    answer = _text(found.get("answer"))
    founded = bool(evidence) or (reading.task.kind == "summarise" and bool(answer))
    informative = founded and not is_uninformative(found)
    return PassageRecord(
        document=place.document,
        start=chunk.start,
        end=chunk.end,
        informative=informative,
        evidence=tuple(evidence[at] for at in sorted(evidence)) if informative else (),
        rationale=_text(found.get("rationale") or found.get("notes")) if informative else "",
        answer=answer if informative else "",
        confidence=_level(found.get("confidence")) if informative else 0,
        unfounded=unfounded,
        cut_off=cut_off,
    )


def is_uninformative(found: dict[str, Any]) -> bool:
    """Return whether the record says, in the field for it, that the passage contains nothing relevant."""
    value = found.get("no_information")
    return value.strip().lower() in {"true", "yes"} if isinstance(value, str) else value is True


def numbers(value: Any) -> list[int]:
    """Return the whole numbers in a list, ignoring anything else."""
    if not isinstance(value, list):
        return []
    found = (each if isinstance(each, int) else _number(each) for each in value[:_MOST_EVIDENCE])
    return [each for each in found if each is not None and not isinstance(each, bool)]


def _number(value: Any) -> int | None:
    digits = re.search(r"\d{1,9}", value) if isinstance(value, str) else None
    return int(digits[0]) if digits else None


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    found = [each.get("quote", each.get("text")) if isinstance(each, dict) else each for each in values]
    return [each for each in found[:_MOST_EVIDENCE] if isinstance(each, str) and each.strip()]


def _text(value: Any) -> str:
    return value[:_LONGEST].strip() if isinstance(value, str) else ""


def _level(value: Any) -> int:
    number = value if isinstance(value, int | float) else _number(value)
    try:
        return min(_HIGHEST, max(0, round(number))) if number is not None else 1
    except (OverflowError, ValueError):  # not a number, or infinite
        return 1


_SHORTEST = 8  # characters of a piece of a sentence
_MOST_OF = 0.8  # of the words of a sentence
_MOST_ADDED = 0.6  # of the words that a model's sentence adds to the question's
_WORD = re.compile(r"\w+")
_NONE = re.compile(
    r"\W*(?:none|nothing|no information|not mentioned|n/a|nichts|keine?|rien|aucune?|nada|ningun[oa]|niente|nessuno"
    r"|niets|geen|нет|无|没有|なし|없음)\W*",
    re.IGNORECASE,
)


def copied(text: str, place: Place, reading: DocumentRun) -> dict[str, Any] | None:
    """Return a record of the passage's sentences that a model copied, in lines, in quotation marks or bare.

    A small model sometimes changes a word or paraphrases part of a sentence. So text counts as a copy if it repeats
    most words of a sentence, or if most of what it adds to the question, and every figure, is from that sentence.
    ``None`` if it copied no sentence and does not say that there is nothing.
    """
    if _NONE.fullmatch(text[:80]):
        return {"no_information": True}
    quoted = re.findall(r'"([^"]{1,1000})"', plain(text))
    bare_text = _bare(text)
    pieces = [piece for each in (*quoted, *quotable(text)) if len(piece := _bare(each)) >= _SHORTEST]
    near = [set(_WORD.findall(_bare(each))) for each in quotable(text)] if reading.plain else []
    known = set(_WORD.findall(_bare(reading.request.question))).union(*languages().small.values())
    bearing, found, possible = reading.bearing, list[str](), list[str]()
    for sentence, around in statements(reading.library, place):
        bare_sentence = _bare(sentence)
        words = set(_WORD.findall(bare_sentence))
        if bare_sentence and (
            bare_sentence in bare_text
            or any(piece in bare_sentence for piece in pieces)
            or any(len(words & each) >= _MOST_OF * len(words) or _is_from(each - known, words) for each in near)
        ):
            if bearing.bears(sentence):
                found.append(sentence)
            elif bearing.bears_among(sentence, around):
                possible.append(sentence)
    found = found or possible
    return {"evidence": found, "confidence": 3} if found else None


def _is_from(added: set[str], words: set[str]) -> bool:
    """Return whether most of what a text adds, and each figure in it, is from a sentence with these words."""
    figures = {word for word in added if any(character.isdigit() for character in word)}
    return bool(added) and figures <= words and len(added & words) >= _MOST_ADDED * len(added)


def _bare(text: str) -> str:
    return plain(text).casefold().strip(" .,;:!?\"'*-。，、！？")
