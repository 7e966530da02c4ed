"""A report on documents: a plan over what was read, then its sections in parallel, each from what concerns it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from stretto.backends.base import ModelRequest
from stretto.router.parse import Parse
from stretto.strategies.base import StrategyResult
from stretto.strategies.document.citing import CitationFilter, labelled, numbers_named
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.final import CITING, answer_from, answer_whole, listed
from stretto.strategies.document.findings import Finding, Findings
from stretto.strategies.document.task import REPORT_WORDS
from stretto.strategies.quality.words import words_of
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fencing import unfenced
from stretto.strategies.runtime.merge import Ending, TextFilter
from stretto.strategies.skeleton.plan import Section
from stretto.strategies.skeleton.sections import SectionsAnswer
from stretto.values.answer import Branch
from stretto.values.citation import Citation
from stretto.values.route import Route

_FURTHER = "The findings that no section names are yours too: tell them where they fit, or briefly at the end."
PLAN_ROOM = 2_500  # tokens of the window for the plan, the instructions and a section, in addition to all that was read
_SHORTEST_WORD = 4  # characters of a word that helps to find the section nearest to a finding
_BRIEFLY = 200  # characters of a quotation in a finding without an answer


@dataclass(frozen=True)
class Material:
    """What a report is written from, in numbered pieces.

    Attributes:
        label: what prompts call it.
        briefly: all of it, as shown to the plan.
        whole: all of it, as shown to a section that names no numbers.
        pieces: each as shown to a section, with the numbers that cite it.
        citation: returns the citation for a number.
        straight: starts the answer in one piece, after an opening that the reader may already have.
        around: neighbours on either side that accompany a piece.
        found: the findings, if the pieces are findings, each of which has to be reported.
    """

    label: str
    briefly: str
    whole: str
    pieces: Sequence[tuple[str, tuple[int, ...]]]
    citation: Callable[[int], Citation | None]
    straight: Callable[[str], CitationFilter]
    around: int = 0
    found: _Found | None = None

    def concerning(self, numbers: Collection[int]) -> list[int]:
        """Return the indexes of the pieces with any of these numbers; all of them if there are none."""
        found = {index for index, (_, own) in enumerate(self.pieces) if not set(own).isdisjoint(numbers)}
        if not found:
            return list(range(len(self.pieces)))
        near = range(-self.around, self.around + 1)
        return sorted({index + step for index in found for step in near} & set(range(len(self.pieces))))

    def shown(self, indexes: Sequence[int]) -> str:
        """Return these pieces as a prompt shows them."""
        return self.whole if len(indexes) == len(self.pieces) else "\n\n".join(self.pieces[each][0] for each in indexes)


@dataclass(frozen=True)
class _Found:
    """The findings that a report has to cover."""

    findings: Findings
    kept: Sequence[Finding]
    mark: str

    def briefly(self, finding: Finding) -> str:
        """Return one finding as shown to the plan: its text and its numbers."""
        text = " ".join(finding.answer.split())
        if not text and finding.evidence:
            text = self.quote(finding.evidence[0])[:_BRIEFLY]
        return f"- {text} {''.join(labelled(self.mark, number) for number in finding.evidence)}".rstrip()

    def quote(self, number: int) -> str:
        return " ".join(self.findings.quotes[number].quote.split())

    def part(self, index: int, numbers: Sequence[int]) -> str:
        """Return a finding as a prompt shows it, with only these of its quotations."""
        return self.findings.all_shown([replace(self.kept[index], evidence=tuple(numbers))])

    def instead(self, parts: Mapping[int, Sequence[int]]) -> str:
        """Return findings with these of their quotations as text, in place of a section that could not be written."""
        kept = [replace(self.kept[index], evidence=tuple(numbers)) for index, numbers in sorted(parts.items())]
        return listed(self.findings, kept, self.mark)


def of_findings(reading: DocumentRun, findings: Findings, kept: Sequence[Finding]) -> Material:
    """Return findings as material: each section is based on some, and each finding is covered by one section."""
    found = _Found(findings, kept, reading.mark)
    return Material(
        label="findings",
        briefly=unfenced("\n".join(map(found.briefly, kept)), reading.library.fence),
        whole=findings.all_shown(kept),
        pieces=[(findings.all_shown([each]), each.evidence) for each in kept],
        citation=findings.citation_of,
        straight=lambda begun: answer_from(reading, findings, kept, begun),
        found=found,
    )


def of_documents(reading: DocumentRun, text: str) -> Material:
    """Return documents that fit into the window as material, in short passages; each section is based on some."""
    library = reading.library
    titled = len(library.documents) > 1
    pieces = [
        (
            f"{labelled(reading.mark, place.number)} "
            f'{f"""(document "{library.titles[place.document]}") """ if titled else ""}{library.text(place)}',
            (place.number,),
        )
        for place in library.places
    ]
    return Material(
        label="documents",
        briefly=text,
        whole=text,
        pieces=pieces,
        citation=library.citation_of,
        straight=lambda begun: answer_whole(reading, text, begun),
        around=1,
    )


class Report(SectionsAnswer):
    """One report, written by a plan.

    The last section waits for the whole plan: it covers the findings that no section names, unless a section that is
    nearer to them has not begun.

    Attributes:
        citations: of the finished report, in order of first appearance, each once.
        unknown: how many numbers in marks have no citation; they were left out.
    """

    shares_calls = says_once = False  # each section reads only what it is based on

    def __init__(self, reading: DocumentRun, route: Route, material: Material, parse: Parse) -> None:
        # Sections based on different findings repeat little, so they need not wait for each other.
        quick = {} if reading.request.preference == "careful" else {"preference": "fastest"}
        super().__init__(reading.request.model_copy(update=quick), route, reading.runner, parse)
        self._reading, self._material = reading, material
        self._form = CITING.format(one=labelled(reading.mark, 3), two=labelled(reading.mark, 7))
        self._cited: dict[int, _Cited] = {}  # by place in the report: 0 is the opening
        self._prompts: dict[int, str] = {}  # of parts, to distinguish their bracketed numbers from citations
        self._rests_on: dict[int, list[int]] = {}  # pieces by section, once its prompt is made
        self._further: dict[int, dict[int, list[int]]] = {}  # unnamed pieces, by the section that covers them
        self._assigned = False

    @property
    def citations(self) -> tuple[Citation, ...]:
        found: dict[tuple[int, int, int], Citation] = {}
        for _, part in sorted(self._cited.items()):
            for each in part.citing.citations if part.citing else ():
                found.setdefault((each.document, each.start, each.end), each)
        return tuple(found.values())

    @property
    def unknown(self) -> int:
        return sum(part.citing.unknown for part in self._cited.values() if part.citing)

    def _words(self) -> int:
        return self._reading.task.words or self._parse.words or round(REPORT_WORDS * self._parse.depth)

    def _model_request(
        self,
        target: PromptTarget,
        template: str,  # noqa: ARG002 - a report has its own
        section: Section | None = None,
        /,
        **values: str,
    ) -> ModelRequest:
        if section is None:
            prompt = self._filled(target, "document_plan", self._material.briefly, **values)
            self._prompts[0] = _text_of(prompt)
            return prompt
        plan, written = values.get("plan", self._parser.text), values.get("written", "")
        prompt = self._section_prompt(target, section, plan, written)
        self._prompts[section.index] = _text_of(prompt)
        received = values.get("received")
        return self._reading.rest_of(target, prompt.messages, received) if received else prompt

    def _section_prompt(self, target: PromptTarget, section: Section, plan: str, written: str) -> ModelRequest:
        fence, further = self._reading.library.fence, self._further.get(section.index, {})
        indexes = self._rests_on.setdefault(section.index, self._concerning(section))
        blocks = {"plan": plan, "sections that are written already": written}
        if (found := self._material.found) and further:
            blocks["findings that no section names"] = "\n\n".join(found.part(*each) for each in further.items())
        more = "\n\n".join(
            f"{fence} {name}\n{unfenced(text, fence)}\n{fence} end" for name, text in blocks.items() if text
        )
        return self._filled(
            target,
            "document_section",
            self._material.shown(indexes),
            beside=more,
            heading=section.heading,
            further=_FURTHER if further else "",
        )

    def _filled(self, target: PromptTarget, template: str, records: str, **values: str) -> ModelRequest:
        one, two = labelled(self._reading.mark, 3), labelled(self._reading.mark, 7)
        values |= {"records": records, "label": self._material.label, "form": self._form, "one": one, "two": two}
        return ModelRequest(self._reading.messages(target, template, **values), effort=self._effort, reads=True)

    def _plan_spec(self) -> BranchSpec:
        return replace(super()._plan_spec(), ledger=self._reading.puts_together)

    def _section_spec(self, section: Section) -> BranchSpec:
        return replace(super()._section_spec(section), ledger=self._reading.puts_together)

    def _shown_to(self, place: int) -> dict[int, list[int]]:
        """Return the pieces that a section is shown, with their numbers."""
        shown = {index: list(self._material.pieces[index][1]) for index in self._rests_on[place]}
        return self._further.get(place, {}) | shown

    def _concerning(self, section: Section) -> list[int]:
        return self._material.concerning(numbers_named(section.brief, self._reading.mark))

    async def _know(self) -> None:
        if self._complete and self._parser.is_plan:
            self._parser.complete()  # if the plan broke off, all its headings stay: findings wait for them
        await super()._know()

    def _may_start(self, section: Section) -> bool:
        if self._complete and not self._assigned:
            self._assigned = True
            self._assign()
        return self._complete or section.index < len(self._parser.headings)

    def _assign(self) -> None:
        """Assign each piece that no section names to the section whose words are nearest.

        A section that was shown it anyway needs nothing more. If the nearest has begun without it, the last section
        covers it.
        """
        sections, found = self._parser.sections, self._material.found
        if found is None or not sections:
            return
        named = {number for each in sections for number in numbers_named(each.brief, self._reading.mark)}
        sees = {each.index: set(self._concerning(each)) for each in sections}
        about = {each.index: _content_words(f"{each.heading} {each.brief}") for each in sections}
        for index, (text, numbers) in enumerate(self._material.pieces):
            for number in numbers or (0,):
                if number in named:
                    continue
                words = _content_words(found.quote(number) if number else text)
                nearest = max(sees, key=lambda each: (len(words & about[each]), index in sees[each]))
                if index in sees[nearest]:
                    continue
                begun = nearest in self._rests_on or words.isdisjoint(about[nearest])
                extra = self._further.setdefault(sections[-1].index if begun else nearest, {})
                extra.setdefault(index, []).extend([number] if number else [])

    def _filter(self, section: Section | None = None) -> TextFilter:
        return self._citing(0 if section is None else section.index, super()._filter(section))

    def _citing(self, place: int, inner: TextFilter | None = None) -> _Cited:
        """Return the filter that turns the marks of one part into citations, limited to what its writer was shown."""

        def made() -> CitationFilter:
            resolve = self._material.citation
            if place in self._rests_on:
                shown = {number for numbers in self._shown_to(place).values() for number in numbers}
                resolve = partial(_among, shown, resolve)
            prompt = self._prompts.get(place, self._prompts.get(0, ""))
            return CitationFilter(resolve, mark=self._reading.mark, prompt=prompt)

        self._cited[place] = _Cited(made, inner)
        return self._cited[place]

    def _ending(self, section: Section) -> Ending:
        noted, found = super()._ending(section), self._material.found

        def ending(branch: Branch) -> str:
            if branch.status == "finished" or branch.text.strip() or found is None:
                return noted(branch)
            self._rests_on.setdefault(section.index, self._concerning(section))
            self._runner.warn(
                f"The section {section.heading!r} could not be written; the findings that it rests on replace it.",
                "part_missing",
            )
            cited = self._citing(section.index)
            return cited.feed(found.instead(self._shown_to(section.index))) + cited.finish()

        return ending

    def _closing(self) -> str:
        cited = self._citing(len(self._parser.headings) + 1)
        return cited.feed(self._parser.closing) + cited.finish()

    async def _answer_straight(self, begun: str) -> StrategyResult:
        cited = self._citing(1)
        cited.citing = self._material.straight(begun)
        await self._runner.merge.finish()
        return StrategyResult()


class _Cited:
    """Turns the marks of one part of a report into citations, from its first text on, when its prompt is known.

    Args:
        made: makes the filter for the marks.
        inner: a filter that is applied first.
    """

    def __init__(self, made: Callable[[], CitationFilter], inner: TextFilter | None = None) -> None:
        self._made, self._inner = made, inner
        self.citing: CitationFilter | None = None

    def feed(self, text: str) -> str:
        return self._filter().feed(text if self._inner is None else self._inner.feed(text))

    def finish(self) -> str:
        rest = "" if self._inner is None else self._inner.finish()
        return self._filter().feed(rest) + self._filter().finish()

    def _filter(self) -> CitationFilter:
        if self.citing is None:
            self.citing = self._made()
        return self.citing


def _among(shown: Collection[int], citation: Callable[[int], Citation | None], number: int) -> Citation | None:
    return citation(number) if number in shown else None


def _text_of(prompt: ModelRequest) -> str:
    return "\n".join(message.content for message in prompt.messages)


def _content_words(text: str) -> set[str]:
    """Return the content words of a text; in scripts without spaces, pairs of characters."""
    found = words_of(text)
    pairs = (one + other for one, other in pairwise(found) if len(one) == len(other) == 1)
    return {*pairs, *(word for word in found if len(word) >= _SHORTEST_WORD)}
