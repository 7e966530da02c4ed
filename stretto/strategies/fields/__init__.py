"""``fields``: a record whose long fields are written in parallel.

A JSON schema already is an outline, so no call plans the answer. `record_plan` derives the calls from it: one writes
the short fields; then each long text, list and object gets a call with those values and its part of the schema.
`record_run` starts them and lays out one JSON text in the order of the schema. A record that cannot be split is
answered by `Direct`.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.values.request import Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.base import StrategyResult
    from stretto.strategies.runtime.runner import Runner


class Fields:
    """Writes the short fields first, then each long field in a separate call."""

    name = "fields"

    def offer(self, case: Case) -> Offer | None:
        """Offer to write a requested record in several calls if its fields are long enough."""
        from stretto.strategies.fields.record_offer import offer_fields  # noqa: PLC0415 - keeps `import stretto` light

        return offer_fields(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the fields separately, or the record in one piece if it cannot be split."""
        from stretto.strategies.fields.record_run import write_record  # noqa: PLC0415 - likewise

        return await write_record(request, route, runner)
