"""``items``: one operation on every item of a list, or several samples of one kind, at the same time.

After ParallelPrompt (2506.18728): a request is taken apart into an instruction, a shared context and
items or a count. By code where its form shows them (`splitting`), else by a plan of the model that is
checked against the request (`plan`); what cannot be taken apart safely is answered by `Direct`.

Each item is a call of its own, as long as there are not more of them than calls that run side by side;
then short items share a call, and a group whose answer has not one result for each of its items is
asked for again, item by item. How samples are kept apart is told in `samples`. The results stand in
the order of the items and in the form that is asked for (`layout`).
"""

from __future__ import annotations

from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.fan_out import FanOut
from stretto.strategies.items.offer import offer_items


class Items:
    """One call an item, or a few samples a call; turns into `Direct` where that would not be safe."""

    name = "items"

    def offer(self, case: Case) -> Offer:
        """Offer a call for each item where the request shows items."""
        return offer_items(case)

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:
        """Take the request apart, start a branch for each part, merge them in order."""
        # Imported when first needed: the patterns of the splitter take a while to compile.
        from stretto.strategies.items.run import write_items  # noqa: PLC0415

        await write_items(request, route, runner)
