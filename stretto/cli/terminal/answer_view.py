"""The view of one answer: its route, its parts side by side, and finally one text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from stretto.cli.output.live import footnotes_of
from stretto.cli.output.markdown import Part
from stretto.cli.output.plain import one_line, record_in
from stretto.cli.output.progress import counted, status_of
from stretto.cli.output.trace import render_timeline
from stretto.cli.terminal.cards import Card, Cards
from stretto.cli.terminal.fields_text import KINDS, fields_text
from stretto.cli.terminal.lines import CONSOLE, Lines, Words, Written, strips_of, words
from stretto.cli.terminal.sections import Section, Sections
from stretto.cli.terminal.unwritten import with_unwritten
from stretto.cli.terminal.ways import is_other, name_of, others_of, reason_of
from stretto.display.palette import TERMINAL
from stretto.foundation.surrogates import fix_surrogates
from stretto.strategies.document.citing import without_marks
from stretto.values.answer import Answer, Branch
from stretto.values.citation import PassageRecord
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
    TextEdited,
    VoteCounted,
)
from stretto.values.partial_values import PartialValue

if TYPE_CHECKING:
    from stretto.values.route import Route


PARTS = ("section", "item", "piece", "field", "element")
WORTH_SAYING = 1.05  # times as fast


class AnswerView(Widget):
    """Shows an answer from its events, with regular calls to `redraw`; `finish`, `stop` or `fail` ends it.

    Args:
        heading: the heading above it.
        schema: the schema of the answer, if it is a record.

    Attributes:
        text: the text of the answer so far.
        running: whether the answer has not ended yet.
    """

    DEFAULT_CSS = """
    AnswerView { layout: vertical; height: auto; width: 1fr; margin: 0 0 1 0; }
    AnswerView Words.route { margin: 0 0 1 0; }
    AnswerView Written { margin: 0 0 1 0; }
    AnswerView Section Written { margin: 1 0 0 0; }
    """

    class InSections(Message):
        """An answer in sections begins: its opening is read while the sections fill below it."""

        def __init__(self, view: AnswerView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, heading: str = "", schema: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.text = ""
        self.running = True
        self._record = PartialValue(schema)
        self._grown = False  # whether the record has grown since it was shown
        self._of_record = set[str]()  # branches
        self._plan: str | None = None  # the branch that writes the plan
        self._route = Words(*([words(heading, "bold")] if heading else []), classes="route")
        self._passages: Passages | None = None
        self._cards: Cards | Sections | None = None
        self._tail: Written | None = None  # the closing of a plan, which arrives before its sections
        self._way = ""
        self._received: dict[str, str] = {}  # by branch, including citation marks
        self._edits: list[TextEdited] = []
        self._written = Written()
        self._notes = Words()
        self._changed: set[Card | Section | Sections | Written | Passages] = set()

    def compose(self) -> ComposeResult:
        """Yield the route, the text, and the notes at its end."""
        yield self._route
        yield self._written
        yield self._notes

    @property
    def cards(self) -> Mapping[str, Card | Section]:
        """The parts being written, by branch; none once they are merged."""
        return self._cards.by_branch if self._cards is not None else {}

    @property
    def columns(self) -> int:
        """The number of parts shown side by side."""
        return self._cards.columns if self._cards is not None else 0

    @property
    def notes_text(self) -> str:
        """The route, and the notes below the text."""
        return f"{self._route.plain_text}\n{self._notes.plain_text}"

    def see(self, event: Event) -> None:
        """Take one event into account."""
        self._grown |= self._record.feed(event)
        match event:
            case RouteChosen():
                self.show_route(event.route)
            case SectionPlanned():
                self._card(event.branch_id, event.heading)
            case BranchStarted():
                self._started(event)
            case BranchDelta() if event.branch_id in self.cards:
                card = self.cards[event.branch_id]
                self._received[event.branch_id] = self._received.get(event.branch_id, "") + event.text
                card.text = self._read(event.branch_id, self._received[event.branch_id])
                card.state = "writing"
                self._changed.add(card)
            case BranchFinished() | BranchFailed():
                self._ended(event.branch)
            case PassageRead():
                if self._passages is None:
                    self._passages = Passages()
                    self.mount(self._passages, after=self._route)
                self._passages.read(event.record, event.total)
                self._changed.add(self._passages)
            case VoteCounted() if event.branch_id in self.cards:
                card = self.cards[event.branch_id]
                card.title = f"{card.title}: {event.vote}"
                self._changed.add(card)
            case TextEdited():
                self._edits.append(event)
            case TextDelta():
                self._show_chosen()
                self.text += event.text
                if isinstance(self._cards, Sections):
                    self._written.settle(self._opening)
                else:
                    self._written.feed(event.text)
                    self._changed.add(self._written)

    def _started(self, event: BranchStarted) -> None:
        name = event.heading or event.title
        if event.kind == "plan":
            self._plan = event.branch_id
            self.post_message(self.InSections(self))
        elif event.kind in KINDS:
            self._of_record.add(event.branch_id)
            self._card(event.branch_id, name or KINDS[event.kind]).state = "silent"
        elif event.kind in PARTS:
            self._card(event.branch_id, name).state = "silent"
        elif event.kind == "direct" and self._plan is None and (self._of_record or self._sections_are_unwritten):
            self._remove_cards()  # no plan or field can be carried out
            self._written.display = True
            self._written.settle(self.text)
        elif is_other(event.kind, self._way) and not self.text:
            self._card(event.branch_id, name or event.branch_id).state = "silent"

    def _ended(self, branch: Branch) -> None:
        """Show the outcome of a branch."""
        if branch.id == self._plan:
            self._plan = None
        elif branch.kind == "closing" and self._cards is not None:
            self._tail = Written(without_marks(branch.text))
            self.mount(self._tail, after=self._cards)
        elif branch.id in self.cards:
            card = self.cards[branch.id]
            card.text, card.error = self._read(branch.id, branch.text), branch.error or ""
            card.state = "discarded" if branch.discarded else branch.status
            if branch.id not in self._of_record:
                card.title = branch.heading or branch.title or branch.model or card.title
            self._changed.add(card)
            if isinstance(self._cards, Sections):
                self._changed.add(self._cards)

    def _read(self, branch: str, received: str) -> str:
        """Return the readable part of a branch's text."""
        return fields_text(received) if branch in self._of_record else without_marks(received)

    def _card(self, branch: str, title: str) -> Card | Section:
        if self._cards is None and self._plan is not None:
            self._cards = Sections()
            self.mount(self._cards, after=self._written)
        elif self._cards is None:
            self._cards = Cards()
            self.mount(self._cards, after=self._route)
            self._written.display = False  # the cards show it until they are merged
        card = self._cards.card(branch, title)
        self._changed.add(card)
        if isinstance(self._cards, Sections):
            self._changed.add(self._cards)
        return card

    @property
    def _opening(self) -> str:
        """The text above the first section; its last piece can arrive after the headings are known."""
        first, text = next(iter(self.cards.values())), f"\n{self.text}"
        for label in (f"\n## {first.title}\n", f"\n1. **{first.title}**: ", f"\n- **{first.title}**: "):
            text = text.partition(label)[0]
        return text.strip()

    @property
    def _sections_are_unwritten(self) -> bool:
        return isinstance(self._cards, Sections) and not any(
            section.text and section.state != "discarded" for section in self.cards.values()
        )

    def _show_chosen(self) -> None:
        """Replace alternative answers with the chosen one."""
        if self._cards is not None and self._others:
            self._remove_cards()
            self._written.display = True

    def redraw(self) -> None:
        """Show what arrived since the last call."""
        if self._grown and self._cards is None:  # the text follows once the whole is validated
            self._written.settle(self.text, record_in(self._record_so_far))
            self._grown = False
        for part in self._changed:
            part.changed()
        self._changed.clear()

    def show_route(self, route: Route) -> None:
        """Show the strategy, and why it was chosen."""
        self._way = route.strategy
        line = Text.assemble((name_of(route.strategy), "bold"), end="").append(f": {reason_of(route)}", "dim")
        self._route.say(*self._route.texts, line)

    def finish(self, answer: Answer, *, trace: bool = False) -> None:
        """Merge the parts into one text, and show the figures."""
        self._settle(answer.text)
        notes = [*(footnotes_of(answer) if answer.citations else [])]
        if others := others_of(answer):
            notes.append(words(others))
        notes += changes_of(self._edits, answer.text, trace=trace)
        notes += [words(f"warning: {one_line(warning)}", TERMINAL.wait) for warning in answer.warnings]
        notes.append(words(status_of(answer, name_of) + estimate_of(answer), "dim"))
        if trace:
            notes += timeline_of(answer, self.size.width or self.app.size.width - 4)
        self._notes.say(*notes)

    def stop(self, ending: str) -> None:
        """End an incomplete answer. Its text is kept, including parts not merged yet."""
        self._settle(self._whole_text())
        self._notes.say(words(ending, "dim"))

    def fail(self, problem: str) -> None:
        """End an answer that failed."""
        self._settle(self._whole_text())
        self._notes.say(words(f"error: {one_line(problem)}", TERMINAL.bad))

    def _whole_text(self) -> str:
        """Return the text so far, followed by the parts not in it yet; for alternative answers, the longest.

        A record is complete JSON with the fields so far.
        """
        if record := self._record_so_far:
            return record
        if self._others:
            return self.text or max((card.text for card in self.cards.values()), key=len, default="")
        parts = [(card.title, card.text) for card in self.cards.values()]
        parts += [("", self._tail.text)] if self._tail is not None else []
        return with_unwritten(self.text, [(title, text) for title, text in parts if text])

    @property
    def _record_so_far(self) -> str:
        """The record as JSON; empty if there is none yet. Prose can contain a list such as [1], which is none."""
        text = fix_surrogates(json.dumps(self._record.value, ensure_ascii=False))
        return text if record_in(text) else ""

    def _settle(self, text: str) -> None:
        self.running = self._grown = False
        self._remove_cards()
        self.text = text
        self._written.display = bool(text)
        self._written.settle(text, record_in(text))

    @property
    def _others(self) -> bool:
        """Whether the cards are alternative answers."""
        return self._way in ("consensus", "collaborate", "cascade")

    def _remove_cards(self) -> None:
        self._changed.clear()
        for part in (self._cards, self._tail):
            if part is not None:
                part.remove()
        self._cards = self._tail = None


