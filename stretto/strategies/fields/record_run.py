"""One run of ``fields``: the short fields, then the others in parallel, laid out as one JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import anyio
from pydantic import BaseModel, ValidationError

from stretto.backends.base import ModelRequest
from stretto.backends.known_models import typical_tokens
from stretto.prompts import POCKET
from stretto.router.history import WHOLE
from stretto.router.schema_tokens import resolved, without_null
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, template_messages
from stretto.strategies.fields.mending import Mending
from stretto.strategies.fields.record_plan import (
    DEFINITIONS,
    FieldPart,
    NotSplit,
    Outline,
    Record,
    object_with,
    outline_of,
    record_of,
)
from stretto.strategies.fields.value_text import (
    LACKS,
    MISSING,
    Found,
    TextOfField,
    begun_at,
    closed,
    found_in,
    json_text,
)
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.going_ahead import LONGEST_WAIT_S
from stretto.strategies.runtime.overlap_trimmer import OverlapTrimmer
from stretto.strategies.runtime.parts import THINKING, share_of, warn_of_limits
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.fitting import fit
from stretto.strategies.structured.in_form import warn_of_misfit
from stretto.values.answer import Branch
from stretto.values.partial_values import path_name
from stretto.values.request import Request
from stretto.values.route import Route

MOST_ELEMENTS = 64  # parts that are written in parallel
LEAST_ROOM = 4_000  # tokens of one part, or ROOM times the expected tokens
ROOM = 8
TRIES = 2  # of one field
_LEVELS = 6  # of nested fields that are listed
_MOST_LISTED = 300  # fields
_DESCRIPTION = 400  # characters of a field's description, or of its outline line, that other calls are shown
OUTLINE = (
    "`{}` is no field of the record, but what you decide for the writers of the long fields: for each, in at most "
    "{} words, the names, figures, times and facts that it alone tells. Be as definite as the finished texts are: "
    'not "its history", but what happened and when. Put into them all that the reader of this record must find.'
)
BEGUN = "The text of `{}` has begun. Where something else that is decided here differs from it, this text counts: {}"
AGREED = "Decided for the long fields, so that they agree. All of it is true in this record:"
FULLER = (
    "These lines are only the frame. Write your part as a careful author who writes the whole record alone would: with "
    "the reasons, people, dates and amounts that its reader wants, none of them against these lines, and at the length "
    "that is asked for. Where none is, a paragraph has about 100 words, and an element of a list is one sentence that "
    "says all it has to, as who does what by when. Mention what stands at another name only where yours depends on it."
)
_BEGINNING = 80  # characters of the first long text that others read, per outline line that is written meanwhile
_WAITING = 0.25  # of the time until the deadline that writers wait for the outline
_QUEUES = 2  # times the first call's time to first text that writers wait for progress
_LONGEST_QUEUE_S = 60.0  # the longest such wait: a first text can be late for other reasons
_RECEIVED = 2_000  # characters of the first try that a second try is shown


async def write_record(request: Request, route: Route, runner: Runner) -> StrategyResult:
    """Write a record field by field, or with `Direct` if that is not possible."""
    schema = request.options.response_format
    learned = runner.known.history.usual_fields(schema) if isinstance(schema, dict) else {}
    record = record_of(schema, learned, explicit=True, apart=bool(request.documents))
    reason = record.reason if isinstance(record, NotSplit) else _obstacle(request, runner, record)
    if reason is None and isinstance(record, Record):
        warn_of_limits(request, runner)
        if request.documents:
            from stretto.strategies.fields.record_evidence import evidence_run  # noqa: PLC0415 - it builds on this module

            whole: RecordRun = await evidence_run(request, runner, record)
        else:
            whole = RecordRun(request, runner, record)
        reason = await whole.run()
        if reason is None:
            return whole.result
        for running in runner.branches:
            running.drop("the whole is asked for at once")
    runner.warn(f"Answered in one piece instead of field by field: {reason}.", "strategy")
    return await Direct().run(request, route, runner)


def _obstacle(request: Request, runner: Runner, record: Record) -> str | None:
    able, left = runner.capabilities, runner.ledger.calls_left
    if request.whole_reason is not None:
        return request.whole_reason
    if able.concurrent_calls < 2:
        return "only one call at a time is possible"
    if able.prompt_family == POCKET:
        return "this model is too small for it"
    if left is not None and left < record.calls:
        return f"the budget leaves {left} calls, and {record.calls} are needed"
    return None


@dataclass(eq=False)
class Written:
    """A value that a separate call writes: a field, or the long fields of one element.

    Attributes:
        part: the part that it belongs to.
        index: of the element, from 0; ``None`` for a field.
        key: what the first call wrote of the element.
        value: `MISSING` until it is known.
        running: the last call for it.
        tries: calls so far.
        offset: characters in its call's text that precede it: the short fields.
        shown: pieces of a text that the reader has seen, JSON-escaped.
        over: set once its own calls have ended.
        done: set once nothing more is tried, with or without a value.
    """

    part: FieldPart
    index: int | None = None
    key: Any = None
    value: Any = MISSING
    running: RunningBranch | None = None
    tries: int = 0
    offset: int = 0
    shown: list[str] = field(default_factory=list)
    over: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)

    def end(self) -> None:
        """Mark the value as final; nothing more is tried."""
        self.over.set()
        self.done.set()

    @property
    def path(self) -> tuple[str | int, ...]:
        """Names and indexes from the root of the record to the value."""
        return self.part.path if self.index is None else (*self.part.path, self.index)

    @property
    def field_name(self) -> str:
        """The only field that its call writes; empty for an element."""
        return self.part.name if self.index is None else ""


class RecordRun:
    """Writes one record: starts the calls, takes their values, and lays them out."""

    def __init__(self, request: Request, runner: Runner, record: Record) -> None:
        self.request, self.runner, self.record = request, runner, record
        self.effort: Literal["low"] | None = None if request.preference == "careful" else "low"
        self.known: dict[str, Any] = {}
        self.outline: Outline | None = None
        self.lines: dict[str, str] = {}
        self.leading: RunningBranch | None = None
        self.begun = ""
        self.deciding: RunningBranch | None = None
        self.agreeing, self.agreed = anyio.Lock(), False
        self.mending: Mending | None = None
        self.result = StrategyResult()
        self.written: dict[tuple[str | int, ...], Written] = {}
        # What a caller's validator rejects can be requested again only while nobody has seen it.
        self.withheld = _has_validators(request.options.response_model)

    async def run(self) -> str | None:
        """Write the record; if nothing was shown, return why it cannot be written like this."""
        if self.record.first is not None and (reason := await self._write_short(self.record.first)):
            return reason
        if reason := self._start_all():
            return reason
        if self.withheld:
            return await self._check_then_show()
        if not (self.known or await self._is_begun()):
            return "no field was written"
        self._lay_out()
        await self.runner.merge.finish()
        self._report(self.runner.merge.text)
        return None

    async def _write_short(self, schema: Mapping[str, Any]) -> str | None:
        """Ask for the short fields, once more if they do not fit; return why there are none.

        The same call writes the first long text after them, so that it can be read early; the others are requested when
        it begins. The outline of the others precedes it, or is written by a separate call.
        """
        lead, thinks = None if self.withheld else self.record.lead, self.runner.capabilities.reasoning
        self.outline, wrong = outline_of(self.request, self.record, lead, thinks=thinks), ""
        outline = None if self.outline is None or self.outline.separate else self.outline
        for attempt in range(TRIES):
            asked_for = schema if outline is None else _with(schema, object_with(self._lines_name, outline.schema))
            asked_for = asked_for if lead is None else _with(asked_for, lead.object_schema)
            names = ", ".join(f"`{name}`" for name in asked_for["properties"])
            task = f"Fill in only these fields now: {names}. The others are written afterwards, by what you write here."
            if any(isinstance(each, Mapping) and "items" in each for each in schema["properties"].values()):
                task += " Give every element that a list is to have, with the fields that are asked for here."
            if outline is not None:
                task += " " + OUTLINE.format(self._lines_name, outline.words)
            tokens = self.record.first_tokens + (lead.tokens if lead is not None else 0)
            tokens += outline.tokens if outline is not None else 0
            spec = self.spec("fields", "fields", task, asked_for, tokens=tokens, wrong=wrong)
            running = self.runner.start(replace(spec, label="The short fields", on_end=self._lead_ended))
            running.withhold()
            at = None if lead is None else await self._reaches(running, schema, lead)
            if at is None:
                await running.ended()
            short = running.text if at is None else closed(running.text[:at])
            found = self.read_by_class(found_in(short, schema))
            if isinstance(found.value, dict):
                self.known = found.value
                if outline is not None:
                    self._take_lines(short, outline)
                if lead is not None and (
                    at or found_in(running.text, lead.object_schema, lead.name).value is not MISSING
                ):
                    self._take_lead(Written(lead, running=running, tries=1, offset=at or 0))
                return None
            if attempt == TRIES - 1 or running.exception is not None or self.runner.ledger.calls_left == 0:
                break
            running.drop("it did not fit its part of the schema")
            lead, wrong = None, complaint(short, found.wrong)
        return f"its short fields were not written: {str(running.exception or found.wrong).rstrip('.')}"

    async def _reaches(self, running: RunningBranch, schema: Mapping[str, Any], lead: FieldPart) -> int | None:
        """Wait until a call has written the short fields and begins the long one; return where that begins.

        Return ``None`` if it does not begin, or not in this order.
        """
        length = -1
        while len(running.text) > length:
            length = len(running.text)
            if (at := begun_at(running.text, lead.name)) is not None:
                short = found_in(closed(running.text[:at]), schema)
                return None if short.value is MISSING else at
            await running.reached(length + 1)
        return None

    def _take_lead(self, written: Written) -> None:
        """Continue with the long text that follows the short fields."""
        running = written.running
        assert running is not None  # noqa: S101 - always set here; for the type checker
        self.written[written.path], self.leading = written, running
        if running.branch is None:
            running.withheld = False
        else:
            self.ended(written, running)

    def _lead_ended(self, running: RunningBranch) -> None:
        for written in self.written.values():
            if written.running is running:
                self.ended(written, running)
                break

    def _start_all(self) -> str | None:
        for part in self.record.parts:
            if not part.keys:
                self.written.setdefault(part.path, Written(part))
                continue
            elements = _at(self.known, part.path) or []
            for index, key in enumerate(elements):
                self.written[*part.path, index] = Written(part, index, key)
        left, wanted = self.runner.ledger.calls_left, [each for each in self.written.values() if not each.tries]
        if left is not None and left < len(wanted):
            return f"the budget leaves {left} calls, and {len(wanted)} are needed"
        if len(self.written) > MOST_ELEMENTS:
            return f"it has {len(self.written)} parts, and at most {MOST_ELEMENTS} are written side by side"
        # One call is kept for a second try of a field, which matters more than the outline.
        if self.leading and self.outline and self.outline.separate and (left is None or left > len(wanted) + 1):
            self._decide(self.outline)
        for written in wanted:
            self.start(written)
        return None

    @property
    def _lines_name(self) -> str:
        """The field name under which a call writes the outline lines, which no field of the record has."""
        name, taken = "outline", self.record.order()
        while name in taken:
            name += "_"
        return name

    def _take_lines(self, text: str, outline: Outline) -> None:
        """Take the outline that a call wrote; without it, long fields are written from the short fields alone."""
        found = found_in(text, object_with(self._lines_name, outline.schema), self._lines_name).value
        self.lines = {} if found is MISSING else found

    def _decide(self, outline: Outline) -> None:
        """Have a separate call write the outline while the first long text is being read."""
        lead = self.record.lead
        assert lead is not None  # noqa: S101 - set if the outline is separate; for the type checker
        task = f"Fill in only `{self._lines_name}` now. {OUTLINE.format(self._lines_name, outline.words)}"
        task += f" `{path_name(lead.path)}` is being written already: leave to it what belongs there."
        schema = object_with(self._lines_name, outline.schema)
        spec = self.spec("outline", "terms", task, schema, tokens=outline.tokens)
        self.deciding = self.runner.start(replace(spec, label="What the long fields will say"))
        self.deciding.withhold()

    async def _agree(self) -> None:
        """Wait for what all fields have to agree with: the outline, and the beginning of the first long text.

        If these stall, or the deadline is near, all fields are written with what has arrived by then. Queueing is not a
        stall: the first call shows how long a call is queued.
        """
        lead, leading, outline = self.record.lead, self.leading, self.outline
        if lead is None or leading is None or outline is None or not outline.separate:
            return
        async with self.agreeing:
            if self.agreed:
                return
            most, limit = _BEGINNING * len(outline.names), self.request.deadline_s
            now = anyio.current_time()
            patience_s = min(max(LONGEST_WAIT_S, _QUEUES * _waited_s(leading)), _LONGEST_QUEUE_S)
            last = math.inf if limit is None else now + _WAITING * (limit - self.runner.now_s())
            with anyio.CancelScope(deadline=min(last, now + patience_s)) as scope:
                for running in (self.deciding, leading):
                    while running is not None and running.branch is None:
                        if running is leading and len(_text_in(running.text, lead.name)) >= most:
                            break
                        await running.reached(len(running.text) + 1)
                        scope.deadline = min(last, anyio.current_time() + patience_s)  # slow is not stalled
            self.begun = _text_in(leading.text, lead.name)[:most]
            if self.deciding is not None:
                self._take_lines(self.deciding.text, outline)
                self.deciding.cancel("the fields are written without waiting longer for it")
            self.agreed = True

    def start(self, written: Written, wrong: str = "") -> None:
        """Ask for a value; ``wrong`` describes an earlier try."""
        part = written.part
        if written.index is None:
            task = f"Fill in only the field `{path_name(part.path)}` now."
        else:
            task = (
                f"Fill in only element {written.index + 1} of `{path_name(part.path)}` now, the one with "
                f"{json_text(written.key)}: the fields "
                + ", ".join(f"`{name}`" for name in part.object_schema["properties"])
                + " of it."
            )
        written.tries, written.offset = written.tries + 1, 0
        needed = [each for path in part.after for each in self.of(path)]
        name = path_name(written.path)
        spec = self.spec(
            f"field-{name}",
            "field" if written.index is None else "element",
            task,
            part.object_schema,
            tokens=part.tokens,
            wrong=wrong,
            needed=needed,
            title=name,
            index=None if written.index is None else written.index + 1,
        )

        async def until() -> None:
            await self._agree()
            for each in needed:
                await each.done.wait()

        written.running = self.runner.start(
            replace(spec, until=until, on_end=lambda running: self.ended(written, running))
        )
        if self.withheld or written.index is not None or not part.is_text or written.tries > 1:
            written.running.withhold()

    async def _is_begun(self) -> bool:
        """Wait for the first text of any value before anything is shown; return whether there is any."""
        for written in self.written.values():
            if written.running is not None:
                await written.running.begun()
                if written.running.text.strip():
                    return True
        return False

    def of(self, path: tuple[str, ...]) -> list[Written]:
        """Return the values of a part."""
        return [each for each in self.written.values() if each.part.path == path]

    def spec(
        self,
        name: str,
        kind: str,
        task: str,
        schema: Mapping[str, Any],
        *,
        tokens: int,
        fields: int = 1,
        wrong: str = "",
        needed: Sequence[Written] = (),
        title: str = "",
        index: int | None = None,
        documents: str | None = None,
    ) -> BranchSpec:
        """Return the spec of the branch that writes some fields."""
        runner, request = self.runner, self.request
        least = LEAST_ROOM if request.budget.max_tokens_total is None else 0  # what a call reserves, others wait for
        room = max(least, ROOM * tokens) if request.part_tokens is None else fields * request.part_tokens
        room += THINKING if runner.capabilities.reasoning else 0
        most = share_of(request, room, 1 + sum(part.calls for part in self.record.parts))
        options = request.options.model_copy(update={"max_tokens": most, "stop": (), "response_format": None})
        form = f"Answer with one JSON object that fits this JSON schema, and nothing else: {json_text(schema)}"

        def prompt(target: PromptTarget) -> ModelRequest:
            there = "".join(
                f"`{path_name(each.path)}`, on which it builds: {json_text(each.value)}\n\n"
                for each in needed
                if each.value is not MISSING
            )
            last = f"{there}{task} {form}{wrong}"
            known = f"Filled in already: {json_text(self.known)}" if self.known else ""
            if self.begun and self.record.lead is not None:
                known += "\n\n" + BEGUN.format(path_name(self.record.lead.path), json_text(self.begun))
            if self.lines:
                lines = {name: " ".join(line.split())[:_DESCRIPTION] for name, line in self.lines.items()}
                decided = "\n".join(f"- `{name}`: {line}" for name, line in lines.items())
                known = f"{known}\n\n{AGREED}\n\n{decided}\n\n{FULLER}".strip()
            shown = {} if documents is None else {"documents": documents}
            values = {"fields": _listed(self.record.schema), "known": known, "task": last} | shown
            messages = template_messages(request, target, "field", **values)
            return ModelRequest(
                messages,
                effort=self.effort,
                response_schema=schema,
                in_words=(),
                strict=request.options.response_strict,
                shared=max(0, messages[-1].content.rfind(last)),
                reads=bool(request.documents),
            )

        return BranchSpec(
            id=name,
            kind=kind,
            title=title,
            index=index,
            prompt=prompt,
            options=options,
            # Another model cannot continue half a JSON text; one that nobody has seen is started again.
            fallback_prompt=lambda target, received: None if received.strip() else prompt(target),
        )

    def ended(self, written: Written, running: RunningBranch) -> None:
        """Take what a call wrote, or request it again, which is only possible if no reader has seen it."""
        if written.running is not running or written.done.is_set() or written.shown:
            return
        part, cut = written.part, running.exception is not None or running.finish_reason != "stop"
        found = self.read_by_class(found_in(running.text, part.object_schema, written.field_name, cut=cut), written)
        if found.value is not MISSING:
            written.value = found.value
            written.end()
            if not cut:
                self.note(part.path, json_text(found.value))
        elif found.wrong == LACKS and not part.required:  # the model has nothing to say about it
            written.end()
        elif not cut and written.tries < TRIES and self.runner.ledger.calls_left != 0:
            running.drop("it did not fit its part of the schema")
            self.start(written, complaint(running.text, found.wrong))
        elif not (cut or self.withheld or part.nullable) and part.required and self.runner.ledger.calls_left != 0:
            running.drop("it did not fit its part of the schema")
            if self.mending is None or self.mending.begun:
                self.mending = Mending(self)
            self.mending.take(written, complaint(running.text, found.wrong))
        else:
            self.give_up(written, running, "" if cut else found.wrong)

    def give_up(self, written: Written, running: RunningBranch, wrong: str = "") -> None:
        """Go on without a value, or with null if allowed; warn of what was ``wrong`` with the last try."""
        if wrong:
            running.use, running.reported = "lacking", True
            warning = f"`{path_name(written.path)}` does not fit: {wrong}."
            self.runner.warn(warning, "format", part=running.spec.id)
        if written.part.nullable and written.index is None:
            written.value = None
        written.end()

    def read_by_class(self, found: Found, written: Written | None = None) -> Found:
        """Return ``found`` if the caller's class can parse it, else why not; a schema does not check dates, say.

        Args:
            found: the short fields, or the value of ``written``; it fits the schema.
            written: the value that a separate call wrote.
        """
        model = self.request.options.response_model
        if model is None or self.withheld or found.value is MISSING:
            return found
        value, index = found.value, None if written is None else written.index
        if index is not None:
            value = [value]
        for name in reversed(() if written is None else written.part.path):
            value = {name: value}
        try:
            model.model_validate_json(json_text(value))
        except ValidationError as error:
            for each in error.errors(include_url=False, include_context=False, include_input=False):
                if _is_single(value, each["loc"]):  # an object can lack what another call writes
                    where = list(each["loc"])
                    if written is not None and index is not None:
                        where[len(written.part.path)] = index
                    return Found(wrong=f"{path_name(where)}: {each['msg']}")
        except Exception:  # noqa: BLE001 - the caller's `model_post_init`; `fit` reports for the whole what it raised
            return found
        return found

    async def rest_of(self, written: Written) -> str:
        """Return the rest of a text that broke off after the reader saw it, from one more call."""
        received = json.loads('"' + "".join(written.shown) + '"')
        if self.runner.ledger.calls_left == 0 or written.running is None:
            return ""
        broken, name = written.running, path_name(written.path)
        task = (
            f"The text of the field `{name}` broke off. It began: {json_text(received[-_RECEIVED:])}\n\nWrite in "
            f"`{written.field_name}` only what follows behind that, and nothing of it again."
        )
        spec = self.spec(
            f"field-{name}-rest", "rest", task, written.part.object_schema, tokens=written.part.tokens, title=name
        )
        running = self.runner.start(spec)
        running.withhold()
        await running.ended()
        cut = running.exception is not None or running.finish_reason != "stop"
        found = found_in(running.text, written.part.object_schema, written.field_name, cut=cut).value
        if not isinstance(found, str):
            running.use = "replaced"
            return ""
        broken.use = "replaced"
        trimmer = OverlapTrimmer(received)
        return json_text(trimmer.feed(found) + trimmer.finish())[1:-1]

    # How the answer is laid out

    def _lay_out(self, path: tuple[str, ...] = ()) -> None:
        """Add an object to the answer: its fields in the order of the schema, without those that have no value."""
        merge, begun = self.runner.merge, False

        def before(name: str) -> str:
            nonlocal begun
            comma, begun = ", " if begun else "", True
            return f"{comma}{json_text(name)}: "

        merge.add("{")
        for name in self.record.order(path):
            here = (*path, name)
            if here in self.record.by_path:
                self._lay_out_part(self.record.by_path[here], partial(before, name))
            elif any(each[: len(here)] == here for each in self.record.by_path):  # an object that contains parts
                merge.add(partial(before, name))
                self._lay_out(here)
            elif (value := _at(self.known, here)) is not MISSING:
                merge.add(partial(_labelled, partial(before, name), value))
        merge.add("}")

    def _lay_out_part(self, part: FieldPart, before: Callable[[], str]) -> None:
        merge = self.runner.merge
        if not part.keys:
            merge.add_branch(_Source(self, self.written[part.path], before), as_it_is=True)
            return
        merge.add(lambda: f"{before()}[")
        for place, written in enumerate(self.of(part.path)):
            merge.add_branch(_Source(self, written, partial(str, ", " if place else "")), as_it_is=True)
        merge.add("]")

    def value_of(self, written: Written) -> Any:
        """Return a value as the record contains it: for an element, including what the first call wrote."""
        if written.index is None:
            return written.value
        both = {**written.key, **({} if written.value is MISSING else written.value)}
        return {name: both[name] for name in written.part.schema["properties"] if name in both}

    def whole(self, path: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the record as far as it is known."""
        found: dict[str, Any] = {}
        for name in self.record.order(path):
            here = (*path, name)
            if (part := self.record.by_path.get(here)) is not None:
                value = [self.value_of(each) for each in self.of(here)] if part.keys else self.written[here].value
            elif any(each[: len(here)] == here for each in self.record.by_path):
                value = self.whole(here)
            else:
                value = _at(self.known, here)
            if value is not MISSING:
                found[name] = value
        return found

    # What is checked at the end

    async def _check_then_show(self) -> str | None:
        """Show the record once it passes its validators, rewriting what they reject; return why it does not pass."""
        for last in (False, True):
            for written in self.written.values():
                await written.done.wait()
            text = json_text(self.whole())
            found = fit(text, self.request.options)
            again = [] if last else list(self._refused(text))
            if not found.wrong or not again or self.runner.ledger.calls_left == 0:
                break
            for written, wrong in again:
                before = written.running
                if before is not None:
                    before.drop("a validator refused it")
                refused = json_text(written.value)
                written.done, written.value = anyio.Event(), MISSING
                self.start(written, complaint(refused, wrong))
        if found.wrong and self.runner.ledger.calls_left != 0:
            return f"it does not fit response_format: {found.wrong}"
        self.runner.merge.add(text)
        await self.runner.merge.finish()
        self._report(text)
        return None

    def _refused(self, text: str) -> Iterator[tuple[Written, str]]:
        """Yield the parts that the caller's validators reject, each with the reason."""
        model = self.request.options.response_model
        if model is None:
            return
        try:
            model.model_validate_json(text)
        except ValidationError as error:
            for each in error.errors(include_url=False, include_context=False, include_input=False):
                for path, written in self.written.items():
                    if each["loc"][: len(path)] == path:
                        yield written, each["msg"]
        except Exception:  # noqa: BLE001 - a caller's validator; `fit` reports what it raised
            return

    def note(self, path: Iterable[str], text: str) -> None:
        """Record how long a value was."""
        self.runner.known.history.note_field(self.record.schema, path_name(path), typical_tokens(len(text)))

    def _report(self, text: str) -> None:
        for name, value in self.known.items():
            if (name,) not in self.record.by_path and not isinstance(value, dict):
                self.note((name,), json_text(value))
        if all(each.value is not MISSING for each in self.written.values()):
            self.runner.known.history.note_field(self.record.schema, WHOLE, typical_tokens(len(text)))
        found = fit(text, self.request.options)
        self.result = replace(self.result, parsed=found.value)
        warn_of_misfit(self.runner, found)


