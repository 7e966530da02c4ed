"""Splits a request into one operation and its items, or a number of samples; by code, without a model.

After ParallelPrompt (2506.18728): a template, a shared context, and items or a count. A request is split only if its
form shows the list, its words apply the operation to each item, and nothing suggests that results depend on each other.
Those words are broad on purpose: a request that is wrongly rejected is answered in one piece, a request that is wrongly
split is answered wrongly. A request that is not recognised is left to a model's plan (`NotSplit.final` is false); one
whose items belong together is not.

Of counted things ("Write 10 slogans for a bakery"), only known kinds count that can be written independently. Ordered,
ranked, calculated and connected things do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stretto.language.counting import number_value
from stretto.language.folding import fold
from stretto.language.listing import Listing, Marks, listings, marked
from stretto.language.lists import first_letter_first, languages, listed, spaced, unspaced
from stretto.language.sentences import last_sentence
from stretto.language.words import words

FEWEST = 3  # items or samples; fewer gain nothing
LONG_ITEM = 600  # characters; two items of this length are worth two calls
MOST_ITEMS = 1000
MOST_READ = 400_000  # characters, and
MOST_LINES = 10_000  # of a list; searching more would block everything else for seconds
MOST_AROUND = 20_000  # characters around a list, which a dozen patterns search for reasons against splitting
READ = 2000  # characters of a request without a list that are searched for reasons against splitting
LONG_INTRODUCTION = 500  # characters; in a longer one only the sentence before the list counts

_THESE = listed("these")
_OPERATION = re.compile(
    rf"(?:^|[.!?:;,\n]\s{{0,20}}|\b{spaced('operation-lead')}\s{{1,20}}){spaced('operation')}(?!\w)|{unspaced('operation')}",
    re.IGNORECASE,
)
_PROPERTY_OF = re.compile(rf"\b{spaced('property')}\W*$", re.IGNORECASE)
_TEXTS = listed("texts")
_EACH_AFTER = re.compile(rf"\W*{spaced('each-behind')}(?!\w)", re.IGNORECASE)
_ASPECT = listed("aspect")
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^“”\n]*”|\{\{(?:(?!\{\{|\}\}).)*\}\}|«[^«»\n]*»", re.DOTALL)
_SENTENCES = re.compile(
    rf"\b{spaced('pointing')} (?:(?!{spaced('not-between-pointing')}\b)\w+ ){{0,2}}{spaced('sentences')}(?![\w-])",
    re.IGNORECASE,
)
_REWRITES = listed("rewrites")
_EITHER = re.compile(rf"\b{spaced('either')}\b[^.]*$", re.IGNORECASE)
_CLAUSE = re.compile(r"^[ \t]*\d{1,3}\.\d{1,3}\.?[ \t]", re.MULTILINE)
_HERE = re.compile(rf"\W*{spaced('here')}(?!\w)", re.IGNORECASE)
_CODE = re.compile(
    r"```|^[ \t]*(?:def |class |import |SELECT |#include|function )|[{}][ \t]*$|\);[ \t]*$", re.MULTILINE
)
_TURNS = re.compile(r"^[ \t]*(?:user|assistant|human|ai|system|q|a|me|him|her)\s*:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Split:
    """A request that was split. Either ``items`` or ``count`` is given.

    Attributes:
        instruction: what to do with each item, or the whole request for samples.
        context: what else every call must know.
        items: as written in the request, without markers and quotes.
        count: number of samples; ``size`` is their approximate length.
        marks: the kind of list marker in the request.
        labels: the label of each item ("Review 1"), if there are labels.
    """

    instruction: str
    context: str = ""
    items: tuple[str, ...] = ()
    count: int = 0
    size: Size = "medium"
    marks: Marks | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotSplit:
    """Why a request was not split, as half a sentence. ``final``: do not ask a model for a plan either."""

    reason: str
    final: bool = True


def split(question: str) -> Split | NotSplit:
    """Split a request. Any text is accepted; the result is deterministic."""
    if len(question) > MOST_READ or question.count("\n") > MOST_LINES:
        return NotSplit(f"it is longer than {MOST_READ:,} characters or {MOST_LINES:,} lines")
    text = question.replace("\r\n", "\n").replace("\r", "\n").strip()
    if _CODE.search(text):
        return NotSplit("it contains code")
    if len(_TURNS.findall(text)) > 1:
        return NotSplit("it contains a conversation")
    split = _by_list(text)
    return split if isinstance(split, Split) or split.final else _by_count(text, split)


def _by_list(text: str) -> Split | NotSplit:
    refusal = NotSplit("its form shows neither items nor a number of samples", final=False)
    for listing in listings(text):
        objection = next(_objections(listing), None)
        if objection is None:
            instruction, context = _instruction(listing)
            return Split(instruction, context, listing.items, marks=listing.marks, labels=listing.labels)
        if objection.final and listing.marks not in ("separated", "quoted"):
            return objection  # a clear list that must not be split rules out weaker readings
        refusal = refusal if refusal.final else objection
    return refusal


def _by_count(text: str, refusal: NotSplit) -> Split | NotSplit:
    count = counted(text)
    if isinstance(count, str):
        return NotSplit(count)
    if isinstance(count, Count):
        if count.number >= FEWEST:
            return Split(text, count=count.number, size=count.size)
        return NotSplit(f"{count.number} samples are too few to write them in parallel")
    together = _needs_all(text[:READ], "")
    return NotSplit(together) if together else refusal


def _objections(listing: Listing) -> Iterator[NotSplit]:
    """Yield the reasons against splitting a request at a list, the clearest first."""
    around = f"{listing.before}\n\n{listing.after}".strip()
    number = len(listing.items)
    if len(around) > MOST_AROUND:
        yield NotSplit(f"the text around its list is longer than {MOST_AROUND:,} characters")
    if not _applies_to_each(listing):
        yield NotSplit("nothing says that the same is to be done with each item", final=False)
    if marked(around):
        yield NotSplit("it contains more than one list", final=False)
    if reason := _needs_all(around, last_sentence(listing.before)) or refer_to_each_other(around, listing.items):
        yield NotSplit(reason)
    if listing.marks == "numbered" and sum(_CLAUSE.search(item) is not None for item in listing.items) > 1:
        yield NotSplit("its numbered clauses are one text")
    if not _carries(listing, around):
        yield NotSplit("the list may be one text, or no list of items", final=False)
    if number < FEWEST and min(map(len, listing.items)) < LONG_ITEM:
        yield NotSplit(f"{number} items are too few to write them in parallel")
    if number > MOST_ITEMS:
        yield NotSplit(f"{number} items are more than {MOST_ITEMS}")
    if len(set(listing.items)) < number:
        yield NotSplit("items occur in it more than once")
    if not _instruction(listing)[0]:
        yield NotSplit("it is a list without a task")


def _applies_to_each(listing: Listing) -> bool:
    """Return whether the words next to the list apply the task to each item."""
    parts = _parts(listing.before)
    introduction = parts[-1] if parts else ""
    if listing.marks in ("separated", "quoted") or len(introduction) > LONG_INTRODUCTION:
        introduction = last_sentence(listing.before)
    if _distributes(introduction) or _PROPERTY_OF.search(introduction):
        return True
    if listing.marks not in ("separated", "quoted", "lines"):
        tasks = [part for part in parts[:-1] if _distributes(part)]
        titled = not introduction.endswith((":", "：")) and not any(map(_of_each, tasks))
        if tasks and not (titled and any(map(_REWRITES.search, tasks))):
            return True  # the task, then a line that only introduces the list, not the title of a text to be rewritten
    if len(listing.before) > LONG_INTRODUCTION and listing.after:
        return False
    return bool(
        _EACH_AFTER.match(listing.after)
        or _OPERATION.match(listing.after)
        or (not listing.before and _EACH.search(listing.after))
    )


def _distributes(text: str) -> bool:
    text = _QUOTED.sub(" ", text)
    return _of_each(text) or _OPERATION.search(text) is not None


def _of_each(text: str) -> bool:
    return bool(_EACH.search(text) or _THESE.search(text))


def _carries(listing: Listing, around: str) -> bool:
    """Return whether form and words together suffice: the weaker the form, the clearer the words must be."""
    each = _EACH.search(around) is not None
    plain = each or _THESE.search(around) is not None
    match listing.marks:
        case "numbered" | "labelled" | "json" | "bulleted":
            enough = True
        case "lettered":  # a multiple-choice question looks the same
            enough = each or (_OPERATION.match(around) is not None and not listing.before.endswith("?"))
        case "quoted":
            enough = each or not _EITHER.search(listing.before)
        case "paragraphs":
            enough = _TEXTS.search(listing.before) is not None
        case "lines":
            enough = plain or max(len(item.split()) for item in listing.items) <= 3
        case "separated":
            aspects = not each and sum(_ASPECT.match(item) is not None for item in listing.items) > 1
            puzzle = "?" in listing.after and not _OPERATION.search(around)
            led = (
                listing.before.endswith((":", "：", "-", "–", "—"))
                or _THESE.search(last_sentence(listing.before)) is not None
            )
            enough = led and not aspects and not puzzle and not _may_be_text(listing, plain)
    return enough


def _may_be_text(listing: Listing, plain: bool) -> bool:
    """Return whether an apparent list may be a sentence: "Translate: I like cats, dogs and birds."."""
    longest = max(len(item.split()) for item in listing.items)
    if listing.separator == "," and _SENTENCES.search(listing.before):
        return True
    if plain:
        return False
    if _REWRITES.search(listing.before):
        return longest > 2 or listing.sentence or listing.separator != ","
    return longest > 4 and listing.separator == ","


def _instruction(listing: Listing) -> tuple[str, str]:
    """Return the paragraphs with the task, and the rest as context."""
    before, after = _parts(listing.before), _parts(listing.after)
    instructions = [part for part in before if _does(part)][-1:] + [part for part in after if _does(part)]
    if not instructions or (before and before[-1] in instructions):
        instructions = [*(instructions or before[-1:]), *(part for part in after if part not in instructions)]
    context = "\n\n".join(part for part in (*before, *after) if part not in instructions)
    instruction = ""
    for part in map(_plain, instructions):
        if instruction:
            goes_on = part[:1].islower() or part[:1].isdigit()
            instruction += " " if instruction[-1] in ".!?。" else ", " if goes_on else ". "
        instruction += part
    return instruction, context


def _does(part: str) -> bool:
    return bool(_distributes(part) or _PROPERTY_OF.search(part)) and not _HERE.match(part)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n[ \t]*\n", text) if part.strip()]


def _plain(part: str) -> str:
    """Return an instruction without the colon or dash before its list."""
    return re.sub(r"(?<![\s:：–—-])[\s:：–—-]+$", "", part).strip(" \t\n,;")


_EACH = listed("each")
_TOGETHER = listed("together")
_TOGETHER_UNLESS_EACH = listed("together-unless-each")
_NO_ITEMS = listed("no-items")
_REFERS = listed("refers")
_LEANS = listed("leans")
_PRONOUN = listed("pronoun")
_ANSWERS = listed("answers")


def _needs_all(instruction: str, introduction: str) -> str | None:
    """Return why an instruction cannot be applied item by item; ``None`` if it can.

    ``introduction`` is the line before the list; it may show that the list does not consist of items.
    """
    if found := _TOGETHER.search(instruction):
        return f'it asks for something that needs all items together ("{_shown(found)}")'
    each = _EACH.search(instruction)
    if not each and (found := _TOGETHER_UNLESS_EACH.search(instruction)):
        return f'it asks for one result ("{_shown(found)}")'
    match = None if each and _EACH.search(introduction) else _NO_ITEMS.search(introduction)
    return f'the list is not one of items ("{_shown(match)}")' if match else None


def refer_to_each_other(instruction: str, items: Sequence[str]) -> str | None:
    """Return why items cannot be understood on their own; ``None`` if they can."""
    supplied = _ANSWERS.search(instruction) is not None
    asking = supplied or sum(item.rstrip().endswith("?") for item in items) * 2 > len(items)
    for item in items:
        found = _REFERS.search(item) or (_LEANS.match(item) if asking else None)
        found = found or (_PRONOUN.search(item) if supplied else None)
        if found:
            return f'items refer to each other ("{_shown(found)}")'
    return None


def _shown(found: re.Match[str]) -> str:
    words = " ".join(found[0].split())
    return words if len(words) <= 40 else words[:37] + "..."


Size = Literal["short", "medium", "long"]

MOST_SAMPLES = 100
HEAD, TAIL = 2000, 1000  # characters read at the beginning and at the end of a long text
LONGEST_LEAD = 10  # words before the number in its sentence
_FLAGS = re.IGNORECASE
_KINDS: tuple[Size, ...] = ("long", "short", "medium")
_NUMBERS = {
    word: values[language]
    for word, values in words().numbers.items()
    for language in languages("medium")
    if language in values and " " not in word
}


_NUMBER_WORD = first_letter_first(sorted(_NUMBERS, key=len, reverse=True), any_case=True)
_NUMBER = rf"(?P<number>\d{{1,3}}|(?:an? )?(?:half a )?(?:couple of )?(?:{_NUMBER_WORD}))"
_BETWEEN = rf"(?:(?!{spaced('not-between-kinds')}\b)[\w'’“”\"-]+,? ){{0,4}}?"
_COUNT = re.compile(
    rf"(?<![\w.,-]){_NUMBER} (?:of (?:my|your|the) )?(?P<between>{_BETWEEN})"
    rf"(?:{'|'.join(f'(?P<{size}>{spaced(size)})' for size in _KINDS)})(?![\w-])",
    _FLAGS,
)
_UNSPACED = re.compile(
    rf"(?P<number>\d{{1,3}}|[二三四五六七八九十两兩]{{1,3}})\s*{unspaced('counters')}\s*(?:[^\s，。,.、]{{0,10}}?)"
    rf"(?:(?P<short>{unspaced('short')})|{unspaced('medium')})"
    rf"|{unspaced('counted-behind')}を(?P<after>\d{{1,3}}){unspaced('counters-behind')}?"
)
_ASKS = listed("asks")
_ORDERED = listed("ordered")
_ORDERED_UNSPACED = re.compile(rf"{unspaced('ordered-before')}$")
_BEFORE = re.compile(rf"(?:\b{spaced('before-number')}|[$€£#/+*=×-])\s*$", _FLAGS)
_LIMIT = re.compile(rf"\b{spaced('limit')}\s*$", _FLAGS)
_SET_OF = re.compile(rf"\b{spaced('set-of')}\s*$", _FLAGS)
_CONNECTED = listed("connected")
_OTHER_TASK = re.compile(rf"(?:^|[.!?\n]\s{{0,20}}|\b{spaced('other-task-lead')} ){spaced('other-task')}(?!\w)", _FLAGS)
_LONGER = listed("longer")
_LENGTH_UNIT = listed("length-unit")
_LENGTH_BEFORE = re.compile(rf"(?:\b{spaced('length-before')}|[-–])\s*$", _FLAGS)
_LENGTH_AFTER = re.compile(rf"\s*{spaced('length-behind')}(?!\w)", _FLAGS)
_LENGTH_OF = listed("length-of")


@dataclass(frozen=True)
class Count:
    """A number of samples and their size: a few words, a sentence or two, or more."""

    number: int
    size: Size


def counted(text: str) -> Count | str | None:
    """Return the requested samples, or why they cannot be written separately; ``None`` if nothing is counted."""
    if len(text) > HEAD + TAIL:  # the task is at either end of a long text
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    found = [match for match in _COUNT.finditer(text) if not _length_of_text(text, match)]
    if not found:
        return _unspaced(text)
    found = found[:1] + [match for match in found[1:] if not _LIMIT.search(text[: match.start()])]
    first = found[0]
    lead = text[: first.start()]
    sentence = re.split(r"[.!?\n:]\s", lead)[-1]
    if objection := next(_against_counting(found, lead), None):
        return objection
    if sentence.strip(" \"'*#-") and (not _ASKS.search(sentence) or len(sentence.split()) > LONGEST_LEAD):
        return None
    if other := _OTHER_TASK.search(text):
        return f'it asks for something else besides ("{other[0].strip()}")'
    return _checked(text, _number(first["number"]), next(size for size in _KINDS if first[size]))


def _against_counting(found: Sequence[re.Match[str]], lead: str) -> Iterator[str]:
    """Yield the reasons why the first number does not count samples."""
    first = found[0]
    kinds = {match[0].split()[-1].casefold().rstrip("s") for match in found}
    if len(kinds) > 1 or len({_number(match["number"]) for match in found}) > 1:
        yield "several things are counted"
    if (before := _BEFORE.search(lead)) and not _SET_OF.search(lead):
        yield f'the number is not one of samples ("{before[0].strip()} {first[0]}")'
    if ordered := _ORDERED.search(first["between"] or "") or _ORDERED.search(lead[-20:]):
        yield f'they have an order or are facts to look up ("{ordered[0]}")'


def _checked(text: str, number: int, size: Size) -> Count | str | None:
    if connected := _CONNECTED.search(text):
        return f'they hang together ("{connected[0]}")'
    if number > MOST_SAMPLES:
        return f"{number} samples are more than {MOST_SAMPLES}"
    if _LONGER.search(text):
        size = "long"
    return Count(number, size)


def _unspaced(text: str) -> Count | str | None:
    found = _UNSPACED.search(text)
    if not found:
        return None
    if _ORDERED_UNSPACED.search(text[: found.start()]):
        return "they have an order or are facts to look up"
    number = number_value(found["number"] or found["after"])
    return _checked(text, number, "short" if found["short"] else "medium")


def _length_of_text(text: str, match: re.Match[str]) -> bool:
    """Return whether a number is the length of one answer: 'in 3 sentences', 'two or three sentences long'."""
    if not _LENGTH_UNIT.fullmatch(match[0].split()[-1]):
        return False
    lead, rest = text[: match.start()], text[match.end() :]
    return bool(_LENGTH_BEFORE.search(lead) or _LENGTH_AFTER.match(rest) or _LENGTH_OF.search(lead))


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    word = fold(word)
    if word.startswith("half a"):
        return 6
    return _NUMBERS.get(word.split()[-1], 0)
