"""Strategy ``skeleton``: first a plan of the answer, then its parts in parallel.

``sections``: the plan begins with the answer's opening, which is shown as it streams, and assigns content to each
section (``plan.py``, ``sections.py``). ``points``: Skeleton-of-Thought as in the paper (``outline.py``, ``points.py``).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from stretto.values.request import Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.base import StrategyResult
    from stretto.strategies.runtime.runner import Runner


class SkeletonOptions(BaseModel):
    """Options of ``skeleton``.

    Attributes:
        form: "sections" of a plan, or the "points" of an outline as in Skeleton-of-Thought. The demonstration model was
            trained on points and writes them by default; all other models are asked for sections.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    form: Literal["sections", "points"] | None = None


class Skeleton:
    """Writes an answer from a plan, its parts in parallel."""

    name = "skeleton"
    options = SkeletonOptions

    def offer(self, case: Case) -> Offer:
        """Offer it if parts suit the question and save time."""
        from stretto.strategies.skeleton.skeleton_offer import offer_skeleton  # noqa: PLC0415 - keeps `import stretto` light

        return offer_skeleton(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the parts, or a direct answer if the model writes no plan."""
        from stretto.router.parse import parse_of  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.strategies.skeleton.points import PointsAnswer  # noqa: PLC0415 - likewise
        from stretto.strategies.skeleton.sections import ListAnswer, SectionsAnswer  # noqa: PLC0415 - likewise
        from stretto.strategies.skeleton.skeleton_offer import asks_for_list, is_by_points  # noqa: PLC0415 - likewise

        by_points = is_by_points(request, runner.capabilities.prompt_family)
        parse = parse_of(request, route)
        written = PointsAnswer if by_points else ListAnswer if asks_for_list(parse) else SectionsAnswer
        return await written(request, route, runner, parse).run()