class _Source:
    """The text of one value in its place: a plain text is streamed, any other value follows once it was checked.

    Args:
        run: the run of the record.
        written: the value.
        before: makes the text that precedes it; not called if there is no value.
    """

    def __init__(self, run: RecordRun, written: Written, before: Callable[[], str]) -> None:
        self._run, self._written, self._before = run, written, before
        self._text = TextOfField(written.field_name)
        self._live = written.running if written.part.is_text and written.index is None else None
        self._over = False

    async def read(self) -> str:
        written = self._written
        while self._live is not None and not self._over:
            if text := await self._piece(self._live):
                return text
        if self._over:
            return ""
        self._over = True
        await written.done.wait()
        value = self._run.value_of(written)
        return "" if value is MISSING else self._before() + json_text(value)

    async def ended(self) -> Branch:
        assert self._written.running is not None  # noqa: S101 - started before; for the type checker
        return await self._written.running.ended()

    async def _piece(self, running: RunningBranch) -> str:
        """Return the next piece of a text, including its closing quote at the end."""
        written, text = self._written, self._text
        received = await running.read()
        if received and written.offset:  # everything so far, as nobody has read from it before
            received, written.offset = "{" + received[written.offset :], 0
        if written.running is not running:  # it was requested again, and nobody has seen the first text
            self._live = None
            return ""
        piece = text.feed(received) if received else text.finish()
        begins = bool(text.opened and not written.shown)
        if text.opened:
            written.shown.append(piece)
        piece = f'{self._before()}"{piece}' if begins else piece
        if received and not text.closed:
            return piece
        self._live = None
        if not written.shown:
            return ""
        self._over = True
        if not text.closed and running.exception is not None:
            rest = await self._run.rest_of(written)
            written.shown.append(rest)
            piece += rest
        written.value = json.loads('"' + "".join(written.shown) + '"')
        if text.closed:
            self._run.note(written.part.path, json_text(written.value))
        written.end()
        return piece + '"'


