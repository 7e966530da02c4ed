"""``rewrite``: a given text is changed in pieces that are written in parallel, or only by edits.

Translating, correcting, shortening, simplifying, another tone, renaming, reformatting, annotating, redacting.
The router separates the text from the task (`stretto.router.given`), `text_pieces` cuts it, and `kept_text` compares
each piece with its source.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.rewrite.rewrite_offer import RewriteOptions, offer_rewrite
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request
from stretto.values.route import Route


class Rewrite:
    """Writes pieces of a given text in parallel, or only what changes; falls back to `Direct` if no text is given."""

    name = "rewrite"
    options = RewriteOptions

    def offer(self, case: Case) -> Offer | None:
        """Offer to change the text of the request, if it gives one."""
        return offer_rewrite(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the pieces and merge them in order."""
        # Imported when first needed: its patterns take a while to compile.
        from stretto.strategies.rewrite.rewrite_answer import write_rewritten  # noqa: PLC0415

        return await write_rewritten(request, route, runner)
