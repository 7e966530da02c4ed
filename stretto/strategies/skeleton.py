"""``skeleton``: an outline first, then all its points at the same time.

After Skeleton-of-Thought (Ning et al., 2307.15337), with what came later at the level of prompts:
dependencies between points (Skeleton Graph Decoding, 2402.12280) and a length for each part
(PASTA, 2502.11517). New here: a point starts the moment its outline line is complete, while the
outline is still being written, and the direct answer may run against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from stretto.answer import REFUSALS
from stretto.backends.base import ModelRequest
from stretto.events import OutlinePointReady
from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.obstacles import MOST_POINTS
from stretto.router.offer import Offer
from stretto.router.parse import parse_of
from stretto.router.standing import Kind
from stretto.strategies.branch import RunningBranch
from stretto.strategies.direct import Direct, direct_spec, rest_of
from stretto.strategies.form import Form, PointText, form_of
from stretto.strategies.grouped import Group
from stretto.strategies.harm.phrases import Phrases
from stretto.strategies.harm.titles import Titles
from stretto.strategies.harm.watch import REPEATS, SpoiledError
from stretto.strategies.limits import tell_limits
from stretto.strategies.one_point import OnePoint, nothing_new, of_no_use
from stretto.strategies.outline import CANCEL_LINE, OutlineParser, Point
from stretto.strategies.rival import Rival, is_worth_it, may_begin
from stretto.strategies.runner import Runner
from stretto.strategies.skeleton_calls import OUTLINES, SkeletonCalls
from stretto.strategies.skeleton_offer import offer_skeleton
from stretto.strategies.skeleton_warnings import tell_dropped, tell_missing, was_cut_short

FEWEST_POINTS = 2
LOST = "the direct answer was there first"


class Skeleton:
    """Outline, then points in parallel; turns into `Direct` where there is nothing to write in parallel."""

    name = "skeleton"

    def offer(self, case: Case) -> Offer:
        """Offer an outline where its points would stand on their own."""
        return offer_skeleton(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> None:
        """Write the outline, start points as they become known, merge them in order."""
        await _Skeleton(request, route, runner).run()


class _Skeleton:
    """One run: the request, and what is known of its outline so far."""

    def __init__(self, request: Request, route: Route, runner: Runner) -> None:
        self.request = request
        self.route = route
        self.runner = runner
        self.question = request.question
        self.parse = parse_of(request, route)
        self.form: Form = form_of(request, self.parse)
        self.omits = request.on_missing == "omit"  # a label waits for the first text of its point
        self.calls = SkeletonCalls(request, runner, self.parse, self.form)
        self.small = self.calls.small
        # Points wait for the whole outline when all are to know all, or when the outline of a weak model has to prove
        # itself first.
        self.waits = self.calls.careful or self.small
        self.wanted = self.parse.points.asked
        self.most = self.wanted or MOST_POINTS
        self.parser = OutlineParser(self.most, question=request.question)
        template = runner.template(OUTLINES[self.calls.careful])
        self.titles = Titles(request.question, Phrases(template.wordings, whole=2), strict=self.small)
        self.outline: RunningBranch | None = None
        self.rival: Rival | None = None
        self.points: list[Point] = []
        self.numbers: dict[int, int] = {}  # of points in the outline: those in the answer, without what is left out
        self.shown: list[Point] = []
        self.left_out = 0
        self.placed = False  # a point has its place in the answer
        self.written: dict[int, RunningBranch] = {}
        self.together = self.calls.together()  # points in one call
        self.gathered: list[Point] = []  # of the next such call
        self.groups: dict[int, Group] = {}  # by the points whose texts they write
        self.held: Point | None = None  # the first point, written but not shown while there is no other

    async def run(self) -> None:
        proven = self.small and self.runner.is_proven(Kind.POINTS)
        if self.request.race or (self.small and is_worth_it(self.request, self.runner)):
            self.rival = Rival(self.request, self.runner, self._end_lost)
        begins = proven and self.rival is not None  # the outline, at once
        if self.small and not begins and not self.request.race and await self._is_short():
            return
        outline = self.outline = self.runner.start(self.calls.outline())
        await self._read(outline)
        if self._is_poor(outline):
            outline = await self._read_another(outline)
        doubt = self._doubt()
        ran_out = outline.finish_reason in ("deadline", "budget")  # then there will be no second point
        if doubt or (len(self.points) < FEWEST_POINTS and not (self.written and ran_out)):
            if doubt:  # an outline of less than two points may follow from the question
                self._note(held=False)
            await self._go_on_directly(outline, doubt)
            return
        if not self.small or proven:
            self._win("the outline was there first")
            self.rival = None
        tell_dropped(self.titles, self.runner)
        await self._write(outline)

    async def _is_short(self) -> bool:
        """Begin the direct answer of a weak model, and show it if it ends at once.

        Where a second call beside it would cost too much, or as much as nobody knows, it stops once it is long. So a
        short answer never waits for an outline.
        """
        begun = self.rival
        if begun is None:
            if self.request.strategy != "auto" or not may_begin(self.request):
                return False
            begun = Rival(self.request, self.runner, lambda: None)
        await begun.is_long()
        if begun.is_whole:
            self.runner.warn("Answered in one piece instead of by points: the direct answer is short.")
            await begun.show()
            return True
        if self.rival is None:
            begun.running.drop("the answer is long enough for points")
        return False

    async def _read(self, outline: RunningBranch) -> None:
        """Read the outline to its end, or as far as it is of use."""
        while (piece := await outline.read()) and not self._lost():
            await self._know(self.parser.feed(piece))
            if self._doubt():
                break
            if self.titles.exhausted:
                outline.cancel("the outline only repeats itself")
                return
            if self.parser.another_begun and len(self.points) == len(self.parser.points):
                await self._show_held()
            if self.parser.cut:
                outline.cancel(f"it has more points than {'are asked for' if self.wanted else 'an answer can hold'}")
                self.runner.warn(
                    f"The outline had more than {self.parser.most} points; the first {self.parser.most} are written."
                )
                break
        if not self._lost() and not self._doubt():
            await self._know(self._last_points(outline))

    def _is_poor(self, outline: RunningBranch) -> bool:
        """Whether a weak model's outline has too few good titles, where a second one may have more."""
        if not self.small or self.wanted == 1 or len(self.points) >= FEWEST_POINTS or self._lost():
            return False
        written = outline.exception is None or outline.discarded
        return written and outline.finish_reason in ("stop", "length") and may_begin(self.request)

    async def _read_another(self, outline: RunningBranch) -> RunningBranch:
        """Read a second outline, whose titles join those of the first one that are good."""
        outline.cancel("it had too few titles")
        outline.replaced = True
        self.titles = self.titles.once_more()
        self.parser = OutlineParser(self.most, question=self.question)
        another = self.outline = self.runner.start(self.calls.outline(again=True))
        await self._read(another)
        return another

    async def _write(self, outline: RunningBranch) -> None:
        """Write the points that are not being written yet, and show all of them."""
        if self.small and not await self._expand_small():
            lost = self._lost()
            if not lost:
                self._note(held=False)
            await self._go_on_directly(outline, LOST if lost else "its points say the same, or could not be written")
            return
        if self.waits and not self.small:
            for point in self.points:
                await self._expand(point)
        await self._expand_gathered()
        await self._show_held()
        tell_limits(self.request, self.runner)
        outline.reported = True
        owes = not self.parser.cut and not (self.wanted and len(self.points) >= self.wanted)
        ended_here = self.parser.cut or self.titles.exhausted
        count, wanted = len(self.points), self.wanted
        missing = tell_missing(outline, self.runner, count=count, wanted=wanted, owes=owes, ended_here=ended_here)
        outline.partial = outline.partial or missing
        if self.parser.closing:
            self.runner.merge.add("\n\n" + self.parser.closing)
        await self.runner.merge.finish()
        self._judge_points()

    def _doubt(self) -> str:
        """Why no answer should be made of this outline, as half a sentence; empty while one may be.

        Once the reader has two titles, what is wrong is only left out.
        """
        if len(self.shown) > 1 or (self.shown and not self.small):
            return ""
        if self.parser.prose:
            return "the outline is running text"
        return self.titles.wrong[-1] if self.titles.hopeless else ""

    def _judge_points(self) -> None:
        """Note how the points turned out."""
        parts = [self.written[point.index] for point in self.points if point.index in self.written]
        wrong = [part.exception for part in parts if isinstance(part.exception, SpoiledError)]
        spoiled = sum(str(error) != REPEATS for error in wrong)  # one that says nothing is left out, and harms nobody
        given = sum(not (part.dropped or isinstance(part.exception, SpoiledError)) for part in parts)
        self._note(held=spoiled * 3 < len(parts) and given >= FEWEST_POINTS)

    def _note(self, *, held: bool) -> None:
        """Note for the router how this one went."""
        self.runner.note_standing(Kind.POINTS, self.request, held=held)

    def _last_points(self, outline: RunningBranch) -> list[Point]:
        """The points that the end of the outline completes; without half a title, if it broke off or was cut."""
        if outline.exception is not None or was_cut_short(outline):
            self.parser.feed(CANCEL_LINE)
        return self.parser.finish()

    def _lost(self) -> bool:
        """Whether the direct answer was whole before this one was decided, by points of a weak model or by titles."""
        decided = self.placed if self.small else len(self.points) >= FEWEST_POINTS
        return self.rival is not None and self.rival.is_whole and not decided

    def _end_lost(self) -> None:
        """Stop what is of no use once the direct answer has won."""
        if self._lost():
            for running in (*filter(None, (self.outline,)), *self.written.values()):
                running.cancel(LOST)

    def _win(self, reason: str) -> None:
        """Stop the direct answer."""
        if self.rival is not None:
            self.rival.running.drop(reason)

    async def _know(self, points: Sequence[Point]) -> None:
        """Take new points: announce them, and start them unless they wait for the others."""
        for found in points:
            if self._doubt() or (point := self._kept(found)) is None:
                continue
            self.points.append(point)
            await self.runner.announce(
                OutlinePointReady(branch_id=f"point-{point.index}", index=point.index, title=point.title)
            )
            if self.waits:
                continue
            if self.rival is None:
                await self._gather(point)
            elif len(self.points) >= FEWEST_POINTS:  # a race is decided by the second point
                self.rival.running.cancel("the outline was there first")
                for known in self.points:
                    if known.index not in self.written:
                        await self._expand(known)

    async def _gather(self, point: Point) -> None:
        """Start a point, or keep it until there are as many as one call is worth."""
        if self.together == 1 or point.needs:
            await self._expand_gathered()
            await self._expand(point)
            return
        self.gathered.append(point)
        if len(self.gathered) == self.together:
            await self._expand_gathered()

    async def _expand_gathered(self) -> None:
        """Start the points that were kept, by one call if there are several."""
        points, self.gathered = self.gathered, []
        if len(points) > 1:
            group = Group([point.index for point in points])
            self.groups |= {point.index: group for point in points}
            self.runner.start(self.calls.group(points, self.points, self.wanted, group))
        for point in points:
            await self._expand(point)

    def _kept(self, found: Point) -> Point | None:
        """A point with its number among those that are kept; ``None`` if its title is no good."""
        if self.titles.take(found.title, found.section) is not None:
            self.parser.most = min(self.parser.most + 1, 2 * MOST_POINTS)  # another one may take its place
            return None
        if len(self.points) >= self.most and not found.section:
            return None
        number = self.numbers[found.index] = len(self.points) + 1
        needs = tuple(self.numbers[index] for index in found.needs if index in self.numbers)
        return replace(found, index=number, needs=needs)

    async def _go_on_directly(self, outline: RunningBranch, doubt: str = "") -> None:
        """Answer directly after all: the request does not suit an outline."""
        if doubt:
            reason = doubt
            outline.cancel(doubt)
        elif outline.finish_reason in REFUSALS:
            reason = "the model refused to write an outline"
        elif outline.exception is not None:
            reason = str(outline.exception).rstrip(".")
        else:
            reason = f"the outline had {'one point' if self.points else 'no points'}"
        if self.placed and self.held is None:  # its second line had begun: the reader has the beginning of a list
            self.runner.warn(f"Continued in one piece instead of by points: {reason}.")
            await self._go_on_from(self.points[0])
            return
        for running in self.written.values():
            running.drop("its outline had no other point")
        self.runner.warn(f"Answered in one piece instead of by points: {reason}.")
        if self.rival is None or self.rival.failed:
            if self.rival is not None:
                self.rival.running.drop("the answer is written anew")
            await Direct().run(self.request, self.route, self.runner)
            return
        await self.rival.show()

    async def _go_on_from(self, point: Point) -> None:
        """Write the rest of an answer of which the reader has this one point."""
        first, spec = self.written[point.index], direct_spec(self.request, self.runner)

        def rest(received: str = "") -> ModelRequest:
            opening = f"{self.parser.opening}\n\n" if self.parser.opening else ""
            before = f"{opening}{self.form.label(point, heads=True)}{first.text}"
            return rest_of(self.request, self.runner, f"{before}\n{received}" if received else before)

        running = self.runner.start(replace(spec, prompt=rest, fallback_prompt=rest, after=(first,), standalone=False))
        self.runner.merge.add_branch(running, lead=lambda: "\n")
        await self.runner.merge.finish()

    async def _expand(self, point: Point) -> None:
        """Give a point its place in the answer and start it; its title does not wait for its call to be made ready."""
        first_of_all = not self.parser.another_begun
        if not first_of_all:
            await self._show_held()
            await self._show_title(point)
        self.written[point.index] = self._start(point)
        if first_of_all:
            self.held = point
        else:
            self._show_text(point)

    async def _show_held(self) -> None:
        """Show the first point, which was held back until another one had begun."""
        if self.held is not None:
            point, self.held = self.held, None
            await self._show_title(point)
            self._show_text(point)

    async def _expand_small(self) -> bool:
        """Write all points at once; show them in order once two are whole and say different things.

        Returns:
            whether there were two.
        """
        for point in self.points:
            self.written[point.index] = self._start(point)
        waiting: list[Point] = []
        texts: list[str] = []
        for point in self.points:
            running = self.written[point.index]
            await running.ended()
            waiting.append(point)
            if running.exception is None and not nothing_new(point, running.text, texts, self.question):
                texts.append(running.text)
            if self._lost():
                return False
            if len(texts) < FEWEST_POINTS:
                continue
            self._win("the points were there first")
            for each in waiting:
                await self._show_title(each)
                self._show_text(each)
            waiting.clear()
        if not waiting:
            return True
        if any(self.written[point.index].finish_reason in ("deadline", "budget") for point in waiting):
            for each in waiting:  # there is no time for another answer
                await self._show_title(each)
                self._show_text(each)
            return True
        return False

    def _start(self, point: Point) -> RunningBranch:
        parents = [self.written[index] for index in point.needs if index in self.written]
        count = len(self.points) if self.waits else self.wanted
        spec = self.calls.point(point, self.points, count, parents)
        if (group := self.groups.get(point.index)) is not None:
            spec = replace(spec, given=partial(group.text, point.index))
        return self.runner.start(spec)

    async def _show_title(self, point: Point) -> None:
        if point.index == 1 and self.parser.opening:
            await self.runner.merge.add_at_once(self.parser.opening + "\n\n")
        if not self.omits:
            await self.runner.merge.add_at_once(lambda: self._label(point))

    def _show_text(self, point: Point) -> None:
        self.placed = True
        running = self.written[point.index]
        self.runner.merge.add_branch(
            running,
            lead=(lambda: self._label(point)) if self.omits else None,
            filter_=OnePoint(running, PointText(point, self.form.indent, self.request.question), whole=self.small),
            ending=lambda branch: "" if running.discarded or running.dropped else self.form.ending(branch),
        )

    def _label(self, point: Point) -> str:
        """The label of a point whose turn has come; empty if it is of no use."""
        running = self.written.get(point.index)
        earlier = [self.written[other.index].text for other in self.shown]
        spoiled = self.small and self.request.on_missing == "note"
        if running is not None and (fault := of_no_use(point, running, earlier, self.question, spoiled=spoiled)):
            running.drop(fault)
            self.left_out += 1
            self.runner.warn(f"Point {point.index}, {point.title!r}, was left out: {fault}.")
            return ""
        heads = bool(point.section) and point.section not in {other.section for other in self.shown}
        self.shown.append(point)
        return self.form.label(point, point.index - self.left_out, heads=heads)
