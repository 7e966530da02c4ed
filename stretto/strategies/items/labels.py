"""Labels that a task names: extracted from its text, and recognised in results.

Code extracts them only if the wording leaves no doubt: alternatives after a word like "as" up to the end of the
sentence, and nothing else asked for. An open or unclear list yields no labels, so no result is rejected for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from stretto.language.folding import fold
from stretto.language.lists import languages, listed, spaced, unspaced
from stretto.language.sentences import sentences
from stretto.strategies.structured.bare_json import read_json

MOST_LABELS = 40
LONGEST_LABEL = 40  # characters, and
MOST_WORDS = 3
MOST_READ = 2_000  # characters of a task
ENDING = 2  # final letters in which forms of a word can differ: "positiva", "positivo"
STEM = 4

_TASK = listed("label-task")
_LEAD = listed("label-lead")
_ANSWER = listed("label-answer")
_OPEN = listed("label-open")
_SEVERAL = listed("label-several")
_ONLY = listed("label-only")
_REST = listed("label-rest")
_EACH = listed("each")
_OR = rf"\b{spaced('label-or')}\b"
_BETWEEN = re.compile(rf" ?[,/|、，] ?(?:{_OR} )?| {_OR} |{unspaced('label-or')}", re.IGNORECASE)
_CHOICE = re.compile(rf"[/|]| {_OR} |{unspaced('label-or')}|{unspaced('label-choice')}", re.IGNORECASE)
_OWN_OR = [  # the "or" of one language may be a frequent word of another: Dutch "of"
    (listed("label-task", name), re.compile(rf" {spaced('label-or-own', name)} ", re.IGNORECASE))
    for name in languages("label-or-own")
]
_WIDE = str.maketrans("：（）／", ":()/")
_ARTICLE = re.compile(rf"(?:{spaced('label-article')}) ", re.IGNORECASE)
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")  # escaped only if necessary, because dialects differ
_FIELD = "label"
_CLAUSE = re.compile(r"[;；\n]+")
_AROUND = " \t\n\r\"'“”„«»‘’`*_#>-–—()[].,;:!?。！，"


def labels_of(instruction: str, context: str = "") -> tuple[str, ...]:
    """Return the only results that a task allows; empty if it does not clearly name them."""
    if len(instruction) > MOST_READ or len(context) > MOST_READ or _SEVERAL.search(f"{context}\n{instruction}"):
        return ()
    found: tuple[str, ...] = ()
    clauses = (part for each in sentences(instruction.translate(_WIDE)) for part in _CLAUSE.split(each))
    for sentence in (" ".join(part.split()).rstrip(".!?。！？") for part in clauses):
        if not sentence or _ONLY.search(sentence):
            continue
        for task, either in _OWN_OR:
            if task.search(sentence):
                sentence = either.sub(" / ", sentence)  # noqa: PLW2901 - the same, normalised
        here = next(filter(None, map(_read, _candidates(sentence))), ())
        if found or not here:
            if found or not (_TASK.search(sentence) or _EACH.search(sentence)):
                return ()  # something else is asked for as well
            continue
        found = here
    return found


def label_in(text: str, labels: Sequence[str], item: str) -> str | None:
    """Return the label that a result consists of, as the task spells it; ``None`` if it is anything else."""
    known = {bare(label): label for label in labels}
    result = bare(_in_schema(text))
    if result in known:
        return known[result]
    own = bare(item)
    if own and result.startswith(own):
        result = bare(result[len(own) :].lstrip("→=> "))
    elif ":" in result and len(result.partition(":")[0].split()) == 1:
        result = bare(result.partition(":")[2])
    if result in known:
        return known[result]
    alike = [label for folded, label in known.items() if _is_form_of(result, folded)]
    return alike[0] if len(alike) == 1 else None


def one_of(labels: Sequence[str]) -> str:
    """Return a regular expression that matches only these labels."""
    return "|".join(_META.sub(r"\\\g<0>", label) for label in labels)


def schema_of(labels: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of an object that contains only a label."""
    properties = {_FIELD: {"type": "string", "enum": list(labels)}}
    return {"type": "object", "properties": properties, "required": [_FIELD], "additionalProperties": False}


def _in_schema(text: str) -> str:
    """Return the label in an object of that schema; for any other text, the text."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return text
    label = value.get(_FIELD)
    return label if isinstance(label, str) else text


def bare(text: str) -> str:
    """Return a case-folded text without surrounding quotes, markup and punctuation."""
    return " ".join(fold(text).strip(_AROUND).split())


def _candidates(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence that may be a list of labels."""
    task = _TASK.search(sentence)
    if task is not None:
        begin, end = sentence.find("("), sentence.find(")")
        if 0 <= begin < end:
            yield f":{sentence[begin + 1 : end]}" if len(sentence[end:].split()) <= 1 + MOST_WORDS else ""
        head, colon, rest = sentence.partition(":")
        if colon and rest.strip():
            yield f":{rest}"
        for lead in _LEAD.finditer(head if rest.strip() else sentence, task.end()):
            yield sentence[lead.end() :]
        for lead in _LEAD.finditer(sentence, 0, task.start()):  # "as positive or negative, classify each"
            yield sentence[lead.end() : task.start()]
    for lead in _ANSWER.finditer(sentence):
        yield sentence[lead.end() :]


def _read(text: str) -> tuple[str, ...]:
    plain = text.startswith(":") or _CHOICE.search(text) is not None
    text = " ".join(text.lstrip(": ").split())
    if rest := _REST.search(text):
        if len(text[rest.end() :].split()) > ENDING:
            return ()
        text = text[: rest.start()]
    if not plain:
        return ()
    labels = tuple(_ARTICLE.sub("", part.strip(_AROUND), count=1).strip(_AROUND) for part in _BETWEEN.split(text))
    labels = tuple(label for label in labels if label)
    if not 2 <= len(labels) <= MOST_LABELS or len({bare(label) for label in labels}) < len(labels):
        return ()
    fits = all(
        len(label) <= LONGEST_LABEL
        and len(label.split()) <= MOST_WORDS
        and not _OPEN.search(label)
        and not _EACH.search(label)
        and not _LEAD.search(label)
        for label in labels
    )
    return labels if fits else ()


def _is_form_of(word: str, label: str) -> bool:
    """Return whether one word is the other with a different ending."""
    if " " in word or " " in label or min(len(word), len(label)) < STEM + 1:
        return False
    same = next((at for at, (a, b) in enumerate(zip(word, label, strict=False)) if a != b), min(len(word), len(label)))
    return same >= STEM and max(len(word), len(label)) - same <= ENDING
