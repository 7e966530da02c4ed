"""Progress of an answer in a few words, from its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stretto.cli.output.plain import one_line
from stretto.local_engine.model.loading.loading_progress import doing
from stretto.local_engine.serving.request_progress import waiting_for
from stretto.values.answer import Agreement, Answer
from stretto.values.events import (
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    Event,
    PassageRead,
    RouteChosen,
    SectionPlanned,
    TextDelta,
)

POCKET = "local:pocket"
_BAR = 20  # cells
SIGNS = {"waiting": "·", "silent": "…", "writing": "▸", "finished": "✓", "failed": "✗", "discarded": "–"}
_ASCII = {"waiting": ".", "silent": ".", "writing": ">", "finished": "+", "failed": "x", "discarded": "-"}
_PARTS = ("section", "item", "piece", "field", "element", "sample", "proposal")


@dataclass
class _Section:
    """A section that the text has not reached yet."""

    heading: str
    state: str = "waiting"
    text: str = ""


class Progress:
    """Tracks events; `phrase` describes the progress, and `ahead` the sections that the text has not reached.

    ``model`` is named until it responds; ``loads``: it has to be loaded first; ``blocks``: the bar of passages can use
    more than ASCII.
    """

    def __init__(self, model: str, now_s: Callable[[], float], *, loads: bool = False, blocks: bool = True) -> None:
        self._name, self._model, self._loads = model, one_line(model), loads
        self._loading = False
        self._now_s = now_s
        self._began = now_s()
        self._strategy = ""
        self._sections = 0
        self._has_text = False
        self._bar = ("█", "░") if blocks else ("#", "-")
        self._signs = SIGNS if blocks else _ASCII
        self._ahead: dict[str, _Section] = {}
        self._read: tuple[int, int] | None = None
        self._running: dict[str, str] = {}
        self._ended = 0

    def see(self, event: Event) -> None:
        """Take one event into account."""
        match event:
            case RouteChosen():
                self._strategy = event.route.strategy
            case SectionPlanned():
                self._sections += 1
                if "plan" in self._running.values():
                    self._ahead[event.branch_id] = _Section(event.heading)
            case PassageRead():
                self._read = event.done, event.total
            case BranchStarted():
                self._running[event.branch_id] = event.kind
                self._note(event.branch_id, "silent")
                if event.kind == "direct" and "plan" not in self._running.values():
                    self._ahead.clear()  # there is no viable plan
            case BranchDelta():
                self._has_text = True
                self._note(event.branch_id, "writing", event.text)
            case BranchFinished() | BranchFailed():
                kind = self._running.pop(event.branch.id, event.branch.kind)
                self._ended += kind in _PARTS
                self._note(event.branch.id, "discarded" if event.branch.discarded else event.branch.status)
            case TextDelta():
                for name, section in list(self._ahead.items()):
                    if f"## {section.heading}\n" in event.text or f"**{section.heading}**: " in event.text:
                        del self._ahead[name]

    def _note(self, branch: str, state: str, text: str = "") -> None:
        if (section := self._ahead.get(branch)) is not None:
            section.state, section.text = state, section.text + text

    @property
    def ahead(self) -> list[str]:
        """A line for each section that the text has not reached: its heading, and its progress."""
        return [
            f"{self._signs[each.state]} {one_line(each.heading)}"
            + (f" · {counted(len(each.text.split()), 'word')}" if each.text else "")
            for each in self._ahead.values()
        ]

    def phrase(self) -> str:
        """Return a few words and the seconds so far: ``writing 5 sections, 2 done · 1.4 s``."""
        return f"{self._doing()} · {self._now_s() - self._began:.1f} s"

    @property
    def _waiting(self) -> str:
        now = doing(self._name)
        self._loads, self._loading = self._loads and bool(now or not self._loading), bool(now)
        if not self._loads:
            what = waiting_for(self._name)
            return f"waiting for {self._model}" + (f": {what}" if what else "")
        return f"loading {self._model}" + (f": {now}" if now else "")

    def _doing(self) -> str:
        if not self._strategy:
            return "choosing a strategy"
        if "passage" in self._running.values():
            return self._passages()
        if "collapse" in self._running.values():
            return "putting findings together"
        parts = [kind for kind in self._running.values() if kind in _PARTS]
        is_planned = "outline" in self._running.values() or "plan" in self._running.values()
        if is_planned and not parts and not self._ended:
            known = f": {counted(self._sections, 'section')}" if self._sections else ""
            return f"planning{known}" if self._has_text else f"planning: {self._waiting}"
        if (parts or self._ended) and "aggregate" not in self._running.values():
            every = max(self._sections, len(parts) + self._ended)
            done = f", {self._ended} done" if self._ended else ""
            return f"writing {counted(every, parts[0] if parts else 'section')}{done}"
        return "writing" if self._has_text else self._waiting

    def _passages(self) -> str:
        """Return the progress in reading a long document: ``reading ████░░ 12 of 18 passages``."""
        if self._read is None:
            return f"reading: {self._waiting}" if not self._has_text else "reading"
        done, total = self._read
        full = round(_BAR * done / max(1, total))
        return f"reading {self._bar[0] * full}{self._bar[1] * (_BAR - full)} {done:,} of {counted(total, 'passage')}"


def _agreed(agreement: Agreement) -> str:
    """Describe in a few words how far samples agree."""
    if agreement.decided_by == "similarity":
        return f"the most typical of {counted(agreement.finished, 'sample')}"
    if agreement.decided_by == "judge":
        return f"the judge's choice of {counted(agreement.finished, 'sample')}"
    return f"{max(agreement.votes.values(), default=0):,} of {counted(sum(agreement.votes.values()), 'vote')}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 section``, ``2 sections``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def status_of(answer: Answer, named: Callable[[str], str] = str) -> str:
    """Return one line about a finished answer: strategy (as ``named`` calls it), seconds, tokens, calls."""
    timeline, usage = answer.timeline, answer.usage
    written = answer.strategy or answer.route.strategy
    instead = "" if written == answer.route.strategy else f" (instead of {named(answer.route.strategy)})"
    local = answer.route.backend.startswith("local:")  # which costs nothing
    caution = ("a demonstration model, which may be wrong",) if answer.route.backend == POCKET else ()
    cost = () if local else (f"cost {answer.cost}" if answer.cost else "cost unknown",)
    first = f", first text {timeline.first_text_s:.2f} s" if timeline.first_text_s is not None else ""
    return " · ".join(
        (
            named(written) + instead,
            f"{timeline.total_s:.2f} s{first}",
            f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out",
            counted(usage.calls, "call"),
            *(() if answer.agreement is None else (_agreed(answer.agreement),)),
            *cost,
            *caution,
        )
    )
