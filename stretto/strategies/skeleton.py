"""``skeleton``: an outline first, then all its points at the same time.

After Skeleton-of-Thought (Ning et al., 2307.15337), with what came later at the level of prompts:
dependencies between points (Skeleton Graph Decoding, 2402.12280) and a length for each part
(PASTA, 2502.11517). New here: a point starts the moment its outline line is complete, while the
outline is still being written, and the direct answer may run against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from stretto.strategies.form import Form, form_of
from stretto.strategies.harm.phrases import Phrases
from stretto.strategies.harm.titles import Titles
from stretto.strategies.harm.watch import REPEATS, SpoiledError
from stretto.strategies.limits import tell_limits
from stretto.strategies.outline import CANCEL_LINE, OutlineParser, Point
from stretto.strategies.rival import Rival, is_worth_it, may_begin
from stretto.strategies.runner import Runner
from stretto.strategies.skeleton_calls import OUTLINES, SkeletonCalls
from stretto.strategies.skeleton_offer import offer_skeleton
from stretto.strategies.skeleton_points import FEWEST_POINTS, Points
from stretto.strategies.skeleton_warnings import tell_dropped, tell_missing, was_cut_short

LOST = "the direct answer was there first"
SENTENCES = "sentences stand in place of titles"


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
        self.stopped: Rival | None = None  # that was long enough for points to be tried instead
        self.numbers: dict[int, int] = {}  # of points in the outline: those in the answer, without what is left out
        self.points = Points(request, runner, self.calls, self.form, wanted=self.wanted, all_known=self.waits)

    async def run(self) -> None:
        proven = self.small and self.runner.known.is_proven(Kind.POINTS)
        if self.request.race or (self.small and is_worth_it(self.request, self.runner)):
            self.rival = self._begin_rival(self._end_lost)
        begins = proven and self.rival is not None  # the outline, at once
        if self.small and not begins and not self.request.race and await self._is_short():
            return
        outline = self.outline = self.runner.start(self.calls.outline())
        await self._read(outline)
        if self._is_poor(outline):
            outline = await self._read_another(outline)
        doubt = self._doubt()
        ran_out = outline.finish_reason in ("deadline", "budget")  # then there will be no second point
        if doubt or (len(self.points.known) < FEWEST_POINTS and not (self.points.written and ran_out)):
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
            begun = self.stopped = self._begin_rival(lambda: None)
        await begun.is_long()
        if begun.is_whole:
            self.runner.warn("Answered in one piece instead of by points: the direct answer is short.")
            await begun.show()
            return True
        if self.rival is None:
            begun.running.drop("the answer is long enough for points")
        return False

    def _begin_rival(self, ended: Callable[[], None]) -> Rival:
        return Rival(self.request, self.runner, ended, wanted=self.wanted)

    async def _read(self, outline: RunningBranch) -> None:
        """Read the outline to its end, or as far as it is of use."""
        while (piece := await outline.read()) and not self._lost():
            await self._know(self.parser.feed(piece))
            if self._doubt():
                break
            if self.titles.exhausted:
                outline.cancel("the outline only repeats itself")
                return
            if self.small and self.parser.begins_with_sentence:
                outline.cancel(SENTENCES)
                return
            if self.parser.another_begun and len(self.points.known) == len(self.parser.points):
                await self.points.show_held()
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
        if not self.small or self.wanted == 1 or len(self.points.known) >= FEWEST_POINTS or self._lost():
            return False
        written = outline.exception is None and outline.finish_reason in ("stop", "length")
        return (written or outline.discarded) and may_begin(self.request)

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
        if self.small and not await self.points.expand_all(
            self._lost, partial(self._win, "the points were there first")
        ):
            lost = self._lost()
            if not lost:
                self._note(held=False)
            await self._go_on_directly(outline, LOST if lost else "its points say the same, or could not be written")
            return
        if self.waits and not self.small:
            for point in self.points.known:
                await self.points.expand(point, hold=self._hold)
        await self.points.expand_gathered(hold=self._hold)
        await self.points.show_held()
        tell_limits(self.request, self.runner)
        outline.reported = True
        owes = not self.parser.cut and not (self.wanted and len(self.points.known) >= self.wanted)
        ended_here = self.parser.cut or self.titles.exhausted
        count, wanted = len(self.points.known), self.wanted
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
        if len(self.points.shown) > 1 or (self.points.shown and not self.small):
            return ""
        if self.parser.prose:
            return "the outline is running text"
        return self.titles.wrong[-1] if self.titles.hopeless else ""

    def _judge_points(self) -> None:
        """Note how the points turned out."""
        parts = [self.points.written[point.index] for point in self.points.known if point.index in self.points.written]
        wrong = [part.exception for part in parts if isinstance(part.exception, SpoiledError)]
        spoiled = sum(str(error) != REPEATS for error in wrong)  # one that says nothing is left out, and harms nobody
        given = sum(not (part.dropped or isinstance(part.exception, SpoiledError)) for part in parts)
        self._note(held=spoiled * 3 < len(parts) and given >= FEWEST_POINTS)

    def _note(self, *, held: bool) -> None:
        """Note for the router how this one went."""
        self.runner.known.note_standing(Kind.POINTS, self.request, held=held)

    def _last_points(self, outline: RunningBranch) -> list[Point]:
        """The points that the end of the outline completes; without half a title, if it broke off or was cut."""
        if outline.exception is not None or was_cut_short(outline):
            self.parser.feed(CANCEL_LINE)
        return self.parser.finish()

    @property
    def _hold(self) -> bool:
        """Whether a first point is held back, since nobody knows whether there will be another."""
        return not self.parser.another_begun

    def _lost(self) -> bool:
        """Whether the direct answer was whole before this one was decided, by points of a weak model or by titles."""
        decided = self.points.placed if self.small else len(self.points.known) >= FEWEST_POINTS
        return self.rival is not None and self.rival.is_whole and not decided

    def _end_lost(self) -> None:
        """Stop what is of no use once the direct answer has won."""
        if self._lost():
            for running in (*filter(None, (self.outline,)), *self.points.written.values()):
                running.cancel(LOST)

    def _win(self, reason: str) -> None:
        """Stop the direct answer."""
        if self.rival is not None:
            self.rival.running.drop(reason)

    async def _know(self, points: Sequence[Point]) -> None:
        """Take new points: announce them, and start them unless they wait for the others."""
        self.points.opening = self.parser.opening
        for found in points:
            if self._doubt() or (point := self._kept(found)) is None:
                continue
            self.points.known.append(point)
            await self.runner.announce(
                OutlinePointReady(branch_id=f"point-{point.index}", index=point.index, title=point.title)
            )
            if self.waits:
                continue
            if self.rival is None:
                await self.points.gather(point, hold=self._hold)
            elif len(self.points.known) >= FEWEST_POINTS:  # a race is decided by the second point
                self.rival.running.cancel("the outline was there first")
                for known in self.points.known:
                    if known.index not in self.points.written:
                        await self.points.expand(known, hold=self._hold)

    def _kept(self, found: Point) -> Point | None:
        """A point with its number among those that are kept; ``None`` if its title is no good."""
        if self.titles.take(found.title, found.section) is not None:
            self.parser.most = min(self.parser.most + 1, 2 * MOST_POINTS)  # another one may take its place
            return None
        if len(self.points.known) >= self.most and not found.section:
            return None
        number = self.numbers[found.index] = len(self.points.known) + 1
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
            reason = f"the outline had {'one point' if self.points.known else 'no points'}"
        if (
            self.points.placed and self.points.held is None
        ):  # its second line had begun: the reader has the beginning of a list
            self.runner.warn(f"Continued in one piece instead of by points: {reason}.")
            await self._go_on_from(self.points.known[0])
            return
        for running in self.points.written.values():
            running.drop("its outline had no other point")
        self.runner.warn(f"Answered in one piece instead of by points: {reason}.")
        if self.stopped is not None and await self.stopped.go_on():
            return
        if self.rival is None or self.rival.failed:
            if self.rival is not None:
                self.rival.running.drop("the answer is written anew")
            await Direct().run(self.request, self.route, self.runner)
            return
        await self.rival.show()

    async def _go_on_from(self, point: Point) -> None:
        """Write the rest of an answer of which the reader has this one point."""
        first, spec = self.points.written[point.index], direct_spec(self.request, self.runner)

        def rest(received: str = "") -> ModelRequest:
            opening = f"{self.parser.opening}\n\n" if self.parser.opening else ""
            before = f"{opening}{self.form.label(point, heads=True)}{first.text}"
            return rest_of(self.request, self.runner, f"{before}\n{received}" if received else before)

        running = self.runner.start(replace(spec, prompt=rest, fallback_prompt=rest, after=(first,), standalone=False))
        self.runner.merge.add_branch(running, lead=lambda: "\n")
        await self.runner.merge.finish()