def timeline_of(answer: Answer, width: int) -> list[Text]:
    """Return the timeline as unwrapped lines."""
    lines = render_timeline(answer, max(20, width))
    return [words(""), *(Text(line.plain, line.style, spans=line.spans, no_wrap=True, end="") for line in lines)]


def estimate_of(answer: Answer) -> str:
    """Estimate the speed-up over writing the parts sequentially; concurrent parts slow each other down."""
    parts = [branch for branch in answer.branches if branch.kind in PARTS and branch.status == "finished"]
    took = [part.span.ended_s - part.span.first_s for part in parts if part.span.first_s and part.span.ended_s]
    if len(took) < 2 or answer.timeline.total_s <= 0:
        return ""
    times = (sum(took) + (answer.timeline.first_text_s or 0.0)) / answer.timeline.total_s
    estimate = f" · estimated {times:.1f} times as fast as its parts one after another; /compare measures it"
    return estimate if times > WORTH_SAYING else ""


MOST = 6  # listed changes, with equal ones grouped
LONGEST = 60  # characters of one


def changes_of(edits: Sequence[TextEdited], text: str, *, trace: bool) -> list[Text]:
    """Render the number of changes and a list, equal ones once; with ``trace``, each with its line in the text."""
    if not edits:
        return []
    alike = Counter((edit.old, edit.new) for edit in edits)
    if trace:
        lines = [_line(edit.old, edit.new, f"line {text.count(chr(10), 0, edit.start) + 1}: ") for edit in edits]
    else:
        lines = [_line(*each, suffix=f" ({times} times)" if times > 1 else "") for each, times in alike.items()]
        if len(lines) > MOST:
            lines[MOST - 1 :] = [words(f"  and {len(lines) - MOST + 1} more; with /trace on, all are listed", "dim")]
    return [words(f"Changed in {counted(len(edits), 'place')}:", "dim"), *lines]