def _labelled(before: Callable[[], str], value: Any) -> str:
    return before() + json_text(value)


def _at(value: Any, path: Iterable[str]) -> Any:
    """Return the value inside an object at a path; `MISSING` if there is none."""
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def _is_single(value: Any, path: Iterable[str | int]) -> bool:
    """Return whether a path leads to a value that is neither an object nor an array."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # the path is for another of several possible forms
            break
    return not isinstance(value, dict | list)


def _waited_s(running: RunningBranch) -> float:
    """Return how long a call waited for its first text."""
    started_s, first_s = running.progress.started_s, running.progress.first_s
    return 0.0 if started_s is None or first_s is None else first_s - started_s


def _text_in(text: str, name: str) -> str:
    """Return the text of a field, as far as received, in an object that is being written."""
    at = begun_at(text, name)
    escaped = "" if at is None else TextOfField(name).feed("{" + text[at:])
    whole: str = json.loads(f'"{escaped}"')
    return whole


def _with(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with the fields of both, those of ``other`` last."""
    both = {**first, "properties": {**first["properties"], **other["properties"]}}
    both["required"] = [*(first.get("required") or ()), *(other.get("required") or ())]
    for word in DEFINITIONS:
        if word in other:
            both[word] = {**other[word], **(first.get(word) or {})}
    return both


