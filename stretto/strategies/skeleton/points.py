"""Write an answer by points, as in Skeleton-of-Thought: an outline, then the text of each of its points.

After Ning et al., arXiv 2307.15337. New here: a point starts as soon as its outline line is complete, while the outline
is still being written. It is the form of the demonstration model, and exists for comparison: from a strong model,
readers never preferred such an answer to a direct one (``docs/quality.md``).
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Literal

from stretto.backends.base import ModelRequest
from stretto.router.obstacles import MOST_POINTS
from stretto.router.parse import Parse
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, shared_by_all, template_messages
from stretto.strategies.quality.phrases import Phrases
from stretto.strategies.quality.text_guard import TextGuard
from stretto.strategies.quality.titles import Titles
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.parts import THINKING, notes_for, part_options, room_of, share_of, warn_of_limits
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.shortfall import code_of
from stretto.strategies.skeleton.outline import CANCEL_LINE, OutlineParser, Point
from stretto.strategies.skeleton.points_text import EXPECTED_POINTS, INDENTS, PointText, label, words_for
from stretto.values.answer import REFUSALS, Branch
from stretto.values.events import SectionPlanned
from stretto.values.request import Request
from stretto.values.route import Route

FEWEST_POINTS = 2
OUTLINE_TOKENS = 400  # ten titles


class PointsAnswer:
    """One answer by points."""

    def __init__(self, request: Request, route: Route, runner: Runner, parse: Parse) -> None:
        self._request, self._route, self._runner, self._parse = request, route, runner, parse
        self._form = parse.form or "numbered"
        self._wanted = parse.points.asked if (parse.points.asked or 0) <= MOST_POINTS else None
        self._most = self._wanted or MOST_POINTS
        self._parser = OutlineParser(2 * self._most)  # titles can be rejected
        self._titles = Titles(request.question, Phrases(runner.target.template("skeleton").wordings, whole=2))
        self._known: list[Point] = []
        self._written: list[RunningBranch] = []
        self._placed = 0
        self._labels = 0
        self._cut = False
        self._effort: Literal["low"] | None = None if request.preference == "careful" else "low"
        self._thinking = THINKING if runner.capabilities.reasoning else 0
        self._notes = notes_for(request)

    async def run(self) -> StrategyResult:
        """Write the outline, start points as they become known, and merge them in order; or else answer directly."""
        outline = self._runner.start(self._outline_spec())
        while piece := await outline.read():
            await self._know(self._parser.feed(piece))
            if self._doubt:
                break
            if self._cut:
                outline.cancel(f"it has more points than {'are asked for' if self._wanted else 'an answer can hold'}")
                break
        else:
            if outline.exception is not None or _was_cut_short(outline):
                self._parser.feed(CANCEL_LINE)  # half a title does not count
            await self._know(self._parser.finish())
        ran_out = outline.finish_reason in ("deadline", "budget")  # then there will be no second point
        if self._doubt or (len(self._known) < FEWEST_POINTS and not (self._known and ran_out)):
            return await self._go_on_straight(outline)
        for point in self._known[len(self._written) :]:
            self._written.append(self._runner.start(self._point_spec(point, len(self._known))))
        self._place()
        warn_of_limits(self._request, self._runner)
        self._warn(outline)
        await self._runner.merge.finish()
        return StrategyResult()

    async def _know(self, points: list[Point]) -> None:
        """Take new points: announce them, and start them unless they have to wait for all titles."""
        for found in points:
            if self._doubt or self._cut or self._titles.take(found.title) is not None:
                continue
            if len(self._known) == self._most:
                self._cut = True
                continue
            point = Point(len(self._known) + 1, found.title)
            self._known.append(point)
            await self._runner.announce(
                SectionPlanned(branch_id=f"point-{point.index}", index=point.index, heading=point.title)
            )
            if self._request.preference != "careful":
                self._written.append(self._runner.start(self._point_spec(point)))
        if len(self._known) >= FEWEST_POINTS and self._written:
            self._place()

    def _place(self) -> None:
        """Add the points that are being written to the answer."""
        for point, running in zip(self._known[self._placed :], self._written[self._placed :], strict=False):
            omits = self._request.on_missing == "omit"  # then a label waits for the first text of its point
            lead = partial(self._label, point)
            if not omits:
                self._runner.merge.add(lead)
            self._runner.merge.add_branch(
                running,
                lead=lead if omits else None,
                filter_=PointText(point.title, INDENTS.get(self._form, "")),
                ending=self._ending,
            )
        self._placed = len(self._written)

    def _label(self, point: Point) -> str:
        self._labels += 1
        return label(self._form, point.title, self._labels)

    def _ending(self, branch: Branch) -> str:
        return self._notes.ending(branch, branch.heading if self._form == "paragraphs" else "")

    @property
    def _doubt(self) -> str:
        """Why this outline should not become an answer, as half a sentence; empty once two titles are shown."""
        if self._placed:
            return ""
        if self._parser.prose:
            return "the outline is running text"
        return self._titles.wrong[-1][1] if self._titles.hopeless else ""

    def _warn(self, outline: RunningBranch) -> None:
        """Warn about titles that were left out, and points that are missing."""
        outline.reported = True
        if self._titles.wrong:
            titles, causes = (", ".join(dict.fromkeys(each)) for each in zip(*self._titles.wrong, strict=True))
            self._runner.warn(f"Titles of the outline were left out ({titles}): {causes}.", "part_missing")
        count, part, code = len(self._known), outline.spec.id, code_of(outline, "part_cut")
        after = "one point" if count == 1 else f"{count} points"
        if self._cut:
            warning = f"The outline had more than {self._most} points; the first {self._most} are written."
            self._runner.warn(warning, "part_missing", part=part)
        elif outline.exception is not None:
            self._runner.warn(f"The outline broke off after {after}: {outline.exception}", code, part=part)
            if self._wanted is None or count < self._wanted:
                outline.use = "lacking"
        elif _was_cut_short(outline) and (self._wanted is None or count < self._wanted):
            warning = f"The outline was cut after {after}, so points may be missing."
            self._runner.warn(f"{warning} Allow more tokens, or ask with strategy='direct'.", code, part=part)
            outline.use = "lacking"
        elif self._wanted and count < self._wanted:
            self._runner.warn(f"{self._wanted} points are asked for, and the outline had {count}.", "part_missing")

    async def _go_on_straight(self, outline: RunningBranch) -> StrategyResult:
        """Answer in one piece after all, as long as nothing is shown yet."""
        if reason := self._doubt:
            outline.cancel(reason)
        elif outline.finish_reason in REFUSALS:
            reason = "the model refused to write an outline"
        elif outline.exception is not None:
            reason = str(outline.exception).rstrip(".")
        else:
            reason = f"the outline had {'one point' if self._known else 'no points'}"
        for running in self._written:
            running.drop("its outline had no other point")
        for running in (outline, *self._written):  # until then their tokens are held back from the budget
            await running.ended()
        self._runner.warn(f"Answered in one piece instead of by points: {reason}.", "strategy")
        return await Direct().run(self._request, self._route, self._runner)

    def _outline_spec(self) -> BranchSpec:
        number = f"3 to {MOST_POINTS} points, fewer if fewer say it all"
        if self._wanted:
            number = f"exactly {self._wanted} points, as the question asks for"

        def prompt(target: PromptTarget) -> ModelRequest:
            return self._model_request(target, "skeleton", number=number)

        prompt(self._runner.target)  # as in `direct_spec`

        def fallback_prompt(target: PromptTarget, received: str) -> ModelRequest:
            if not (lines := received[: received.rfind("\n") + 1].strip()):
                return prompt(target)
            return self._model_request(target, "continue_outline", received=lines, number=number)

        return BranchSpec(
            id="outline",
            kind="outline",
            prompt=prompt,
            options=part_options(self._request, OUTLINE_TOKENS + self._thinking),
            fallback_prompt=fallback_prompt,
            restart_marker=CANCEL_LINE,
            allow_refusal=True,
        )

    def _point_spec(self, point: Point, count: int | None = None) -> BranchSpec:
        """Return the spec of the branch that writes a point; ``count``: of all points, ``None`` while that is open."""
        count = count or self._wanted
        words = words_for(self._request, self._parse, count)
        others = [other.title for other in self._known if other is not point]
        values = {
            "outline": "\n".join(f"{each.index}. {each.title}" for each in self._known),
            "index": str(point.index),
            "title": point.title,
            "words": str(words),
            "others": f"Leave out what belongs to the other points: {'; '.join(others)}." if others else "",
            "form": "Paragraphs and lists are allowed, headings are not."
            if self._form == "sections"
            else "Write one paragraph without a list.",
        }

        def fallback_prompt(target: PromptTarget, received: str) -> ModelRequest:
            if received.strip():
                return self._model_request(target, "continue_point", title=point.title, received=received)
            return self._model_request(target, "point_alone", title=point.title, words=str(words))

        room = min(room_of(words), self._request.part_tokens or sys.maxsize) + self._thinking
        return BranchSpec(
            id=f"point-{point.index}",
            kind="section",
            heading=point.title,
            index=point.index,
            label=f"Point {point.index}, {point.title!r},",
            prompt=lambda target: self._model_request(target, "point", **values),
            options=part_options(self._request, share_of(self._request, room, count or EXPECTED_POINTS), point.index),
            fallback_prompt=fallback_prompt,
            watch=lambda: TextGuard(self._runner.leaks.search(), (point.title, *others)),
        )

    def _model_request(self, target: PromptTarget, template: str, **values: str) -> ModelRequest:
        """Make a prompt that outline and points share up to its last lines: conversation, documents, question."""
        messages = template_messages(self._request, target, template, **values)
        return ModelRequest(messages, effort=self._effort, shared=shared_by_all(self._request, messages))


def _was_cut_short(outline: RunningBranch) -> bool:
    return outline.finish_reason in ("length", "budget")