def _line(old: str, new: str, before: str = "", suffix: str = "") -> Text:
    line = Text(f"  {before}", "dim", end="")
    line.append_text(words(_short(old) or "nothing", TERMINAL.bad)).append(" → ", "dim")
    return line.append_text(words(_short(new) or "nothing", TERMINAL.good)).append(suffix, "dim")


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


UNREAD, READ, FOUND, LEFT_OUT = "░", "▒", "█", "×"


class Passages(Lines):
    """One mark per passage in the order of the text; grouped on a narrower terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[PassageRecord] = []
        self._total = 0

    def read(self, record: PassageRecord, total: int) -> None:
        """Record one passage; `changed` shows it."""
        self._records.append(record)
        self._total = total

    def draw_rows(self, width: int) -> list[Strip]:
        """Render the marks, and the number of passages relevant to the question."""
        if not self._total:
            return []
        ordered = sorted(self._records, key=lambda each: (each.document, each.start))
        marks = [*map(_mark, ordered), *([UNREAD] * (self._total - len(ordered)))]
        cells = min(width, len(marks))
        strip = "".join(
            _strongest(marks[at * len(marks) // cells : (at + 1) * len(marks) // cells]) for at in range(cells)
        )
        found = sum(record.informative for record in ordered)
        summary = (
            f"{len(ordered):,} of {counted(self._total, 'passage')} read, {found:,} with something for the question"
        )
        rows: list[list[Part]] = [
            [(strip, CONSOLE.get_style(TERMINAL.accent))],
            [(summary[:width], CONSOLE.get_style("dim"))],
        ]
        return strips_of(rows)


def _mark(record: PassageRecord) -> str:
    return LEFT_OUT if record.status != "read" else FOUND if record.informative else READ


def _strongest(marks: list[str]) -> str:
    return next(mark for mark in (FOUND, LEFT_OUT, READ, UNREAD) if mark in marks)
