"""Looks up each field of a record in documents with a separate question, and keeps only what is quoted.

A call is shown the documents or, if they are long, as many passages as it reads well, starting with those that share
the most words with the field. Its quotations are looked up there. A value without a match counts as not found.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from stretto.backends.known_models import typical_tokens
from stretto.documents import cut
from stretto.router.schema_tokens import resolved
from stretto.strategies.document.library import Library, Place
from stretto.strategies.document.sizes import LARGEST_CHUNK, UNKNOWN_WINDOW, read_well
from stretto.strategies.fields.record_plan import FieldPart, Record
from stretto.strategies.fields.record_run import TRIES, RecordRun, Written, complaint
from stretto.strategies.fields.value_text import MISSING, found_in, json_text
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.fencing import as_data
from stretto.strategies.runtime.runner import Runner
from stretto.values.citation import Citation
from stretto.values.partial_values import path_name
from stretto.values.request import Request

PASSAGE = 400  # tokens of a passage of documents that are not shown whole
FITS = 0.6  # share of the context window that documents can fill in addition to prompt and answer
_WORD = re.compile(r"\w{3,}")
_STEM = 5  # letters of a word that are compared
_DIGITS = re.compile(r"\d")
_SPELLED = 12  # numbers up to here are often written as words
_QUOTES = {"type": "array", "items": {"type": "string"}}


async def evidence_run(request: Request, runner: Runner, record: Record) -> EvidenceRun:
    """Cut long documents, off the event loop. Raises `DeadlineExceededError`."""
    able = runner.capabilities
    window = able.context_window or UNKNOWN_WINDOW
    most = int(min(window * FITS, (read_well(able) or window) * FITS))
    library = Library.of(request.documents)
    whole = sum(typical_tokens(len(each.text)) for each in request.documents)

    def made() -> Library:
        size = max(1, max((typical_tokens(len(each.text)) for each in request.documents), default=1))
        size = size if whole <= most else min(PASSAGE, most)
        return library.cut([cut(each, size, lambda text: typical_tokens(len(text))) for each in request.documents])

    with runner.until_deadline():
        library = await anyio.to_thread.run_sync(made)
        room = most if whole <= most else min(most, LARGEST_CHUNK[request.preference])
        plain = request.model_copy(update={"documents": ()})
        return EvidenceRun(plain, runner, record, _Windows(library, room))


@dataclass
class _Windows:
    """What calls are shown of the documents: everything at once, or passage by passage, the likeliest first."""

    library: Library
    room: int

    def of(self, words: Iterable[str]) -> Sequence[Sequence[Place]]:
        """Return groups of passages in the order in which they are searched for a field with these words."""
        places = self.library.places
        if sum(place.chunk.tokens for place in places) <= self.room:
            return [places]
        wanted = {word.lower()[:_STEM] for text in words for word in _WORD.findall(text)}
        texts = [{word.lower()[:_STEM] for word in _WORD.findall(self.library.text(place))} for place in places]
        frequency = Counter(word for text in texts for word in text & wanted)
        scores = [sum(math.log(1 + len(places) / frequency[word]) for word in text & wanted) for text in texts]
        order = sorted(range(len(places)), key=lambda at: -scores[at])
        groups: list[list[Place]] = [[]]
        for at in order:
            if groups[-1] and sum(place.chunk.tokens for place in groups[-1]) + places[at].chunk.tokens > self.room:
                groups.append([])
            groups[-1].append(places[at])
        return [sorted(group, key=lambda place: place.number) for group in groups]

    def shown(self, places: Sequence[Place]) -> str:
        """Return these passages as a prompt shows them."""
        library = self.library
        texts = []
        for place in places:
            chunk = place.chunk
            where = library.where(place.document, chunk.start, chunk.end)
            at = "" if len(places) == len(library.documents) else f", {where}"
            texts.append(f'Document "{library.titles[place.document]}"{at}:\n\n{library.text(place)}')
        return as_data("\n\n".join(texts), library.fence)


class EvidenceRun(RecordRun):
    """Writes a record of what documents say, with citations for its fields."""

    def __init__(self, request: Request, runner: Runner, record: Record, windows: _Windows) -> None:
        super().__init__(request, runner, record)
        self.record = replace(record, parts=tuple(replace(part, is_text=False) for part in record.parts))
        self.windows = windows
        self.left: dict[str, list[Sequence[Place]]] = {}
        self.cited: dict[str, list[Citation]] = {}
        self.unfounded = 0

    async def run(self) -> str | None:
        """Write the record and report its citations."""
        reason = await super().run()
        if reason is None:
            order = [path_name(part.path) for part in self.record.parts]
            cited = [each for name in order for each in self.cited.get(name, ())]
            numbered = (each.model_copy(update={"number": number}) for number, each in enumerate(cited, start=1))
            self.result = replace(self.result, citations=tuple(numbered))
        if self.unfounded:
            self.runner.warn(
                f"Quotations that do not occur in the documents were dropped, with the values that rested on nothing "
                f"else: {self.unfounded}.",
                "quotation",
            )
        return reason

    def start(self, written: Written, wrong: str = "") -> None:
        """Ask for a field, showing the next passages for it."""
        part, name = written.part, path_name(written.path)
        description = self._description(part)
        if name not in self.left:
            self.left[name] = list(self.windows.of((name, description)))
        written.tries += 1
        about = f" ({description})" if description else ""
        task = (
            f"Find only the field `{name}`{about} in the documents. Put into `quotes` the sentences or lines on which "
            "it rests, copied letter by letter, and into `value` what they say of it. Do not guess or conclude: where "
            "the documents do not say it, give no quotes, and null as the value."
        )
        needed = [each for path in part.after for each in self.of(path)]
        spec = self.spec(
            f"lookup-{name}",
            "lookup",
            task,
            _lookup(part),
            tokens=part.tokens,
            wrong=wrong,
            needed=needed,
            title=name,
            documents=self.windows.shown(self.left[name][0]),
        )

        async def until() -> None:
            for each in needed:
                await each.done.wait()

        written.running = self.runner.start(
            replace(spec, until=until if needed else None, on_end=partial(self.ended, written))
        )
        written.running.withhold()

    def ended(self, written: Written, running: RunningBranch) -> None:
        """Take a value whose quotations are in the documents; else look further, or ask again."""
        if written.running is not running or written.done.is_set():
            return
        name = path_name(written.path)
        found = found_in(running.text, _lookup(written.part)).value
        if running.exception is not None or (found is MISSING and written.tries >= TRIES):
            self._give_up(written, "was not found")
            return
        if found is MISSING:
            self._again(written, running, "it does not fit the JSON schema")
            return
        places = self.left[name][0]
        value, quotes = found["value"], [each for each in found["quotes"] if each.strip()]
        cited = [place for quote in quotes if (place := self._place_of(quote, places)) is not None]
        if value is None or not quotes:
            self._further(written)
        elif cited and (number := _not_quoted(value, cited)) is None:
            written.value = value
            self.cited[name] = [each.model_copy(update={"field": name}) for each in cited]
            written.end()
        elif written.tries < TRIES and self.runner.ledger.calls_left != 0:
            wrong = f"{number} does not stand in its quotes" if cited else "its quotes do not stand in the documents"
            self._again(written, running, wrong)
        else:
            self.unfounded += len(quotes)
            self._further(written)

    def _again(self, written: Written, running: RunningBranch, wrong: str) -> None:
        running.drop("it is asked for again")
        self.start(written, complaint(running.text, wrong))

    def _further(self, written: Written) -> None:
        """Search the next passages; if there are none, the field is not in the documents."""
        left = self.left[path_name(written.path)]
        if len(left) > 1 and self.runner.ledger.calls_left != 0:
            left.pop(0)
            written.tries = 0
            self.start(written)
        else:
            self._give_up(written, "is not in the documents")

    def _give_up(self, written: Written, why: str) -> None:
        if written.part.nullable:
            written.value = None
        else:
            name = path_name(written.path)
            self.runner.warn(f"`{name}` {why}, and its schema allows no null: it was left out.", "part_missing")
        written.end()

    def _place_of(self, quote: str, places: Sequence[Place]) -> Citation | None:
        for place in places:
            if (span := self.windows.library.passage(place).find(quote)) is not None:
                return self.windows.library.citation(0, place.document, *span)
        return None

    def _description(self, part: FieldPart) -> str:
        schema = resolved(part.object_schema["properties"][part.name], part.object_schema)
        description = schema.get("description") if isinstance(schema, Mapping) else None
        return " ".join(description.split()) if isinstance(description, str) else ""


def _lookup(part: FieldPart) -> dict[str, Any]:
    """Return the schema for the reply of a call that looks for a field."""
    value = {"anyOf": [part.object_schema["properties"][part.name], {"type": "null"}]}
    fields = {"quotes": _QUOTES, "value": value}
    return {**part.object_schema, "properties": fields, "required": list(fields), "additionalProperties": False}


def _not_quoted(value: Any, cited: Sequence[Citation]) -> str | None:
    """Return the value as text if it is a number whose digits are in none of its quotations, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) <= _SPELLED:
        return None
    text = json_text(value)
    digits = "".join(_DIGITS.findall(text.removesuffix(".0"))).rstrip("0") or "0"
    there = "".join("".join(_DIGITS.findall(each.quote)) + " " for each in cited)
    return None if digits in there else text
