"""Checks results: an echo of the entry, text from the prompt, or anything but a required label is rejected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stretto.language.echoes import echoes, refuses
from stretto.language.folding import fold
from stretto.language.lists import listed
from stretto.strategies.items.labels import bare, label_in, labels_of
from stretto.strategies.items.splitting import Split
from stretto.strategies.quality.stream_filter import StreamFilter

LABEL_ROOM = 200  # characters that a result with a label can need in addition to its entry
TAGS = ("<entry", "</entry")
ANNOUNCED = 80  # characters within which a colon ends "Here is the translation:"

ECHO = "it repeats the entry"
LEAK = "it repeats words of the prompt"
REFUSAL = "it is a refusal"
_NAME = re.compile(r"[:：=→\n]|->| [-–—] ")
_COLON = re.compile(r"([:：])")
_BEFORE = " \n\"'“„«*_#"
_JUDGED = listed("judged")
_REWRITES = listed("rewrites")


@dataclass(frozen=True)
class Check:
    """What a result of one request must be.

    Attributes:
        labels: the only allowed results, if the task names them.
        changes: whether an entry can come back unchanged, as in a correction.
        own: the words of the task, folded; they can occur in a result.
    """

    labels: tuple[str, ...]
    changes: bool
    own: str

    @classmethod
    def of(cls, split: Split, *, several: bool) -> Check:
        """Return the check for a request; ``several``: each result has several fields, so none is a bare label."""
        instruction = split.instruction
        labels = () if several else labels_of(instruction, split.context)
        judged = bool(labels or _JUDGED.search(instruction) or instruction.rstrip().endswith("?"))
        judged = judged or all(item.rstrip().endswith(("?", "？")) for item in split.items)
        return cls(labels, bool(_REWRITES.search(instruction)) or not judged, fold(f"{split.context} {instruction}"))

    def fault(self, text: str, item: str) -> str:
        """Return what is wrong with a whole result whose announcement was removed; empty if nothing is."""
        if self.labels:
            wrong = f"The model wrote none of the labels {', '.join(self.labels)}. Ask a stronger model."
            return "" if label_in(text, self.labels, item) is not None else wrong
        known = f"{self.own} {fold(item)}"
        if _is_remark(text, item, known) or any(tag in fold(text) and tag not in known for tag in TAGS):
            return LEAK
        if not self.changes and refuses(text) and fold(text) not in known:  # a translation can well read like a refusal
            return REFUSAL
        return ECHO if not self.changes and bare(text) == bare(item) and bare(text) not in self.own else ""

    def result(self, text: str, item: str) -> str:
        """Return a valid result as it is delivered."""
        text = self.unannounced(text, item)
        return (label_in(text, self.labels, item) or "") if self.labels else text

    def unannounced(self, text: str, item: str) -> str:
        """Return a result without an announcement such as "Here is the translation:"."""
        folded, known = fold(text[:ANNOUNCED]).lstrip(_BEFORE), f"{self.own} {fold(item)}"
        begin = next((each for each in echoes().announces if folded.startswith(each)), None)
        head, colon, rest = _COLON.split(text, maxsplit=1) if _COLON.search(text[:ANNOUNCED]) else ("", "", "")
        announced = begin is not None and begin not in known and colon and "\n" not in head.strip()
        return rest.lstrip() if announced and rest.strip() else text

    def of_group(self, texts: Sequence[str], items: Sequence[str], clean: Callable[[str], str]) -> list[str | None]:
        """Return the results of entries that were written in one text; ``None`` for each that has to be rewritten.

        ``clean`` removes sentences of the prompts that were sent.
        """
        names = {bare(item) for item in items}
        found: list[str | None] = []
        for whole, item in zip(texts, items, strict=False):
            text = self.unannounced(whole, item)
            name = bare(_NAME.split(text, maxsplit=1)[0])
            elsewhere = name != bare(text) and name in names and name != bare(item)
            spoiled = elsewhere or clean(text) != text or self.fault(text, item)
            found.append(None if spoiled else self.result(text, item))
        return found


class ResultWatch:
    """Watches the text of one item; holds it back only while it may turn out not to be a result.

    Args:
        check: the check for the results of the request.
        item: the entry.
        screen: makes a filter that finds sentences of the prompts that were sent, and calls its argument for them.
    """

    def __init__(self, check: Check, item: str, screen: Callable[[Callable[[str], bool]], StreamFilter]) -> None:
        self.fault = ""
        self._check, self._item = check, item
        self._known = f"{check.own} {fold(item)}"
        self._buffer = ""
        self._open = True  # the whole text may still turn out not to be a result
        self._screen = screen(self._leaked)

    def feed(self, text: str) -> str:
        self._buffer += self._screen.feed(text)
        if self.fault:
            return ""
        if self._open:
            self._buffer = self._check.unannounced(self._buffer, self._item)
        if self._check.labels:
            if len(self._buffer) > LABEL_ROOM + len(self._item):
                self.fault = self._check.fault(self._buffer, self._item)
            return ""
        if self._open and self._may_be_none():
            return ""
        if self._open and (fault := self._check.fault(self._buffer, self._item)) and fault != ECHO:
            self.fault = fault
            return ""
        self._open = False
        return self._pass_on()

    def finish(self) -> str:
        self._buffer += self._screen.finish()
        if self.fault or not self._buffer.strip():
            return ""
        if self._open:
            self._buffer = self._check.unannounced(self._buffer, self._item)
            self.fault = self._check.fault(self._buffer, self._item)
            return "" if self.fault else self._check.result(self._buffer, self._item)
        return self._pass_on(last=True)

    def _may_be_none(self) -> bool:
        """Return whether the text so far can become an echo, a remark or a tag."""
        so_far = fold(self._buffer).lstrip()
        if bare(self._item).startswith(bare(so_far)):
            return True
        rest, words = _without_item(so_far, self._item), echoes()
        begins = [*words.remarks, *words.announces, *TAGS, *(() if self._check.changes else words.refusals)]
        if any(begin.startswith(rest) for begin in begins if begin not in self._known):
            return True
        announced = so_far.lstrip(_BEFORE).startswith(words.announces)
        return announced and len(so_far) <= ANNOUNCED and "\n" not in so_far.strip()

    def _pass_on(self, *, last: bool = False) -> str:
        """Pass on what cannot be part of a tag."""
        folded = self._buffer.lower()
        for tag in TAGS:
            if tag not in self._known and (at := folded.find(tag)) >= 0:
                self.fault = LEAK
                return self._buffer[:at]
        at = folded.rfind("<")
        if last or at < 0 or not any(tag.startswith(folded[at:]) for tag in TAGS):
            at = len(self._buffer)
        text, self._buffer = self._buffer[:at], self._buffer[at:]
        return text

    def _leaked(self, _: str) -> bool:
        self.fault = LEAK
        return True


def _without_item(text: str, item: str) -> str:
    """Return a folded text without a leading entry and the punctuation after it."""
    own = fold(item).strip()
    rest = text.lstrip(_BEFORE)
    return rest[len(own) :].lstrip(" \n\"'”“»*_:.,-–—→=>") if own and rest.startswith(own) else rest


def _is_remark(text: str, item: str, known: str) -> bool:
    rest = _without_item(fold(text), item)
    return any(rest.startswith(begin) and begin not in known for begin in echoes().remarks)
