"""N samples of one kind, generated in parallel without duplicates.

A model that is asked N times for the same thing gives N similar replies. So a short plan comes first, with one angle
per call; each call gets an angle and those to avoid. A call starts as soon as its angle is complete, so the plan delays
the answer only by its first line. Short samples (names, slogans) are requested four per call: an angle is as long as
such a sample, and within one call a model does not repeat itself. Up to three samples need no plan.

Samples are compared as they arrive. Duplicates, and samples that a failed call left out, are requested once more, with
all existing samples to avoid. Remaining duplicates are left out with a warning. Samples have no names and no order, so
replacements come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from stretto.language.folding import UNSPACED
from stretto.strategies.items.calls import Calls, evenly
from stretto.strategies.items.layout import Entries, EntryLayout, EntryText
from stretto.strategies.items.splitting import Size, Split
from stretto.strategies.quality.words import words_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.skeleton.outline import OutlineParser
from stretto.values.answer import REFUSALS

PLAN_FROM = 4  # samples
SHARE: dict[Size, int] = {"short": 4, "medium": 2, "long": 1}  # samples per call
ANGLE_TOKENS = 24
FINAL = ("deadline", "budget")  # finish reasons after which nothing more can be requested


@dataclass
class Samples:
    """One run over the samples of a request."""

    calls: Calls
    split: Split
    layout: EntryLayout
    accepted: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    angles: list[str] = field(default_factory=list)
    groups: list[tuple[RunningBranch, int]] = field(default_factory=list)

    async def run(self) -> str | None:
        """Write all samples; if that is impossible, return why, with nothing shown."""
        planned = self.split.count >= PLAN_FROM
        budget = self.calls.request.budget.max_calls
        most = self.calls.most if budget is None else min(self.calls.most, budget - planned)
        shares = shared(self.split.count, SHARE[self.split.size], most)
        if planned and (cause := await self._plan(shares)):
            return cause
        while len(self.groups) < len(shares):
            self._start(shares, self.angles[len(self.groups)] if len(self.groups) < len(self.angles) else "")
        first = 1
        for running, share in self.groups:
            await self._collect(running, share, first)
            first += share
        await self._ask_again()
        if not self.accepted:
            return "no sample came about"
        merge = self.calls.runner.merge
        merge.add(self.layout.closing)
        await merge.finish()
        return None

    async def _plan(self, shares: list[int]) -> str | None:
        """Request an angle for each call, which starts once its angle is complete."""
        calls, runner = self.calls, self.calls.runner
        plan = calls.start(
            "plan", "plan", "samples_plan", room=100 + ANGLE_TOKENS * len(shares), count=str(len(shares))
        )
        parser = OutlineParser(most=len(shares))
        while piece := await plan.read():
            self._know([point.title for point in parser.feed(piece)], shares)
        if plan.finish_reason in REFUSALS:
            cause = "the model refused to plan it"
            for running, _ in self.groups:
                running.drop(cause)
            return cause
        self._know([point.title for point in parser.finish()], shares)
        if not self.angles:
            return str(plan.exception).rstrip(".") if plan.exception else "the plan had no angles"
        if len(self.angles) < len(shares):
            runner.warn(
                f"The plan had {len(self.angles)} angles for {len(shares)} calls; the others write without one.",
                "part_missing",
            )
        return None

    def _know(self, angles: list[str], shares: list[int]) -> None:
        for angle in angles:
            self.angles.append(angle)
            self._start(shares, angle)

    def _start(self, shares: list[int], angle: str) -> None:
        number = len(self.groups)
        first = sum(shares[:number]) + 1
        others = [other for other in self.angles if other != angle]
        left = "Leave these angles to the other writers: " + "; ".join(others) + "." if others else ""
        self.groups.append((self._call(first, shares[number], angle, left), shares[number]))

    def _call(self, first: int, share: int, angle: str, others: str, name: str = "") -> RunningBranch:
        total, last = self.split.count, first + share - 1
        which = f"number {first}" if share == 1 else f"numbers {first} to {last}"
        another = "Do not take the one that comes to mind first." if first > 1 else ""
        form = "Start with the entry itself: no number, no title, no remark."
        if share > 1:
            form = f"Write them as a numbered list from 1 to {share}, without titles or remarks."
        return self.calls.start(
            name or (f"item-{first}" if share == 1 else f"item-{first}-{last}"),
            "item",
            "sample",
            title=angle or which,
            room=self.calls.room(self.split.instruction) * share,
            parts=-(-total // share),
            question=self.split.instruction,
            total=str(total),
            share=f"one, {which} of {total}" if share == 1 else f"{share}, {which} of {total}",
            angle=f"Your angle: {angle}." if angle else another,
            others=others,
            form=f"{form} {self.layout.instruction}",
        )

    async def _collect(self, running: RunningBranch, share: int, first: int) -> None:
        """Collect the samples of one call; the very first one is shown while it streams."""
        if share == 1 and not self.accepted and self.layout.live:
            await self._show(running)
        else:
            entries = Entries(share, first)
            found: list[str] = []
            while piece := await running.read():
                found += entries.feed(piece)
                while found:
                    self._take(found.pop(0))
            last = entries.finish()
            if running.exception is not None or (running.finish_reason == "length" and share > 1):
                last = last[:-1]  # it broke off
            for entry in last[:share]:
                self._take(entry)
        if running.exception is not None:
            running.reported = True
            self.calls.runner.warn(
                f"The samples of {running.spec.title!r} are incomplete: {running.exception}",
                "part_cut",
                part=running.spec.id,
            )

    async def _show(self, running: RunningBranch) -> None:
        merge, filter_ = self.calls.runner.merge, EntryText((), self.layout.indent, number=1)
        shown = ""
        while piece := await running.read():
            if text := filter_.feed(piece):
                merge.add(text if shown else self.layout.before(1) + text)
                shown += text
        rest = filter_.finish()
        if not (shown + rest).strip():
            return
        ending = self.layout.ending(await running.ended())
        merge.add((rest if shown else self.layout.before(1) + rest) + ending)
        self.accepted.append(shown + rest)

    def _take(self, text: str) -> None:
        if len(self.accepted) == self.split.count:
            return
        if is_repeated(text, self.accepted):
            self.repeated.append(text)
            return
        self.accepted.append(text)
        self.calls.runner.merge.add(self.layout.before(len(self.accepted)) + self.layout.entry(text))

    async def _ask_again(self) -> None:
        """Request missing samples once more, with all existing ones to avoid."""
        missing = self.split.count - len(self.accepted)
        if missing and not any(running.finish_reason in FINAL for running, _ in self.groups):
            known = "\n".join(f"- {' '.join(text.split())}" for text in (*self.accepted, *self.repeated))
            left = f"Write nothing like these, which exist already:\n{known}" if known else ""
            first = len(self.accepted) + 1
            running = self._call(first, missing, "", left, "item-again")
            await self._collect(running, missing, first)
            missing = self.split.count - len(self.accepted)
        if not missing:
            for running, share in self.groups:
                if running.exception is not None or (share > 1 and running.finish_reason == "length"):
                    running.use = "replaced"
        else:
            reason = "what else was written repeats them" if self.repeated else "the others could not be written"
            self.calls.runner.warn(
                f"{len(self.accepted)} of {self.split.count} samples are in the answer: {reason}.", "part_missing"
            )


def shared(count: int, share: int, most: int) -> list[int]:
    """Return the number of samples of each call: about ``share``, more only if fewer calls are possible."""
    return evenly(count, max(1, min(most, -(-count // share))))


ALIKE = 0.85  # share of common words above which long samples count as duplicates
LONG = 7  # words; shorter samples are duplicates only if all words are the same
_SHORT = re.compile(rf"[{UNSPACED}\uac00-\ud7af]")  # scripts of short words


def is_repeated(text: str, others: Iterable[str]) -> bool:
    """Return whether a sample repeats one of the others."""
    words, core = _words(text)
    for other in others:
        their_words, their_core = _words(other)
        if core == their_core:
            return True
        if min(len(words), len(their_words)) >= LONG and len(words & their_words) >= ALIKE * len(words | their_words):
            return True
    return False


def _words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return all words, and the content words: longer ones and numbers; in scripts of short words, all of them."""
    words = frozenset(words_of(text))
    core = frozenset(word for word in words if len(word) > 3 or any(map(str.isdigit, word)) or _SHORT.match(word))
    return words, core or words or frozenset({text.strip()})