def complaint(received: str, wrong: str) -> str:
    """Return what a second try is shown of the first."""
    return f"\n\nThis was answered before: {received[:_RECEIVED]}\n\nThat cannot be used: {wrong}."


def _listed(schema: Mapping[str, Any]) -> str:
    """List the fields of a record with their descriptions, with nested fields below them."""
    lines: list[str] = []

    def add(part: Any, depth: int) -> None:
        part = without_null(resolved(part, schema), schema)
        items = resolved(part.get("items"), schema)  # a list of schemas in older dialects
        part = without_null(items, schema) if isinstance(items, Mapping) else part
        named = part.get("properties")
        if not isinstance(named, Mapping) or depth > _LEVELS:
            return
        for name, given in named.items():
            if len(lines) == _MOST_LISTED:  # mutually nested records would list millions
                return
            inner = resolved(given, schema)
            description = inner.get("description") if isinstance(inner, Mapping) else None
            line = f"{'  ' * depth}- `{name}`"
            lines.append(
                f"{line}: {' '.join(description.split())[:_DESCRIPTION]}" if isinstance(description, str) else line
            )
            if isinstance(inner, Mapping):
                add(inner, depth + 1)

    add(schema, 0)
    return "\n".join(lines)


def _has_validators(model: type[BaseModel] | None) -> bool:
    """Return whether the caller's code decides what is valid, beyond the schema."""

    def holds(part: Any) -> bool:
        if isinstance(part, Mapping):
            kind = part.get("type")
            return (isinstance(kind, str) and kind.startswith("function-")) or any(map(holds, part.values()))
        return isinstance(part, list | tuple) and any(map(holds, part))

    return model is not None and holds(model.__pydantic_core_schema__)
