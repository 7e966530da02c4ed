"""``items``: one operation on every item of a list, or several samples of one kind, in parallel.

After ParallelPrompt (2506.18728): a request is split into an instruction, a shared context, and items or a count. Code
does this if the form of the request allows it (`splitting`), else a model writes a plan that is checked against the
request (`plan`). A request that cannot be split safely is answered by `Direct`.

Each item gets a call. If there are more items than parallel calls, short items share one, and a group whose reply does
not have exactly one result per item is requested again, item by item. `samples` describes how duplicate samples are
avoided. The results appear in the order of the items and in the requested form (`layout`).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.items.items_offer import ItemsOptions, offer_items
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request
from stretto.values.route import Route


class Items:
    """One call per item, or a few samples per call; falls back to `Direct` if that would not be safe."""

    name = "items"
    options = ItemsOptions

    def offer(self, case: Case) -> Offer:
        """Offer one call per item if the request contains items or asks for samples."""
        return offer_items(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Split the request, start a branch for each part, and merge them in order."""
        # Imported when first needed: the patterns of the splitter take a while to compile.
        from stretto.strategies.items.items_answer import write_items  # noqa: PLC0415

        return await write_items(request, route, runner)
