"""The points of an outline: their branches, and their places in the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from stretto.request import Request
from stretto.strategies.branch import RunningBranch
from stretto.strategies.form import Form, PointText
from stretto.strategies.grouped import Group
from stretto.strategies.one_point import OnePoint, nothing_new, of_no_use
from stretto.strategies.outline import Point
from stretto.strategies.runner import Runner
from stretto.strategies.skeleton_calls import SkeletonCalls

FEWEST_POINTS = 2


class Points:
    """Starts points as they become known, and shows them in their order.

    Args:
        request: to answer.
        runner: starts the branches and merges their texts.
        calls: makes the specs of the branches.
        form: of the answer.
        wanted: how many points the question asks for; ``None`` where it leaves that open.
        all_known: they are started once all of them are known.

    Attributes:
        known: the points so far.
        opening: the sentence before the first one.
        written: their branches, by the index of the point.
        shown: those whose labels are in the answer.
        placed: a point has its place in the answer.
        held: the first point, written but not shown while there is no other.
    """

    def __init__(
        self, request: Request, runner: Runner, calls: SkeletonCalls, form: Form, *, wanted: int | None, all_known: bool
    ) -> None:
        self._request, self._runner, self._calls, self._form = request, runner, calls, form
        self._wanted, self._all_known = wanted, all_known
        self._omits = request.on_missing == "omit"  # a label waits for the first text of its point
        self._together = calls.together()  # points in one call
        self._gathered: list[Point] = []  # of the next such call
        self._groups: dict[int, Group] = {}  # by the points whose texts they write
        self._left_out = 0
        self.known: list[Point] = []
        self.opening = ""
        self.written: dict[int, RunningBranch] = {}
        self.shown: list[Point] = []
        self.placed = False
        self.held: Point | None = None

    async def gather(self, point: Point, *, hold: bool) -> None:
        """Start a point, or keep it until there are as many as one call is worth; ``hold`` as for `expand`."""
        if self._together == 1 or point.needs:
            await self.expand_gathered(hold=hold)
            await self.expand(point, hold=hold)
            return
        self._gathered.append(point)
        if len(self._gathered) == self._together:
            await self.expand_gathered(hold=hold)

    async def expand_gathered(self, *, hold: bool) -> None:
        """Start the points that were kept, by one call if there are several."""
        points, self._gathered = self._gathered, []
        if len(points) > 1:
            group = Group([point.index for point in points])
            self._groups |= {point.index: group for point in points}
            self._runner.start(self._calls.group(points, self.known, self._wanted, group))
        for point in points:
            await self.expand(point, hold=hold)

    async def expand(self, point: Point, *, hold: bool) -> None:
        """Give a point its place in the answer and start it; its title does not wait for its call to be made ready.

        ``hold``: it is the first one, and nobody knows yet whether there will be another.
        """
        if not hold:
            await self.show_held()
            await self._show_title(point)
        self.written[point.index] = self._start(point)
        if hold:
            self.held = point
        else:
            self._show_text(point)

    async def show_held(self) -> None:
        """Show the first point, which was held back until another one had begun."""
        if self.held is not None:
            point, self.held = self.held, None
            await self._show(point)

    async def expand_all(self, lost: Callable[[], bool], win: Callable[[], None]) -> bool:
        """Write all points of a weak model at once; show them in order once two are whole and say different things.

        Args:
            lost: whether another answer was there first.
            win: told that they are shown.

        Returns:
            whether there were two.
        """
        for point in self.known:
            self.written[point.index] = self._start(point)
        waiting, texts, question = list[Point](), list[str](), self._request.question
        for point in self.known:
            running = self.written[point.index]
            await running.ended()
            waiting.append(point)
            new = running.exception is None and not nothing_new(point, running.text, texts, question, weak=True)
            if new:
                texts.append(running.text)
            if lost():
                return False
            if len(texts) < FEWEST_POINTS:
                continue
            win()
            for each in waiting:
                await self._show(each)
            waiting.clear()
        if not waiting:
            return True
        if any(self.written[point.index].finish_reason in ("deadline", "budget") for point in waiting):
            for each in waiting:  # there is no time for another answer
                await self._show(each)
            return True
        return False

    def _start(self, point: Point) -> RunningBranch:
        parents = [self.written[index] for index in point.needs if index in self.written]
        count = len(self.known) if self._all_known else self._wanted
        spec = self._calls.point(point, self.known, count, parents)
        if (group := self._groups.get(point.index)) is not None:
            spec = replace(spec, given=partial(group.text, point.index))
        return self._runner.start(spec)

    async def _show(self, point: Point) -> None:
        await self._show_title(point)
        self._show_text(point)

    async def _show_title(self, point: Point) -> None:
        if point.index == 1 and self.opening:
            await self._runner.merge.add_at_once(self.opening + "\n\n")
        if not self._omits:
            await self._runner.merge.add_at_once(lambda: self._label(point))

    def _show_text(self, point: Point) -> None:
        self.placed = True
        running = self.written[point.index]
        text = PointText(point, self._form.indent, self._request.question)
        self._runner.merge.add_branch(
            running,
            lead=(lambda: self._label(point)) if self._omits else None,
            filter_=OnePoint(running, text, whole=self._calls.small),
            ending=lambda branch: "" if running.discarded or running.dropped else self._form.ending(branch),
        )

    def _label(self, point: Point) -> str:
        """The label of a point whose turn has come; empty if it is of no use."""
        running = self.written.get(point.index)
        earlier = [self.written[other.index].text for other in self.shown]
        weak, noted = self._calls.small, self._request.on_missing == "note"
        question = self._request.question
        if running is not None and (fault := of_no_use(point, running, earlier, question, weak=weak, noted=noted)):
            running.drop(fault)
            self._left_out += 1
            self._runner.warn(f"Point {point.index}, {point.title!r}, was left out: {fault}.")
            return ""
        heads = bool(point.section) and point.section not in {other.section for other in self.shown}
        self.shown.append(point)
        return self._form.label(point, point.index - self._left_out, heads=heads)
