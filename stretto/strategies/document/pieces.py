"""Rewrites or translates a long document piece by piece, all at the same time, with the same names throughout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from stretto.answer import Branch
from stretto.backends.base import ModelRequest
from stretto.strategies.branch import RunningBranch
from stretto.strategies.document.library import Place
from stretto.strategies.document.records import json_object
from stretto.strategies.document.run import Reading
from stretto.strategies.fencing import unfenced

__all__ = ["write_pieces"]

_NAME = re.compile(r"\b[A-ZÀ-ÖØ-ÞА-Я][\w'’-]*(?:\s+(?:(?:of|von|van|de|la|du)\s+)?[A-ZÀ-ÖØ-ÞА-Я][\w'’-]*){0,3}")
_MOST_NAMES = 60
_TWICE = 2
_PIECE_TOKENS = 1_500  # a model rewrites a short piece more faithfully than a long one


def _piece_tokens(reading: Reading) -> int:
    """The most tokens of a piece: prompt and rewritten piece must fit into the window."""
    return max(1, min(_PIECE_TOKENS, reading.sizes.chunk // 2))


async def write_pieces(reading: Reading) -> None:
    """Agree on names in one call, then write all pieces; they stream in order, with the white space between them."""
    size, count = _piece_tokens(reading), reading.count
    reading = replace(await reading.in_thread(lambda reading: reading.cut(size)), count=count)
    library, runner = reading.library, reading.runner
    names = await _names(reading)
    end, document = 0, 0
    for place in library.places:
        if place.document != document:
            end, document = 0, place.document
            runner.merge.add("\n\n")
        text = library.documents[document].text
        runner.merge.add(text[end : place.chunk.start])
        end = place.chunk.end
        runner.merge.add_branch(_start(reading, place, names), ending=partial(_ending, reading, place))


def _start(reading: Reading, place: Place, names: str) -> RunningBranch:
    shown = reading.library.shown(place)
    del shown["fence"]
    prompt = ModelRequest(reading.messages("document_piece", names=names, **shown))
    room = 4 * place.chunk.tokens + 200

    def rest(received: str) -> ModelRequest:
        question = prompt.messages[-1].content
        return ModelRequest(reading.messages("continue", question=question, received=received, documents=""))

    return reading.start(f"piece-{place.number}", "piece", lambda: prompt, room=room, title=shown["title"], rest=rest)


def _ending(reading: Reading, place: Place, branch: Branch) -> str:
    """The text after a piece: the original, if the piece could not be rewritten."""
    if branch.status == "finished":
        if branch.finish_reason == "length":
            reading.runner.warn(f"{reading.title(place)}, breaks off: it grew too long.")
        return ""
    library = reading.library
    if branch.text.strip():
        reading.runner.warn(f"{reading.title(place)}, breaks off: {branch.error}")
        return ""
    reading.runner.warn(f"{reading.title(place)}, stands as it was: {branch.error}")
    return library.text(place)


def _names_in(text: str) -> Iterator[str]:
    """Runs of capitalised words; without the first word of a sentence, which is always capitalised."""
    for found in _NAME.finditer(text):
        before = text[max(0, found.start() - 3) : found.start()]
        inside = before[-1:] in (" ", "\t") and before.strip(" \t")[-1:] not in (".", "!", "?", ":", "")
        name = found[0] if inside else found[0].partition(" ")[2]
        if name:
            yield name


async def _names(reading: Reading) -> str:
    """Names that occur more than once, each with its form in the answer; empty if there are none."""
    counted = Counter(name for document in reading.library.documents for name in _names_in(document.text))
    terms = [name for name, times in counted.most_common(_MOST_NAMES) if times >= _TWICE]
    if not terms or len(reading.library.places) < _TWICE:
        return "(none)"
    said = "\n".join(terms)
    prompt = ModelRequest(reading.messages("document_names", terms=said))
    running = reading.start("names", "plan", lambda: prompt, room=reading.sizes.record)
    await running.ended()
    read = json_object(running.text) if running.exception is None else None
    pairs = [(name, read[name]) for name in terms if read and isinstance(read.get(name), str)]
    agreed = "\n".join(f"{name} -> {' '.join(becomes.split())[:80]}" for name, becomes in pairs)
    return unfenced(agreed, reading.library.fence) or "(none)"
