"""The calls of a skeleton: the prompts and limits of its outline and of its points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal

from stretto.backends.base import ModelRequest
from stretto.prompts import GENERAL, SMALL
from stretto.prompts.weak_models import outline_ends, penalised, point_ends
from stretto.request import Request
from stretto.router.forecast import TYPICAL_TOKENS_PER_WORD
from stretto.router.parse import Parse
from stretto.strategies.branch import RunningBranch
from stretto.strategies.branch_spec import BranchSpec
from stretto.strategies.direct import asked, shared_by_all
from stretto.strategies.form import EXPECTED_POINTS, Form, words_for
from stretto.strategies.grouped import Group
from stretto.strategies.harm.openings import adds_nothing
from stretto.strategies.harm.watch import Watch
from stretto.strategies.limits import ROOM, THINKING, TOKENS_PER_WORD, share_of
from stretto.strategies.outline import CANCEL_LINE, Point
from stretto.strategies.runner import Runner
from stretto.strategies.sampling import TEMPERATURE
from stretto.strategies.skeleton_offer import SMALL_POINT, points_together

OUTLINES = {False: "skeleton", True: "skeleton_careful"}
OUTLINE_TOKENS = 400  # ten titles and a closing sentence
SMALL_OUTLINE = 120  # ten titles of a weak model, which may go on and on


class SkeletonCalls:
    """Makes the specs of the branches of one request.

    Attributes:
        small: the model is a weak one, with prompts of its own.
        careful: every point is to know the whole outline.
    """

    def __init__(self, request: Request, runner: Runner, parse: Parse, form: Form) -> None:
        self._request, self._runner, self._parse, self._form = request, runner, parse, form
        self.small = runner.capabilities.prompt_family == SMALL
        self.careful = request.preference == "careful" and not self.small
        self._effort: Literal["low"] | None = None if self.careful else "low"
        self._thinking = THINKING if runner.capabilities.reasoning else 0

    def outline(self, *, again: bool = False) -> BranchSpec:
        """The branch that writes the outline; ``again``: another one of a weak model, which draws its tokens."""
        number = "3 to 10 points, fewer if fewer say it all"
        if wanted := self._parse.points.asked:
            number = f"exactly {wanted} points, as the question asks for"
        changed: dict[str, Any] = {"max_tokens": OUTLINE_TOKENS + self._thinking, "stop": ()}
        if self.small:
            stop = outline_ends(self._runner.template(OUTLINES[self.careful]))
            # Drawn tokens lose its form.
            changed |= {"max_tokens": SMALL_OUTLINE + self._thinking, "stop": stop, "top_p": None}
            changed["temperature"] = TEMPERATURE if again else 0.0
        options = self._request.options.model_copy(update=changed)

        def prompt() -> ModelRequest:
            return self._asked(OUTLINES[self.careful], number=number)

        prompt()  # as in `direct_spec`

        def fallback_prompt(received: str) -> ModelRequest:
            if not (lines := received[: received.rfind("\n") + 1].strip()):
                return prompt()
            return self._asked("continue_outline", received=lines, number=number)

        return BranchSpec(
            id="outline",
            kind="outline",
            prompt=prompt,
            options=options,
            fallback_prompt=fallback_prompt,
            restart_marker=CANCEL_LINE,
            allow_refusal=True,
        )

    def point(
        self, point: Point, known: Sequence[Point], count: int | None, parents: Sequence[RunningBranch]
    ) -> BranchSpec:
        """The branch that writes a point.

        Args:
            point: to write.
            known: the points of the outline so far, this one included.
            count: of the points there will be; ``None`` while that is open.
            parents: it builds on.
        """
        known = tuple(known)
        words = words_for(self._request, self._parse, count, point.words)

        def prompt() -> ModelRequest:
            return self._point_prompt(point, known, words, parents)

        def fallback_prompt(received: str) -> ModelRequest:
            if received.strip():
                return self._asked("continue_point", title=point.full_title, received=received)
            return self._asked("point_alone", title=point.full_title, words=str(words))

        room = SMALL_POINT if self.small else int(words * TOKENS_PER_WORD * ROOM)
        room = min(room, self._request.part_tokens or sys.maxsize) + self._thinking
        room = share_of(self._request, room, count or EXPECTED_POINTS)
        seed = self._request.options.seed
        if seed is not None:  # points that draw the same random numbers begin with the same words
            seed += point.index
        others = [other.full_title for other in known]

        def says_nothing(text: str) -> bool:
            return adds_nothing(text, point.title, self._request.question)

        def watch() -> Watch:
            if self.small:
                return Watch(self._runner.leaks.search(), others, lists=False, says_nothing=says_nothing)
            return Watch(self._runner.leaks.search(), others)

        stop = point_ends(self._runner.template("point")) if self.small else ()

        return BranchSpec(
            id=f"point-{point.index}",
            kind="point",
            title=point.full_title,
            label=f"Point {point.index}, {point.title!r},",
            prompt=prompt,
            options=self._request.options.model_copy(update={"max_tokens": room, "stop": stop, "seed": seed}),
            after=parents,
            fallback_prompt=fallback_prompt,
            watch=watch,
        )

    def together(self) -> int:
        """How many points one call writes: more than one where a point takes less time than a first token."""
        request, load = self._request, self._runner.load
        if self.small or self.careful or request.race or self._runner.capabilities.prompt_family != GENERAL:
            return 1
        if request.options.max_tokens is not None or request.options.logprobs is not None:  # they count by the point
            return 1
        count = self._parse.points.asked or EXPECTED_POINTS
        words = words_for(request, self._parse, self._parse.points.asked)
        return points_together(load, words * TYPICAL_TOKENS_PER_WORD, count)

    def group(self, points: Sequence[Point], known: Sequence[Point], count: int | None, group: Group) -> BranchSpec:
        """The branch that writes several points in one call, for the branches of these points."""
        points, known = tuple(points), tuple(known)
        words = max(words_for(self._request, self._parse, count, point.words) for point in points)
        room = min(int(words * TOKENS_PER_WORD * ROOM), self._request.part_tokens or sys.maxsize)
        inside = {point.index for point in points}

        def prompt() -> ModelRequest:
            others = [other.full_title for other in known if other.index not in inside]
            return self._asked(
                "points",
                outline="\n".join(f"{each.index}. {each.full_title}" for each in known),
                points="\n".join(f"{each.index}. {each.full_title}" for each in points),
                first=str(points[0].index),
                words=str(words),
                others="Leave out what belongs to the other points: " + "; ".join(others) + "." if others else "",
                form=self._form.instruction,
            )

        numbers = f"{points[0].index}-{points[-1].index}"
        return BranchSpec(
            id=f"points-{numbers}",
            kind="points",
            title=f"Points {numbers}",
            prompt=prompt,
            options=self._request.options.model_copy(
                update={"max_tokens": room * len(points) + self._thinking, "stop": ()}
            ),
            watch=group.reader,
            on_end=lambda running: group.end(whole=running.exception is None and running.finish_reason == "stop"),
        )

    def _point_prompt(
        self, point: Point, known: Sequence[Point], words: int, parents: Sequence[RunningBranch]
    ) -> ModelRequest:
        others = [other.full_title for other in known if other.index != point.index]
        built_on = "\n\n".join(f"{parent.spec.title}:\n{parent.text}" for parent in parents if parent.text)
        return self._asked(
            "point",
            outline="\n".join(f"{known_point.index}. {known_point.full_title}" for known_point in known),
            index=str(point.index),
            title=point.full_title,
            words=str(words),
            others="Leave out what belongs to the other points: " + "; ".join(others) + "." if others else "",
            parents=f"It builds on these parts, which the reader has already read:\n\n{built_on}" if built_on else "",
            form=self._form.instruction,
        )

    def _asked(self, template: str, **values: str) -> ModelRequest:
        """A prompt that outline and points share up to its end: conversation, documents, question."""
        messages = asked(self._request, self._runner, template, **values)
        return ModelRequest(
            messages,
            effort=self._effort,
            shared=shared_by_all(self._request, messages),
            extra=penalised(self._runner.capabilities.penalty) if self.small else {},
        )
