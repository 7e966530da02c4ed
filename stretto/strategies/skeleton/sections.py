"""Write an answer in sections: the opening while the plan is written, the sections in parallel, the closing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import anyio

from stretto.backends.base import ModelRequest
from stretto.language.forms import FormName
from stretto.router.forecast import TYPICAL_TOKENS_PER_WORD
from stretto.router.parse import Parse
from stretto.router.track_record import Kind
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, direct_spec, rest_of, shared_by_all, template_messages
from stretto.strategies.quality.text_guard import FAULTS, LowQualityTextError, TextGuard
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.merge import Ending, TextFilter
from stretto.strategies.runtime.parts import THINKING, Flow, notes_for, part_options, room_of, warn_of_limits
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.skeleton.plan import PlanParser, Section
from stretto.strategies.skeleton.points_text import INDENTS, PointText, label
from stretto.strategies.skeleton.section_text import Seams, SectionText
from stretto.strategies.skeleton.skeleton_offer import (
    FEWEST_SECTIONS,
    SHORT,
    TOGETHER,
    WORDS_OF_A_SECTION,
    items_of,
    most_sections,
)
from stretto.strategies.skeleton.twice import TextSoFar, WithoutRepeats
from stretto.values.answer import REFUSALS, Branch
from stretto.values.errors import StrettoError
from stretto.values.events import BranchStarted, SectionPlanned
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request
from stretto.values.route import Route

PLAN_TOKENS = 700
FEWEST_WORDS, USUAL_LENGTH = 150, 560  # of an answer in sections; of one whose model's direct answers are unknown
FIRST_WAVE = 2  # sections whose beginnings the others read
MOST_EDITS = 3  # sentences that are requested again
BEGINNING = 4  # characters of it a word that the section is to have: some two thirds of the section
HEADINGS_WANTED = (
    'Begin each of them with a line that holds "## " and its heading as the plan has it; no other line begins with '
    '"## ". Go on with the content'
)
_NO_FAULT = ("deadline", "budget", *REFUSALS)  # ends of a plan that say nothing about what the model can do


class SectionsAnswer:
    """One answer in sections."""

    shares_calls = True
    """Whether one call can write multiple short sections."""
    says_once = True
    """Whether sections are checked for repeating text of an earlier one."""
    section_template, name_of_one, name_of_several = "section", "section", "sections"
    headed = "Its heading is put before it. Begin with the content"

    def __init__(self, request: Request, route: Route, runner: Runner, parse: Parse) -> None:
        self._request, self._route, self._runner, self._parse = request, route, runner, parse
        self._parser = PlanParser()
        self._fewest = FEWEST_SECTIONS
        self._opening = _Opening()
        self._written: list[RunningBranch] = []
        self._taken = 0  # sections of the plan that are being written, or wait for the next
        self._group: list[Section] = []  # short sections that wait
        self._beginnings: dict[RunningBranch, int] = {}  # characters of sections that others read
        self._so_far, self._edits = TextSoFar(), 0
        self._announced = 0  # headings
        self._notes = notes_for(request)
        self._effort: Literal["low"] | None = None if request.preference == "careful" else "low"
        self._thinking = THINKING if runner.capabilities.reasoning else 0
        self._length = 0  # in words, of the whole answer
        self._omits = request.on_missing == "omit"
        self._headed = False  # the first heading has been shown
        self._complete = False  # the plan has no more sections
        self._planned = anyio.Event()  # the plan is whole

    async def run(self) -> StrategyResult:
        """Write the answer; directly if the model writes no plan."""
        plan = self._runner.start(self._plan_spec())
        self._runner.merge.add_branch(self._opening, filter_=self._filter())
        while piece := await plan.read():
            self._parser.feed(piece)
            await self._know()
            if self._parser.is_plan is False or (self._parser.is_too_long and not self._written):
                break
        else:
            cut = plan.finish_reason in ("length", "budget")
            self._parser.finish(cut=cut or plan.exception is not None)  # half a heading does not count
            # A heading that is already shown stays if the plan breaks off after it.
            if self._parser.is_plan and (plan.exception is None or len(self._parser.sections) < self._fewest):
                self._parser.complete()
            self._complete = True
            await self._know()
        self._planned.set()
        enough = len(self._written) >= self._fewest
        if enough or (plan.exception is None and plan.finish_reason not in _NO_FAULT):
            self._runner.known.note_track_record(Kind.PLANS, self._request, managed=enough)
        if not enough:
            return await self._go_on_straight(plan)
        self._opening.end()
        self._note_gap(plan)
        warn_of_limits(self._request, self._runner)
        if self._parser.closing:
            self._runner.merge.add("\n\n")
            self._runner.merge.add_branch(self._runner.start(self._closing_spec()))
        await self._runner.merge.finish()
        return StrategyResult()

    def _note_gap(self, plan: RunningBranch) -> None:
        """Note a plan that ended before its last line: the answer lacks what should have followed."""
        if plan.exception is None and (self._parser.is_whole or plan.finish_reason not in ("length", "budget")):
            return
        plan.use = "lacking"
        if plan.exception is None and plan.finish_reason == "length":
            plan.reported = True
            missing = f"{self.name_of_several} or the closing may be missing"
            warning = f"The plan was cut before its end, so {missing}. Ask with strategy='direct'."
            self._runner.warn(warning, "part_cut", part=plan.spec.id)

    async def _know(self) -> None:
        """Process what is new in the plan."""
        self._opening.add(self._parser.new_opening())
        for index in range(self._announced, len(self._parser.headings)):
            heading = self._parser.headings[index]
            await self._runner.announce(
                SectionPlanned(branch_id=f"section-{index + 1}", index=index + 1, heading=heading)
            )
            self._announced = index + 1
        if len(self._parser.headings) >= self._fewest:
            self._head()
            for section in self._parser.sections[self._taken :]:
                if self._may_start(section):
                    self._take(section)
            if self._complete:
                self._start_group()

    def _take(self, section: Section) -> None:
        """Start a section, or let it wait for the next one if both are short. The first one never waits."""
        self._taken += 1
        words = self._words_of(section)
        if self._group and sum(map(self._words_of, self._group)) + words >= TOGETHER:
            self._start_group()
        self._group.append(section)
        is_last = section.index == len(self._parser.headings) and self._parser.headings_are_complete
        full = sum(map(self._words_of, self._group)) + SHORT >= TOGETHER
        if section.index == 1 or full or is_last or not self.shares_calls:
            self._start_group()

    def _start_group(self) -> None:
        """Start the waiting sections, in one call."""
        group, self._group = self._group, []
        if len(group) < 2:
            for section in group:
                self._start(section)
            return
        shared = self._runner.start(self._group_spec(group))
        shared.withhold()
        shared.reported = True  # its sections report how they were cut
        headings = [each.heading for each in group]
        for place, section in enumerate(group):
            given = partial(part_of, shared, headings, place)
            self._start(section, until=shared.spec.until, given=given)

    def _head(self) -> None:
        """Show the first heading once all are known, a second before the line of its section arrives."""
        if self._headed or self._omits or self._parser.is_too_long or not self._parser.headings_are_complete:
            return
        self._headed = True
        self._opening.end()
        self._runner.merge.add(partial(self._label, self._parser.headings[0]))

    def _start(self, section: Section, **shared: Any) -> None:
        """Start a section and add it to the answer. ``shared``: fields of its branch, if one call writes several."""
        self._opening.end()
        running = self._runner.start(replace(self._section_spec(section), **shared))
        self._written.append(running)
        self._beginnings[running] = BEGINNING * self._words_of(section)
        label = partial(self._label, section.heading)
        if not self._omits and not (self._headed and section.index == 1):
            self._runner.merge.add(label)
        if section.index == 1:
            self._so_far.add(0, self._parser.opening)
        filter_ = self._filter(section)
        checked = self.says_once and self._request.preference != "fastest"
        self._runner.merge.add_branch(
            WithoutRepeats(running, filter_, section.index, self._so_far, self._again) if checked else running,
            lead=label if self._omits else None,
            filter_=None if checked else filter_,
            ending=self._ending(section),
        )

    async def _again(self, earlier: str, sentence: str) -> str | None:
        """Request a sentence again without what it repeats; return it unchanged on failure or after `MOST_EDITS`."""
        self._edits += 1
        if self._edits > MOST_EDITS:
            return sentence
        room = room_of(len(sentence.split())) + 20 + self._thinking
        spec = BranchSpec(
            id=f"edit-{self._edits}",
            kind="edit",
            prompt=lambda target: self._model_request(target, "say_once", told=earlier, next=sentence),
            options=part_options(self._request, room),
        )
        running = self._runner.start(spec)
        running.withhold()
        await running.ended()
        text = " ".join(running.text.split())
        if running.exception is not None or running.finish_reason != "stop" or not text:
            return sentence
        return None if text.strip("\"'.").casefold() == "none" else text

    def _may_start(self, section: Section) -> bool:  # noqa: ARG002 - for answers whose sections need the whole plan
        return True

    def _label(self, heading: str) -> str:
        """Return the text above a section; made when its turn comes."""
        return f"\n\n## {heading}\n\n"

    def _filter(self, section: Section | None = None) -> TextFilter | None:
        """Return the last filter of a section's or the opening's text."""
        return None if section is None else SectionText(section.heading)

    def _ending(self, section: Section) -> Ending:  # noqa: ARG002 - for answers that know what it should contain
        return self._notes.ending

    def _closing(self) -> str:
        return self._parser.closing

    async def _enough(self, sections: Sequence[tuple[RunningBranch, int]]) -> None:
        """Wait until the plan is whole and the beginnings of sections are written."""
        await self._planned.wait()
        for running, characters in sections:
            await running.reached(characters)

    def _whole_length(self) -> int:
        """Return how many words the answer has: as the question asks, or else as this model's direct answers have."""
        if (asked_for := self._words()) is not None:
            return asked_for
        tokens = self._runner.known.usual_tokens(self._route.shape)
        words = USUAL_LENGTH if tokens is None else tokens / TYPICAL_TOKENS_PER_WORD
        if (most := self._request.options.max_tokens) is not None:
            words = min(words, most / TYPICAL_TOKENS_PER_WORD)
        return max(FEWEST_WORDS, round(words * self._parse.depth / 10) * 10)

    def _words(self) -> int | None:
        """Return the length in words that the question asks for, if any."""
        return self._parse.words

    def _plan_values(self, words: int) -> tuple[str, dict[str, str]]:
        """Return the template that asks for a plan, and its values."""
        most, fewest = most_sections(words), FEWEST_SECTIONS
        return "plan", {
            "words": f"{words}" if self._words() else f"{words * 9 // 100 * 10} to {words * 115 // 1000 * 10}",
            "sections": f"{fewest} to {most}" if most > fewest else str(fewest),
            "longest": str(max(WORDS_OF_A_SECTION, words * 4 // 100 * 10)),
        }

    def _section_values(self, sections: Sequence[Section]) -> dict[str, str]:  # noqa: ARG002 - for answers without briefs
        """Return further values for the template of sections."""
        return {}

    def _plan_spec(self) -> BranchSpec:
        self._length = self._whole_length()
        template, values = self._plan_values(self._length)

        def prompt(target: PromptTarget) -> ModelRequest:
            return self._model_request(target, template, **values)

        prompt(self._runner.target)  # as in `direct_spec`
        return BranchSpec(
            id="plan",
            kind="plan",
            label="The plan",
            prompt=prompt,
            options=part_options(self._request, PLAN_TOKENS + self._thinking),
            fallback_prompt=lambda target, received: None if received.strip() else prompt(target),
            allow_refusal=True,
        )

    def _words_of(self, section: Section) -> int:
        return section.words or self._length // max(len(self._parser.headings), FEWEST_SECTIONS)

    def _section_spec(self, section: Section) -> BranchSpec:
        words, written = self._words_of(section), self._written_for(section)

        def fallback_prompt(target: PromptTarget, received: str) -> ModelRequest:
            if received.strip():
                return self._model_request(target, "continue_point", section, title=section.heading, received=received)
            return self._model_request(target, "point_alone", section, title=section.heading, words=str(words))

        return BranchSpec(
            id=f"section-{section.index}",
            kind="section",
            heading=section.heading,
            form=section.form,
            index=section.index,
            label=f"Section {section.index}, {section.heading!r},",
            prompt=partial(self._sections_prompt, [section], self._parser.text, written),
            options=self._options_of([section]),
            until=partial(self._enough, written) if written else None,
            fallback_prompt=fallback_prompt,
            watch=self._watching([section]),
        )

    def _group_spec(self, group: Sequence[Section]) -> BranchSpec:
        """Return the spec of one call that writes multiple sections; each is a branch that takes its part."""
        written = self._written_for(group[0])
        return BranchSpec(
            id=f"sections-{group[0].index}-{group[-1].index}",
            kind="sections",
            title=f"{group[0].heading} … {group[-1].heading}",
            label=f"The call for sections {group[0].index} to {group[-1].index}",
            prompt=partial(self._sections_prompt, group, self._parser.text, written),
            options=self._options_of(group),
            until=partial(self._enough, written) if written else None,
            watch=self._watching(group),
        )

    def _written_for(self, section: Section) -> Sequence[tuple[RunningBranch, int]]:
        """Return the sections that a later one reads, with how many characters of each."""
        waits = section.index > FIRST_WAVE and self._request.preference != "fastest"
        return [(each, self._beginnings[each]) for each in self._written[:FIRST_WAVE]] if waits else []

    def _sections_prompt(
        self,
        sections: Sequence[Section],
        plan: str,
        written: Sequence[tuple[RunningBranch, int]],
        target: PromptTarget,
    ) -> ModelRequest:
        """Ask for one section or adjacent ones. ``plan``: as known when they started; complete for waiting ones."""
        named = " | ".join(f'"{each.heading}"' for each in sections)
        alone = len(sections) == 1
        return self._model_request(
            target,
            self.section_template,
            sections[0],
            plan=self._parser.text if written else plan,
            written=_already(written),
            which=f"{self.name_of_one if alone else self.name_of_several} {named}",
            headings=self.headed if alone else HEADINGS_WANTED,
            **self._section_values(sections),
        )

    def _options_of(self, sections: Sequence[Section]) -> GenerationOptions:
        words = sum(map(self._words_of, sections))
        room = min(room_of(words), self._request.part_tokens or 1 << 30) + self._thinking
        if (most := self._request.options.max_tokens) is not None:
            room = min(room, max(1, most * len(sections) // max(len(self._parser.headings), FEWEST_SECTIONS)))
        return part_options(self._request, room, sections[0].index)

    def _watching(self, sections: Sequence[Section]) -> Callable[[], TextGuard]:
        own = {each.heading for each in sections}
        others = [each for each in self._parser.headings if each not in own]
        return partial(TextGuard, self._runner.leaks.search(), others)

    def _closing_spec(self) -> BranchSpec:
        """Return the spec of a separate branch for the closing, which readers see as soon as the plan contains it."""

        async def take(running: RunningBranch) -> None:
            running.progress.started_s = self._runner.now_s()
            await self._runner.announce(BranchStarted(branch_id=running.spec.id, kind="closing"))
            running.write(self._closing(), self._runner.now_s())

        return BranchSpec(
            id="closing", kind="closing", prompt=lambda _: ModelRequest(()), options=self._request.options, work=take
        )

    def _model_request(
        self,
        target: PromptTarget,
        template: str,
        section: Section | None = None,  # noqa: ARG002 - for answers whose sections cite sources
        /,
        **values: str,
    ) -> ModelRequest:
        messages = template_messages(self._request, target, template, **values)
        return ModelRequest(messages, effort=self._effort, shared=shared_by_all(self._request, messages))

    async def _go_on_straight(self, plan: RunningBranch) -> StrategyResult:
        """Answer in one piece: from scratch, or after the opening if the reader has it."""
        reason = "the model wrote no plan" if plan.exception is None else str(plan.exception).rstrip(".")
        if plan.exception is None and self._parser.headings:
            reason = f"the plan had fewer than {self._fewest} {self.name_of_several}"
        plan.cancel(reason)
        for running in self._written:
            running.drop(reason)
        for running in (plan, *self._written):  # until then their tokens are held back from the budget
            await running.ended()
        begun = self._parser.opening
        self._runner.warn(f"Answered in one piece instead of by a plan: {reason}.", "strategy")
        self._opening.end()
        if begun:
            self._runner.merge.add("\n\n")
        return await self._answer_straight(begun)

    async def _answer_straight(self, begun: str) -> StrategyResult:
        """Answer in one piece, after an opening that the reader has."""
        if not begun:
            return await Direct().run(self._request, self._route, self._runner)

        def rest(target: PromptTarget, received: str = "") -> ModelRequest:
            return rest_of(self._request, target, f"{begun}\n\n{received}")

        spec = direct_spec(self._request, self._runner)
        running = self._runner.start(replace(spec, prompt=rest, fallback_prompt=rest, standalone=False))
        self._runner.merge.add_branch(running)
        await self._runner.merge.finish()
        return StrategyResult(strategy=Direct.name, by_itself=True)  # the opening stays if the rest fails


class ListAnswer(SectionsAnswer):
    """A list that was asked for. Its items start once all names are known; the library numbers or bullets them."""

    section_template, name_of_one, name_of_several = "list_item", "item", "items"
    headed = "Its name is put before it. Begin with the content"

    def __init__(self, request: Request, route: Route, runner: Runner, parse: Parse) -> None:
        super().__init__(request, route, runner, parse)
        self._form: FormName = "bulleted" if parse.form == "bulleted" else "numbered"
        self._items = items_of(parse, self._whole_length())
        self._labels = 0
        if parse.points.asked:
            self._fewest = self._items
        self._parser = PlanParser(self._items)

    async def _know(self) -> None:
        if self._parser.headings_are_complete or self._complete:
            self._parser.complete()
        await super()._know()

    def _plan_values(self, words: int) -> tuple[str, dict[str, str]]:
        many = f"Exactly {self._items}" if self._parse.points.asked else f"{self._fewest} to {self._items}"
        return "plan_list", {"words": str(words), "sections": many}

    def _section_values(self, sections: Sequence[Section]) -> dict[str, str]:
        words = f"about {max(1, self._words_of(sections[0]) // 5) * 5} words"
        return {"words": words if len(sections) == 1 else f"{words} each"}

    def _label(self, heading: str) -> str:
        self._labels += 1
        return ("\n\n" if self._labels == 1 else "") + label(self._form, heading, self._labels)

    def _filter(self, section: Section | None = None) -> TextFilter | None:
        return None if section is None else PointText(section.heading, INDENTS[self._form])


async def part_of(shared: RunningBranch, headings: Sequence[str], place: int) -> AsyncGenerator[str]:
    """Yield the text of one section as it streams in a call that writes multiple sections.

    Raises `LowQualityTextError` if a check cut the call within this section, and another `StrettoError` if the call
    ended otherwise before its last section.
    """
    seams, read, begun, blank = Seams(headings), 0, False, ""
    while seams.place <= place:
        await shared.reached(read + 1)
        ended, text = shared.branch is not None, shared.text
        for at, piece in [*seams.feed(text[read:]), *(seams.finish() if ended else ())]:
            blank += piece if at == place else ""
            if shown := blank.rstrip():
                yield shown if begun else shown.lstrip()
                begun, blank = True, blank[len(shown) :]
        read = len(text)
        if ended:
            break
    if seams.place > place:
        return
    if (screen := shared.outcome.cut_by) is not None:
        raise LowQualityTextError(FAULTS[screen])
    if shared.exception is not None or shared.finish_reason != "stop":
        raise shared.exception or StrettoError("The call was cut before its last section.")


def _already(sections: Sequence[tuple[RunningBranch, int]]) -> str:
    """Return the beginnings of sections as others read them, independent of how fast they stream."""
    texts = []
    for running, characters in sections:
        text, more = running.text[:characters].strip(), len(running.text) > characters
        if text:
            texts.append(f"## {running.spec.heading}\n{text.rpartition(' ')[0] + ' ...' if more else text}")
    return "These sections are being written:\n\n" + "\n\n".join(texts) if texts else ""


class _Opening:
    """The opening of the plan, as a part of the merged text."""

    def __init__(self) -> None:
        self._flow, self._shown = Flow(), ""
        self._begun = self._ended = False
        self._news = anyio.Event()

    def add(self, text: str) -> None:
        """Take new text of the opening."""
        if not self._ended and (shown := self._flow.feed(text)):
            self._shown += shown if self._begun else shown.lstrip()
            self._begun = True
            self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def read(self) -> str:
        while not (self._shown or self._ended):
            self._news = anyio.Event()
            await self._news.wait()
        shown, self._shown = self._shown, ""
        return shown

    async def ended(self) -> Branch:
        """Never called: the opening has no note at its end."""
        raise NotImplementedError
